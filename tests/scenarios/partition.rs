//! A host that no packet reaches, for longer than its lease, and that comes back. Everything happens in a network
//! namespace that the test makes for itself.
#![expect(clippy::disallowed_methods, reason = "a test makes a namespace, and starts itself in it")]

use std::process::Command;

use fettle_store::chain::Chain;
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use serde_json::{Value, json};

use crate::{POLICY, PROGRAMS, SLEEP};

/// Says that this process is in the namespace.
const INSIDE: &str = "FETTLE_TEST_IN_NAMESPACE";

/// Where only the host looks for the plane: what goes there is what is dropped.
const SEEN_FROM_HOST: &str = "127.0.0.2";

fn ran(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

/// Whether the test is to go on here. Outside it starts itself once more inside a namespace, and insists that it passes.
fn inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        assert!(ran("ip", &["link", "set", "lo", "up"]), "the loopback of the namespace");
        return true;
    }
    let possible = ran("unshare", &["--net", "true"]) && ran("iptables", &["--version"]);
    if !possible {
        let why = "this needs network namespaces and iptables: run it as root, apt-get install iptables iproute2";
        assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "{why}");
        eprintln!("SKIPPED {name}: {why}");
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let mut again = Command::new("unshare");
    again.arg("--net").arg(program).args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    assert!(again.status().unwrap().success(), "{name} failed in its namespace");
    false
}

/// Drops everything between host and plane, or nothing any more. Connections are not closed: nobody is told.
fn apart(apart: bool) {
    let what = if apart { "-A" } else { "-D" };
    for direction in ["-d", "-s"] {
        assert!(ran("iptables", &[what, "OUTPUT", direction, SEEN_FROM_HOST, "-j", "DROP"]), "iptables {what}");
    }
}

async fn fleet(supply: &Supply) -> Fleet {
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    fleet.planes.listen_at("0.0.0.0:0");
    fleet.planes.arguments.push("--allow-remote".to_owned());
    fleet.plane_seen_from_host = Some(SEEN_FROM_HOST.to_owned());
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet
}

/// Who did this to leases, by the audit trail, which is whole.
async fn audited(fleet: &Fleet, action: &str) -> Vec<String> {
    let administration = fleet.administration().await;
    let rows = administration.audit(None).await.unwrap();
    administration.close().await;
    let mut chain = Chain::default();
    rows.iter().for_each(|row| chain.follow(row).unwrap());
    rows.into_iter().filter(|row| row.action == action).map(|row| row.actor).collect()
}

/// Each step's result was accepted once.
async fn accepted_once(fleet: &Fleet, operation: &Value) {
    let id = operation["operation_id"].as_str().unwrap();
    let events = fleet.get(&format!("/operations/{id}/events?page_size=1000")).await.unwrap();
    for name in ["sleep", "after"] {
        let over = |event: &&Value| {
            event["payload"]["current_step_name"] == name && event["payload"]["step_status"] == "succeeded"
        };
        assert_eq!(events["items"].as_array().unwrap().iter().filter(over).count(), 1, "{name}: {events:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_apart_past_its_lease_goes_on_and_is_believed_when_it_is_back() {
    let name = "partition::a_host_that_is_apart_past_its_lease_goes_on_and_is_believed_when_it_is_back";
    if !inside(name) {
        return;
    }
    let supply = Supply::with(&["command-exec-allowlisted", "noop"]).await;
    let fleet = fleet(&supply).await;
    fleet.register(&supply.publish(SLEEP, POLICY).await).await;
    let id = fleet.submit("test.sleep", &json!({"seconds": 8})).await;
    fleet.until(&id, |operation| step(operation, "sleep")["status"] == "running").await;
    apart(true);
    eventually("the lease to end", PATIENCE, || async {
        (!audited(&fleet, "task.lease_expire").await.is_empty()).then_some(())
    })
    .await;
    let waiting = fleet.operation(&id).await.unwrap();
    assert_eq!(waiting["status"], "running", "{waiting:#}");
    apart(false);
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}\n{}", fleet.logs());
    assert_eq!(step(&operation, "sleep")["attempt_number"], 1, "the command was run twice: {operation:#}");
    accepted_once(&fleet, &operation).await;
    // It was leased again, and to nobody but its own node, whose stream the plane takes for open.
    let leased_to = audited(&fleet, "task.lease").await;
    assert!(leased_to.len() >= 2 && leased_to.iter().all(|node| *node == leased_to[0]), "{leased_to:?}");
}
