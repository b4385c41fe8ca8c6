//! Certificates of a host that works: they are renewed, their authority is replaced, and they are revoked.

use std::{path::Path, process::Command};

use fettle_identity::Peer;
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{POLICY, PROGRAMS, RENDER, SLEEP, interruptions::children};

/// The serial number and the authority of the node's certificate.
pub(crate) async fn certificate(fleet: &Fleet) -> Option<(String, String)> {
    let node = fleet.get_as_admin("/api/v1/nodes/node-1").await?;
    let text = |name: &str| node["certificate"][name].as_str().map(str::to_owned);
    Some((text("serial")?, text("authority")?))
}

/// Runs `fettle-plane authority` on the plane's data; what it prints.
pub(crate) fn authority(fleet: &Fleet, arguments: &[&str]) -> String {
    administer(fleet, &[&["authority"], arguments].concat())
}

/// The same, which may fail.
pub(crate) fn try_authority(fleet: &Fleet, arguments: &[&str]) -> std::process::Output {
    try_to_administer(fleet, &[&["authority"], arguments].concat())
}

/// Runs `fettle-plane` on the plane's data; what it prints.
fn administer(fleet: &Fleet, arguments: &[&str]) -> String {
    let output = try_to_administer(fleet, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "what an administrator does")]
fn try_to_administer(fleet: &Fleet, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(PROGRAMS.plane);
    command.envs(fleet.planes.environment.iter().cloned());
    command.arg("--data").arg(fleet.planes.directory()).args(arguments).output().unwrap()
}

/// Runs operations one after the other until this many certificates were seen. Every one succeeds, each step accepted
/// once.
pub(crate) async fn work_through(fleet: &Fleet, certificates: usize) -> usize {
    let mut seen = std::collections::BTreeSet::new();
    let mut operations = 0;
    while seen.len() < certificates {
        let ended = fleet.run("test.render", &json!({"text": format!("number {operations}")})).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}\n{}", fleet.logs());
        for name in ["render", "after"] {
            assert_eq!(step(&ended, name)["attempt_number"], 1, "{ended:#}");
        }
        operations += 1;
        seen.extend(certificate(fleet).await.map(|(serial, _)| serial));
    }
    operations
}

async fn fleet(supply: &Supply, lifetime: &str) -> Fleet {
    let fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    started(fleet, supply, lifetime).await
}

/// Starts what was prepared, and registers what is worked with.
pub(crate) async fn started(mut fleet: Fleet, supply: &Supply, lifetime: &str) -> Fleet {
    fleet.planes.arguments.extend(["--certificate-lifetime".to_owned(), lifetime.to_owned()]);
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    for definition in [SLEEP, RENDER] {
        fleet.register(&supply.publish(definition, POLICY).await).await;
    }
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_while_the_host_works_and_no_report_fails() {
    let supply = Supply::with(&["command-exec-allowlisted", "file-render", "noop"]).await;
    // A third of it is left when the next one is asked for: more than a busy machine stands still.
    let fleet = fleet(&supply, "15s").await;
    let long = fleet.submit("test.sleep", &json!({"seconds": 12})).await;
    work_through(&fleet, 3).await;
    let ended = fleet.ended(&long).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}\n{}", fleet.logs());
    assert_eq!(step(&ended, "sleep")["attempt_number"], 1, "{ended:#}");
    let log = fleet.logs();
    assert!(!log.contains("the stream of leases broke"), "moving to a newer connection is no break: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_is_replaced_with_the_host_connected_and_nothing_restarted() {
    let supply = Supply::with(&["command-exec-allowlisted", "file-render", "noop"]).await;
    let fleet = fleet(&supply, "1h").await;
    let (first, old) = certificate(&fleet).await.unwrap();
    authority(&fleet, &["begin-rotation"]);
    let other_than = async |serial: &str| {
        eventually("a newer certificate", PATIENCE, async || {
            certificate(&fleet).await.filter(|(newer, _)| newer != serial)
        })
        .await
    };
    // The host hears of the second authority, and believes both.
    let (second, still) = other_than(&first).await;
    assert_eq!(still, old);
    work_through(&fleet, 1).await;
    authority(&fleet, &["activate"]);
    let (_, new) = other_than(&second).await;
    assert_ne!(new, old);
    authority(&fleet, &["finish-rotation", "--keep", &new]);
    let listed: Value = serde_json::from_str(&authority(&fleet, &["show", "--json"])).unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    // One more, of the only authority there is.
    let (serial, _) = certificate(&fleet).await.unwrap();
    other_than(&serial).await;
    assert!(work_through(&fleet, 1).await > 0);
    assert!(!fleet.logs().contains("the stream of leases broke"), "{}", fleet.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_off_for_longer_than_its_certificate_counts_comes_back_by_itself() {
    let supply = Supply::with(&["command-exec-allowlisted", "file-render", "noop"]).await;
    let mut fleet = fleet(&supply, "3s").await;
    fleet.host.as_mut().unwrap().kill();
    let kept = std::fs::read_to_string(fleet.host_directory().join("certificate.json")).unwrap();
    let pem: Value = serde_json::from_str(&kept).unwrap();
    let shown = fettle_identity::from_pem(pem["certificate"].as_str().unwrap()).unwrap();
    let until = Peer::read(&shown).unwrap().validity.until;
    eventually("the certificate to expire", PATIENCE, async || (until < Timestamp::now()).then_some(())).await;
    fleet.start_host();
    assert!(work_through(&fleet, 1).await > 0);
    let back = std::fs::read_to_string(fleet.host_directory().join("certificate.json")).unwrap();
    assert_ne!(kept, back);
    assert!(fleet.logs().contains("coming back with an expired certificate"), "{}", fleet.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_host_ends_with_the_reason_and_is_not_let_in_again() {
    let supply = Supply::with(&["command-exec-allowlisted", "file-render", "noop"]).await;
    let mut fleet = fleet(&supply, "1h").await;
    fleet.submit("test.sleep", &json!({"seconds": 600})).await;
    eventually("the command to run", PATIENCE, async || (children(&fleet) > 0).then_some(())).await;
    fleet.revoke("node-1").await;
    for _ in 0..2 {
        let ended = eventually("the host to end", PATIENCE, async || fleet.host.as_mut().unwrap().ended()).await;
        assert_eq!(ended.code(), Some(1));
        assert!(fleet.logs().contains("node `") && fleet.logs().contains("is revoked"), "{}", fleet.logs());
        assert_eq!(children(&fleet), 0, "what ran is over");
        fleet.start_host();
    }
}

/// Nobody but its owner may read what a host shows of itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_host_is_its_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let supply = Supply::with(&["noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fleet.host_directory().join("certificate.json")), 0o600);
    let key = fleet.secrets().pop().unwrap();
    let mut places = vec![fleet.planes.directory().to_owned()];
    let mut looked_at = 0;
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                places.push(entry.path());
            } else if let Ok(bytes) = std::fs::read(entry.path()) {
                looked_at += 1;
                let holds = bytes.windows(key.len()).any(|window| window == key.as_bytes());
                assert!(!holds, "the plane has the node's key in {}", entry.path().display());
            }
        }
    }
    assert!(looked_at > 3);
}

/// Runs `fettle-host generate-key`: the files of the private and of the public key.
#[expect(clippy::disallowed_methods, reason = "what an administrator does")]
fn generate_key(directory: &Path) -> [String; 2] {
    let [private, public] = ["node.key", "node.pub"].map(|name| directory.join(name).display().to_string());
    let output = Command::new(PROGRAMS.host).args(["generate-key", "--output", &private]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    std::fs::write(&public, output.stdout).unwrap();
    [private, public]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_let_in_once_by_a_key_that_the_plane_was_told_of_and_by_no_other() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    let [private, public] = generate_key(supply.directory());
    let fingerprint = administer(&fleet, &["join-token", "create", "--for-key", &public, "--label", "rack=7"]);
    fleet.planes.start().await;
    let stranger = tempfile::tempdir().unwrap();
    let by = |file: &str| ["--key-file", file, "--authority", fingerprint.trim()].map(str::to_owned).to_vec();
    let ends = async |fleet: &mut Fleet, why: &str| {
        fleet.start_host();
        eventually("the host to end", PATIENCE, async || fleet.host.as_mut().unwrap().ended()).await;
        assert!(fleet.logs().contains(why), "{why}: {}", fleet.logs());
    };
    fleet.host_joins_by = by(&generate_key(stranger.path())[0]);
    ends(&mut fleet, "a key that the plane was told of").await;
    fleet.host_joins_by = by(&private);
    fleet.start_host();
    fleet.node_online().await;
    fleet.register(&supply.publish(RENDER, POLICY).await).await;
    assert_eq!(fleet.run("test.render", &json!({"text": "hello"})).await["status"], "succeeded", "{}", fleet.logs());
    assert_eq!(fleet.get_as_admin("/api/v1/nodes/node-1").await.unwrap()["labels"]["rack"], "7");
    // Whoever copies the key later has nothing: it was used.
    fleet.host.as_mut().unwrap().kill();
    std::fs::remove_dir_all(fleet.host_directory()).unwrap();
    ends(&mut fleet, "nobody has joined with").await;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&private, open).unwrap();
    ends(&mut fleet, "others than its owner may read it").await;
}
