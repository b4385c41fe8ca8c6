//! Long transfers that are cut, and what of them is fetched again.

use std::collections::BTreeMap;

use fettle_supply::testing::{FaultyProxy, Misbehaviour};
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use serde_json::json;

use crate::{POLICY, PROGRAMS};

/// Bytes of the model, and where its transfer is cut: at nine tenths.
const SIZE: usize = 20_000_000;
const CUT: usize = 18_000_000;

/// Most bytes that were on their way, and neither written nor durable, when the host was killed.
const ON_THEIR_WAY: u64 = 4 << 20;

/// Pulls a model from a registry.
pub(crate) fn pull(registry: &str) -> String {
    format!(
        "operation_type: test.transfer\nversion: v1\nbackend_type: node_agent\ninput_schema: {{ type: object }}\nsteps:\n  - id: pull\n    uses: artifact.pull_oci@v1\n    with: {{ reference: '${{{{ inputs.model }}}}', destination: models/long }}\n    grants: {{ transfer: {{ hosts: ['{registry}'] }}, files: {{ write: [models] }} }}\n"
    )
}

/// Bytes that do not compress, and of which every part differs.
pub(crate) fn content(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

/// Cuts a transfer by killing its host at nine tenths, does something to what is there, and lets the host go on. Answers
/// where it asked the registry to go on.
async fn cut(spoil: impl Fn(&mut Vec<u8>)) -> Option<u64> {
    let supply = Supply::with(&["artifact-pull-oci"]).await;
    let model = supply.push_files("models/long", &BTreeMap::from([("weights", content(SIZE))])).await;
    let proxy = FaultyProxy::start(supply.address()).await;
    let through = model.to_string().replace(supply.address(), proxy.address());
    let mut fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(&pull(proxy.address()), POLICY).await).await;
    let manifest = model.to_string();
    let manifest = manifest.rsplit_once('@').unwrap().1;
    proxy.misbehave("blobs/", Misbehaviour::Stall(CUT));
    let id = fleet.submit("test.transfer", &json!({"model": through})).await;
    let partial = || {
        let entries = std::fs::read_dir(fleet.node_file("models/long")).ok()?;
        let mut files = entries.filter_map(Result::ok).map(|entry| entry.path());
        files.find(|path| path.to_string_lossy().ends_with("fettle-partial"))
    };
    let written = || partial().and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
    eventually("nine tenths to be there", PATIENCE, || async {
        (written() + ON_THEIR_WAY >= CUT as u64).then_some(())
    })
    .await;
    let path = partial().unwrap();
    fleet.host.as_mut().unwrap().kill();
    let mut there = std::fs::read(&path).unwrap();
    spoil(&mut there);
    std::fs::write(&path, &there).unwrap();
    proxy.behave();
    let before = proxy.heads().len();
    fleet.start_host();
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}\n{}", fleet.logs());
    assert_eq!(step(&operation, "pull")["settlement"]["finding"], "not_done", "{operation:#}");
    assert!(std::fs::read(fleet.node_file("models/long/weights")).unwrap() == content(SIZE), "other bytes arrived");
    let heads = proxy.heads();
    let of_blob = heads[before..].iter().filter(|head| head.contains("blobs/") && !head.contains(manifest));
    of_blob
        .filter_map(|head| {
            let head = head.to_lowercase();
            head.split("range: bytes=").nth(1)?.split('-').next()?.parse().ok()
        })
        .next_back()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_is_cut_at_nine_tenths_goes_on_from_there_after_a_restart() {
    let from = cut(|_| ()).await.expect("the rest was asked for");
    let again = CUT as u64 - from;
    println!("cut at {CUT} of {SIZE} bytes, went on from {from}: {again} bytes were fetched again");
    assert!(again <= ON_THEIR_WAY, "{again} bytes were fetched again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_transfer_left_is_not_trusted_but_hashed() {
    // It asks for the rest, finds that the whole is wrong, and fetches everything.
    cut(|there| there[1_000_000] ^= 1).await;
}
