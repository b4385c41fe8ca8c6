//! A registry that fails is never taken for one that says no, and nothing waits for ever.

use std::collections::BTreeMap;

use crate::support::{WASM, World, options, verdict};
use fettle_model::digest::Digest;
use fettle_supply::{
    Artifact, ArtifactKind, Outage, RegistryClient, RegistryOptions, SignatureFormat, SupplyError, Verdict,
    testing::{FaultyProxy, Misbehaviour},
};

type Expected = fn(&Outage) -> bool;

#[tokio::test]
async fn every_way_to_fail_at_every_place_is_unavailable() {
    let world = World::new().await;
    let reference = world.publish().await;
    let places = [
        format!("manifests/{}", reference.digest),
        format!("sha256-{}.sig", reference.digest.hex()),
        format!("blobs/{}", Digest::of(WASM)),
    ];
    let ways: [(Misbehaviour, Expected); 10] = [
        (Misbehaviour::Truncate(0), |outage| matches!(outage, Outage::BrokeOff { .. })),
        (Misbehaviour::Truncate(20), |outage| matches!(outage, Outage::BrokeOff { .. })),
        (Misbehaviour::Stall(0), |outage| matches!(outage, Outage::Silent(_))),
        (Misbehaviour::Stall(20), |outage| matches!(outage, Outage::Silent(_))),
        (Misbehaviour::Drip(100), |outage| matches!(outage, Outage::Slow(_))),
        (Misbehaviour::Status(500, "database is down".to_owned()), |outage| {
            outage.to_string() == "the registry answered 500: database is down"
        }),
        (Misbehaviour::Status(401, String::new()), |outage| matches!(outage, Outage::NotAllowed(401))),
        (Misbehaviour::Status(403, String::new()), |outage| matches!(outage, Outage::NotAllowed(403))),
        (Misbehaviour::Status(429, String::new()), |outage| outage.is_transient()),
        (
            Misbehaviour::Redirect("http://127.0.0.1:1/evil?secret".to_owned()),
            |outage| matches!(outage, Outage::Redirected(to) if to == "http://127.0.0.1:1/evil"),
        ),
    ];
    for (way, expected) in ways {
        for place in &places {
            world.proxy.misbehave(place, way.clone());
            let error = world.get(&reference).await.unwrap_err();
            let SupplyError::Unavailable { reason, .. } = &error else { panic!("{way:?} at {place}: {error}") };
            assert!(expected(reason), "{way:?} at {place}: {error}");
        }
    }
    world.proxy.behave();
    world.get(&reference).await.unwrap();
}

#[tokio::test]
async fn a_list_of_referrers_that_fails_is_not_an_empty_one() {
    let world = World::new().await;
    let reference = world.push().await;
    let direct = world.direct().at(reference.digest);
    world.client.sign_as(&direct, &world.key, SignatureFormat::Bundle, &BTreeMap::new()).await.unwrap();
    let (api, tag) =
        (format!("referrers/{}", reference.digest), format!("manifests/sha256-{}", reference.digest.hex()));
    let of = |result: Result<Artifact, SupplyError>| result.unwrap_err().verdict();
    for place in [&api, &tag] {
        for status in [500, 503, 429, 403, 400] {
            world.proxy.misbehave(place, Misbehaviour::Status(status, String::new()));
            assert_eq!(of(world.get(&reference).await), Some(Verdict::Unavailable), "{status} at {place}");
        }
        world.proxy.misbehave(place, Misbehaviour::Redirect("http://127.0.0.1:1/".to_owned()));
        assert_eq!(of(world.get(&reference).await), Some(Verdict::Unavailable), "{place}");
        world.proxy.misbehave(place, Misbehaviour::Answer("text/html".to_owned(), b"<html>".to_vec()));
        assert_eq!(of(world.get(&reference).await), Some(Verdict::Malformed), "{place}");
    }
    world.proxy.misbehave(&tag, Misbehaviour::Stall(20));
    assert_eq!(of(world.get(&reference).await), Some(Verdict::Unavailable));
    for status in [404, 405, 501] {
        world.proxy.misbehave(&api, Misbehaviour::Status(status, String::new()));
        world.get(&reference).await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_layer_is_unavailable_and_a_missing_manifest_too() {
    let world = World::new().await;
    let reference = world.publish().await;
    world.proxy.misbehave(&format!("blobs/{}", Digest::of(WASM)), Misbehaviour::Status(404, String::new()));
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Unavailable);
    let nothing = world.repository().at(Digest::of(b"nothing"));
    assert_eq!(verdict(&nothing, world.get(&nothing).await), Verdict::Unavailable);
}

#[tokio::test]
async fn a_registry_that_is_down_is_unavailable() {
    let mut world = World::new().await;
    let reference = world.publish().await;
    let direct = world.direct().at(reference.digest);
    world.registry.stop();
    let error = world.get(&direct).await.unwrap_err();
    assert!(matches!(&error, SupplyError::Unavailable { reason: Outage::Down, source: Some(_), .. }), "{error}");
    assert!(error.is_transient());
    assert_eq!(verdict(&direct, Err(error)), Verdict::Unavailable);
    world.registry.restart();
    world.get(&direct).await.unwrap();
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let world = World::new().await;
    let reference = world.publish().await;
    for place in [format!("manifests/{}", reference.digest), format!("blobs/{}", Digest::of(WASM))] {
        world.proxy.misbehave(&place, Misbehaviour::Endless);
        let error = world.get(&reference).await.unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
        assert_eq!(verdict(&reference, Err(error)), Verdict::Malformed);
    }
}

#[tokio::test]
async fn a_shorter_layer_is_broken_off_or_changed_as_the_registry_says() {
    let world = World::new().await;
    let reference = world.publish().await;
    let layer = format!("blobs/{}", Digest::of(WASM));
    world.proxy.misbehave(&layer, Misbehaviour::EndEarly(20));
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Unavailable);
    world.proxy.misbehave(&layer, Misbehaviour::Shorten(20));
    assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Malformed);
}

#[tokio::test]
async fn redirects_lead_nowhere() {
    let world = World::new().await;
    let reference = world.publish().await;
    let elsewhere = FaultyProxy::start(world.registry.address()).await;
    for place in ["manifests/", "blobs/"] {
        let target = format!("http://{}/v2/steps/render/{place}{}", elsewhere.address(), Digest::of(WASM));
        world.proxy.misbehave(place, Misbehaviour::Redirect(target));
        assert_eq!(verdict(&reference, world.get(&reference).await), Verdict::Unavailable);
    }
    world.proxy.misbehave("uploads/", Misbehaviour::UploadTo(format!("http://{}/v2/x", elsewhere.address())));
    let error = world.client.push(ArtifactKind::Step, &world.repository(), &b"\0asm new"[..], None).await.unwrap_err();
    assert!(matches!(error, SupplyError::Unavailable { reason: Outage::Redirected(_), .. }), "{error}");
    assert_eq!(elsewhere.requests(), 0);
}

#[tokio::test]
async fn requests_for_one_artifact_at_once_are_one_fetch() {
    let world = World::new().await;
    let reference = world.publish().await;
    let supplier = world.supplier();
    let before = world.proxy.requests();
    let all = futures::future::join_all((0..50).map(|_| supplier.artifact(ArtifactKind::Step, &reference))).await;
    assert!(all.iter().all(|result| result.as_ref().is_ok_and(|artifact| artifact.content == WASM)));
    let heads = world.proxy.heads();
    // Manifest, signature manifest, signature, referrers, their tag, layer, configuration.
    assert_eq!(world.proxy.requests() - before, 7, "{heads:#?}");
}

#[tokio::test]
async fn a_fetch_goes_on_when_who_asked_first_gives_up_and_stops_when_all_do() {
    let world = World::new().await;
    let reference = world.publish().await;
    let supplier = world.supplier();
    world.proxy.misbehave("manifests/", Misbehaviour::Stall(0));
    let mut first = Box::pin(supplier.artifact(ArtifactKind::Step, &reference));
    let mut second = Box::pin(supplier.artifact(ArtifactKind::Step, &reference));
    assert!(futures::poll!(first.as_mut()).is_pending());
    assert!(futures::poll!(second.as_mut()).is_pending());
    drop(first);
    let error = second.await.unwrap_err();
    assert!(matches!(error, SupplyError::Unavailable { reason: Outage::Silent(_), .. }), "{error}");
    // One that everybody gave up on does not stand in the way of the next.
    let mut third = Box::pin(supplier.artifact(ArtifactKind::Step, &reference));
    assert!(futures::poll!(third.as_mut()).is_pending());
    drop(third);
    world.proxy.behave();
    supplier.artifact(ArtifactKind::Step, &reference).await.unwrap();
}

/// Every name is this machine.
struct Inside;

impl fettle_egress::Lookup for Inside {
    fn lookup(&self, _: &str) -> fettle_egress::Found {
        Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
    }
}

#[tokio::test]
async fn a_registry_whose_name_leads_inside_is_not_asked_unless_the_policy_says_so() {
    let world = World::new().await;
    let published = world.publish().await;
    let port = world.proxy.address().rsplit_once(':').unwrap().1.to_owned();
    let reference = published.to_string().replace(world.proxy.address(), &format!("registry.test:{port}"));
    let reference = reference.parse().unwrap();
    let asked = world.proxy.requests();
    for (egress, reached) in [("{}", false), ("private: { registry.test: [127.0.0.1/32] }", true)] {
        let egress = fettle_model::document::read(egress).unwrap();
        let guard = fettle_egress::Guard::of_policy(&egress).with_lookup(std::sync::Arc::new(Inside));
        let plain_http = [format!("registry.test:{port}")].into();
        let client = RegistryClient::new(RegistryOptions { guard, plain_http, ..options() }).unwrap();
        let fetched = client.fetch_manifest(&reference, 1 << 20).await;
        assert_eq!((fetched.is_ok(), world.proxy.requests() > asked), (reached, reached), "{fetched:?}");
        let said = fetched.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(reached || said.contains("`registry.test` is at 127.0.0.1, a loopback address"), "{said}");
    }
}

#[tokio::test]
async fn proxy_variables_are_not_obeyed() {
    let world = World::new().await;
    let reference = world.publish().await;
    let trap = FaultyProxy::start(world.registry.address()).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "outages::child_fetches_a_manifest", "--ignored", "--nocapture"])
        .envs(
            ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"]
                .map(|name| (name, format!("http://{}", trap.address()))),
        )
        .env("FETTLE_TEST_REFERENCE", world.direct().at(reference.digest).to_string());
    let output = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(trap.requests(), 0);
}

#[tokio::test]
#[ignore = "the other half of `proxy_variables_are_not_obeyed`"]
async fn child_fetches_a_manifest() {
    let Ok(reference) = std::env::var("FETTLE_TEST_REFERENCE") else { return };
    let reference = reference.parse().unwrap();
    RegistryClient::new(options()).unwrap().fetch_manifest(&reference, 1 << 20).await.unwrap();
}
