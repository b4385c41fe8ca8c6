//! `kill -9` at every durable write of the host, and of the plane. No point is sampled: their names come from a
//! run without a crash, and each is killed at its first hit, its second, and so on until there is none.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use fettle_host::executor::journal::Journal;
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::{
    CONSUME, DENIED, POLICY, PROGRAMS, RENDER,
    denials::audited,
    recovery::{POLICY as TICKETS, ticket},
    transfers,
};

/// Scenarios that run side by side.
const AT_ONCE: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Host,
    Plane,
}

struct Scenario<'a> {
    supply: &'a Supply,
    sources: &'a Value,
    operation_type: &'static str,
    inputs: Value,
}

/// What a host keeps of the components that it has compiled.
const COMPILED: &str = "code-cache";

impl Scenario<'_> {
    /// Runs once with this variable in the victim's environment, restarting it when it dies. Answers how
    /// the operation ended and whether the victim died.
    async fn run(&self, victim: Victim, variable: (&str, &str)) -> (Fleet, Value, bool) {
        let mut fleet = Fleet::prepare(PROGRAMS, &self.supply.trust).await;
        copy(&self.compiled(), &fleet.host_directory().join(COMPILED));
        let environment = vec![(variable.0.to_owned(), variable.1.to_owned())];
        match victim {
            Victim::Host => fleet.host_environment = environment,
            Victim::Plane => fleet.planes.environment.extend(environment),
        }
        let mut died = false;
        fleet.planes.restart();
        eventually("the plane to listen", PATIENCE, async || {
            died |= victim == Victim::Plane && restart(&mut fleet, victim);
            fleet.planes.note_addresses()
        })
        .await;
        fleet.start_host();
        let mut registered = false;
        let mut submitted = None;
        let operation = eventually("the operation to end", PATIENCE * 2, async || {
            // What a person would do: start again what died, repeat what was not answered.
            died |= restart(&mut fleet, victim);
            if !registered {
                registered = fleet.send_registration(self.sources).await;
            }
            if registered && submitted.is_none() {
                let answer = fleet.try_submit(self.operation_type, &self.inputs, "crash").await;
                let accepted = answer.filter(|(status, _)| status.is_success());
                submitted = accepted.map(|(_, answer)| answer["operation_id"].as_str().unwrap().to_owned());
            }
            let operation = fleet.operation(submitted.as_deref()?).await?;
            matches!(operation["status"].as_str(), Some("succeeded" | "failed" | "canceled")).then_some(operation)
        })
        .await;
        (fleet, operation, died)
    }

    /// What hosts of later runs need not compile again. No point is on the way to it.
    fn compiled(&self) -> PathBuf {
        self.supply.directory().join(COMPILED)
    }

    /// Runs once without a crash; the points that were passed.
    async fn trace(&self, victim: Victim) -> (Fleet, Value, Vec<String>) {
        let trace = self.supply.directory().join("trace");
        let (fleet, operation, died) = self.run(victim, ("FETTLE_CRASH_TRACE", trace.to_str().unwrap())).await;
        assert!(!died, "it died without a crash\n{}", fleet.logs());
        copy(&fleet.host_directory().join(COMPILED), &self.compiled());
        (fleet, operation, points(&trace))
    }
}

/// Copies a directory with the permissions of all that is in it, when it is there.
fn copy(from: &Path, to: &Path) {
    let Ok(entries) = std::fs::read_dir(from) else { return };
    std::fs::create_dir_all(to).unwrap();
    for entry in entries.map(Result::unwrap) {
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            std::fs::copy(&path, &copied).unwrap();
        }
    }
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
}

/// Starts the victim again when it has died; without the variable, so that it dies once.
fn restart(fleet: &mut Fleet, victim: Victim) -> bool {
    let ended = match victim {
        Victim::Host => fleet.host.as_mut().is_some_and(|host| host.ended().is_some()),
        Victim::Plane => fleet.planes.has_ended(),
    };
    if !ended {
        return false;
    }
    match victim {
        Victim::Host => {
            fleet.host_environment.clear();
            fleet.start_host();
        }
        Victim::Plane => {
            // Not all of it: on PostgreSQL it says where the database is.
            fleet.planes.environment.retain(|(name, _)| !name.starts_with("FETTLE_CRASH"));
            fleet.planes.restart();
        }
    }
    true
}

/// Every `<point>:<n>` of a run without a crash.
fn points(trace: &Path) -> Vec<String> {
    std::fs::read_to_string(trace).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Nothing of the operation is left on the node: no process, no unfinished file, no task in the journal.
///
/// Answers whether the victim died only now.
async fn nothing_is_left(fleet: &mut Fleet, victim: Victim, point: &str) -> bool {
    let mut died = false;
    eventually("the journal to be empty", PATIENCE, async || {
        died |= restart(fleet, victim);
        let journal = Journal::open(&fleet.host_directory().join("journal.sqlite")).await.ok()?;
        journal.held().await.ok()?.is_empty().then_some(())
    })
    .await;
    let mark = format!("FETTLE_ATTEMPT={}", std::fs::read_to_string(fleet.host_directory().join("host-id")).unwrap());
    for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&environment).contains(&mark),
            "{point}: process {:?} is left",
            process.file_name()
        );
    }
    let mut directories = vec![fleet.node_file("")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
            assert!(!entry.file_name().to_string_lossy().contains(".fettle-"), "{point}: {:?} is left", entry.path());
            if entry.path().is_dir() {
                directories.push(entry.path());
            }
        }
    }
    died
}

/// The plane accepted the result of each step exactly once.
async fn accepted_once(fleet: &Fleet, operation: &Value, point: &str) {
    let id = operation["operation_id"].as_str().unwrap();
    let events = fleet.get(&format!("/operations/{id}/events?page_size=1000")).await.unwrap();
    for wanted in operation["steps"].as_array().unwrap() {
        let name = wanted["step_id"].as_str().unwrap();
        let finished = events["items"].as_array().unwrap().iter().filter(|event| {
            let data = &event["payload"];
            data["current_step_name"] == name && matches!(data["step_status"].as_str(), Some("succeeded" | "failed"))
        });
        assert_eq!(finished.count(), 1, "{point}: step {name} was accepted more than once or never: {events:#}");
    }
}

impl Scenario<'_> {
    /// Runs once, is killed at this point, and must come to the same end. Answers whether the point was reached.
    async fn survives(&self, victim: Victim, point: &str) -> bool {
        let (mut fleet, operation, died) = self.run(victim, ("FETTLE_CRASH_AT", point)).await;
        assert_eq!(operation["status"], "succeeded", "{point}: {operation:#}\n{}", fleet.logs());
        assert_eq!(std::fs::read_to_string(fleet.node_file("config/rendered.txt")).unwrap(), "kept", "{point}");
        accepted_once(&fleet, &operation, point).await;
        let died_late = nothing_is_left(&mut fleet, victim, point).await;
        died || died_late
    }

    /// Is killed at the first hit of this point, at the second, and so on, until no run has one more. How many there
    /// are differs from run to run: heartbeats come when they come, and writes share a commit on a busy machine.
    async fn survives_every(&self, victim: Victim, name: &str) -> usize {
        let mut deaths = 0;
        for first in (1..).step_by(AT_ONCE) {
            let points = (first..).take(AT_ONCE).map(|hit| format!("{name}:{hit}"));
            let runs = points.map(async |point| self.survives(victim, &point).await);
            let died = futures::future::join_all(runs).await.into_iter().filter(|died| *died).count();
            deaths += died;
            if died == 0 {
                break;
            }
        }
        deaths
    }
}

async fn every_point_survives(victim: Victim) {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let sources = supply.publish(RENDER, POLICY).await;
    let scenario =
        Scenario { supply: &supply, sources: &sources, operation_type: "test.render", inputs: json!({"text": "kept"}) };
    let (_fleet, operation, points) = scenario.trace(victim).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    // Each once: several planes have the same points.
    let points: BTreeSet<String> = points.into_iter().collect();
    assert!(points.len() >= 12, "the trace has only {} points; is the feature crash-points on?", points.len());
    let names: BTreeSet<&str> = points.iter().filter_map(|point| Some(point.rsplit_once(':')?.0)).collect();
    for name in names {
        let deaths = scenario.survives_every(victim, name).await;
        println!("{name}: {deaths} deaths");
        let traced = points.iter().filter(|point| point.rsplit_once(':').is_some_and(|(of, _)| of == name)).count();
        assert!(deaths * 2 >= traced, "{name} was hit {deaths} times, and {traced} times in a run without a crash");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_survives_a_kill_at_every_journal_write() {
    every_point_survives(Victim::Host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plane_survives_a_kill_at_every_store_write() {
    every_point_survives(Victim::Plane).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_may_not_be_repeated_is_never_run_twice() {
    let supply = Supply::with(&["command-exec-allowlisted"]).await;
    let sources = supply.publish(CONSUME, POLICY).await;
    let directory = tempfile_in_tmp();
    let scenario = |name: &str| Scenario {
        supply: &supply,
        sources: &sources,
        operation_type: "test.consume",
        inputs: json!({"directory": directory.path().join(name)}),
    };
    let (_fleet, operation, points) = scenario("first").trace(Victim::Host).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    let runs = points.into_iter().enumerate().map(|(index, point)| {
        let scenario = scenario(&format!("point-{index}"));
        async move {
            let (mut fleet, operation, _) = scenario.run(Victim::Host, ("FETTLE_CRASH_AT", &point)).await;
            let make = step(&operation, "make");
            if operation["status"] == "failed" {
                // The only honest failure: nobody can tell, a person looks. A second mkdir would say `File exists`.
                assert_eq!(make["failure"]["code"], "step.interrupted", "{point}: {operation:#}");
            } else {
                let made = Path::new(scenario.inputs["directory"].as_str().unwrap()).is_dir();
                assert!(made && operation["status"] == "succeeded", "{point}: {operation:#}");
            }
            nothing_is_left(&mut fleet, Victim::Host, &point).await;
        }
    });
    futures::stream::iter(runs).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_happen_once_happens_once_wherever_its_host_is_killed_when_its_probe_can_tell() {
    let supply = Supply::with(&["ticket", "noop"]).await;
    let sources = supply.publish(&ticket("once", "unsure: true", ""), TICKETS).await;
    let scenario = Scenario { supply: &supply, sources: &sources, operation_type: "test.once", inputs: json!({}) };
    let (_fleet, operation, points) = scenario.trace(Victim::Host).await;
    assert_eq!(step(&operation, "draw")["settlement"]["finding"], "finished", "{operation:#}");
    let runs = points.into_iter().map(|point| {
        let scenario = &scenario;
        async move {
            let (mut fleet, operation, _) = scenario.run(Victim::Host, ("FETTLE_CRASH_AT", &point)).await;
            assert_eq!(operation["status"], "succeeded", "{point}: {operation:#}");
            let tickets = std::fs::read_to_string(fleet.node_file("models/tickets")).unwrap();
            assert_eq!(tickets.lines().count(), 1, "{point}: {operation:#}");
            accepted_once(&fleet, &operation, &point).await;
            nothing_is_left(&mut fleet, Victim::Host, &point).await;
        }
    });
    futures::stream::iter(runs).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_is_killed_at_any_point_ends_with_the_right_bytes() {
    let supply = Supply::with(&["artifact-pull-oci"]).await;
    let content = transfers::content(3_000_000);
    let model = supply.push_files("models/long", &BTreeMap::from([("weights", content.clone())])).await;
    let sources = supply.publish(&transfers::pull(supply.address()), POLICY).await;
    let inputs = json!({"model": model});
    let scenario = Scenario { supply: &supply, sources: &sources, operation_type: "test.transfer", inputs };
    let (_fleet, operation, points) = scenario.trace(Victim::Host).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    assert!(points.iter().any(|point| point.starts_with("transfer::progress")), "{points:?}");
    let runs = points.into_iter().map(|point| {
        let (scenario, content) = (&scenario, &content);
        async move {
            let (mut fleet, operation, _) = scenario.run(Victim::Host, ("FETTLE_CRASH_AT", &point)).await;
            assert_eq!(operation["status"], "succeeded", "{point}: {operation:#}");
            assert!(std::fs::read(fleet.node_file("models/long/weights")).unwrap() == *content, "{point}: other bytes");
            nothing_is_left(&mut fleet, Victim::Host, &point).await;
        }
    });
    futures::stream::iter(runs).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

async fn every_denial_is_audited_once(victim: Victim) {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let sources = supply.publish(DENIED, POLICY).await;
    let scenario = Scenario { supply: &supply, sources: &sources, operation_type: "test.denied", inputs: json!({}) };
    let (fleet, operation, points) = scenario.trace(victim).await;
    assert_eq!(operation["denials"].as_array().unwrap().len(), 1, "{operation:#}");
    drop(fleet);
    let runs = points.into_iter().map(|point| {
        let scenario = &scenario;
        async move {
            let (mut fleet, operation, _) = scenario.run(victim, ("FETTLE_CRASH_AT", &point)).await;
            assert_eq!(operation["failure"]["code"], "files.access-denied", "{point}: {operation:#}");
            nothing_is_left(&mut fleet, victim, &point).await;
            let rows = audited(&fleet).await;
            let of = |attempt: &Value| rows.iter().filter(|row| &row["attempt"] == attempt).count();
            // An attempt that was interrupted may have been denied before it was: that is another row.
            assert!(rows.iter().all(|row| of(&row["attempt"]) == 1), "{point}: {rows:#?}");
            let last = &step(&operation, "render")["attempt_number"];
            assert_eq!(of(last), 1, "{point}: attempt {last} was denied, and {rows:#?}");
        }
    });
    futures::stream::iter(runs).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_audited_once_whenever_the_host_is_killed() {
    every_denial_is_audited_once(Victim::Host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_audited_once_whenever_the_plane_is_killed() {
    every_denial_is_audited_once(Victim::Plane).await;
}

/// Pulls a file, then fails for good, then takes the file away again.
fn undone(address: &str) -> String {
    format!(
        r"
operation_type: test.undone
version: v1
backend_type: node_agent
input_schema: {{ type: object, required: [model, directory], properties: {{ model: {{ type: string }}, directory: {{ type: string }} }} }}
on_failure: undo
steps:
  - id: pull
    uses: artifact.pull_oci@v1
    with: {{ reference: '${{{{ inputs.model }}}}', destination: models/undone }}
    grants: {{ transfer: {{ hosts: ['{address}'] }}, files: {{ write: [models] }} }}
  - id: fail
    uses: command.exec_allowlisted@v1
    needs: [pull]
    with: {{ profile: mkdir, arguments: {{ directory: '${{{{ inputs.directory }}}}' }} }}
    grants: {{ exec: {{ profiles: [mkdir] }} }}
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_attempt_changed_is_undone_too() {
    let supply = Supply::with(&["artifact-pull-oci", "command-exec-allowlisted"]).await;
    let model = supply.push_files("models/a", &BTreeMap::from([("weights", vec![7; 50_000])])).await;
    let sources = supply.publish(&undone(supply.address()), POLICY).await;
    let directory = tempfile_in_tmp();
    let scenario = Scenario {
        supply: &supply,
        sources: &sources,
        operation_type: "test.undone",
        inputs: json!({"model": model, "directory": directory.path()}),
    };
    let (_fleet, operation, points) = scenario.trace(Victim::Host).await;
    assert_eq!(step(&operation, "pull")["changed"], true, "{operation:#}");
    let runs = points.into_iter().map(|point| {
        let scenario = &scenario;
        async move {
            let (mut fleet, operation, _) = scenario.run(Victim::Host, ("FETTLE_CRASH_AT", &point)).await;
            assert_eq!(operation["status"], "failed", "{point}: {operation:#}");
            nothing_is_left(&mut fleet, Victim::Host, &point).await;
            assert!(!fleet.node_file("models/undone/weights").exists(), "{point}: the file is left\n{}", fleet.logs());
            let settlement = &step(&operation, "pull")["settlement"];
            let settled = (&settlement["cause"], &settlement["finding"]);
            assert_eq!(settled, (&json!("later_failure"), &json!("undone")), "{point}: {operation:#}");
            fleet.replay_all().await;
        }
    });
    futures::stream::iter(runs).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

fn tempfile_in_tmp() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("fettle-").tempdir_in("/tmp").unwrap()
}
