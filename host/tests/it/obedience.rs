//! Whom a host obeys: a key for tasks of an authority that counts, for this node, on this stream, once. Everything else
//! it refuses, and writes down; each protection is also taken out, and then the attack succeeds.

use std::{collections::BTreeMap, sync::Arc};

use fettle_host::{
    agent::journal_path,
    command,
    executor::journal::Journal,
    mutation::{Protection, without},
    refusals,
};
use fettle_identity::{Authority, Role, Validity, signing::Signer};
use fettle_model::task::Epoch;
use fettle_wire::node::{Lease, pull_response::Response};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{assignment, settings},
    support::plane::{self, PATIENCE, Script, authority, certified, introduction, sealed, today},
};

/// Where nothing is: no task that is taken gets further than to be held.
const NOWHERE: &str = "127.0.0.1:9";

/// What somebody tries who has the node's connection to its plane: the plane's authority, the challenge of a stream,
/// and the key that signs tasks, which only some use.
type Attack = fn(&Authority, &Signer, &[u8]) -> Vec<Response>;

fn hours(from: i64, until: i64) -> Validity {
    let at = |hours| Timestamp::now() + SignedDuration::from_hours(hours);
    Validity { from: at(from), until: at(until) }
}

/// The right words of somebody else.
fn by(signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    let lease = sealed(signer, &assignment(NOWHERE, challenge));
    vec![introduction(signer), Response::Lease(lease)]
}

/// The right words, changed on the way.
fn changed(signer: &Signer, challenge: &[u8], change: fn(&mut Lease)) -> Vec<Response> {
    let mut lease = sealed(signer, &assignment(NOWHERE, challenge));
    change(&mut lease);
    vec![introduction(signer), Response::Lease(lease)]
}

fn unsigned(_: &Authority, signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    changed(signer, challenge, |lease| lease.envelope.as_mut().unwrap().signatures.clear())
}

fn not_introduced(_: &Authority, signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    by(signer, challenge).split_off(1)
}

fn signed_as_something_else(_: &Authority, signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    changed(signer, challenge, |lease| lease.envelope.as_mut().unwrap().payload_type = "text/plain".to_owned())
}

/// Another input, with the signature of the first.
fn with_other_inputs(_: &Authority, signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    let mut lease = sealed(signer, &assignment(NOWHERE, challenge));
    let mut other = assignment(NOWHERE, challenge);
    other.task.inputs = serde_json::json!({ "model": "another" });
    lease.envelope.as_mut().unwrap().payload = serde_json::to_vec(&other).unwrap();
    vec![introduction(signer), Response::Lease(lease)]
}

fn by_a_strange_authority(_: &Authority, _: &Signer, challenge: &[u8]) -> Vec<Response> {
    by(&certified(&authority(), &Role::TaskSigner, today()), challenge)
}

fn by_the_key_of_a_node(authority: &Authority, _: &Signer, challenge: &[u8]) -> Vec<Response> {
    by(&certified(authority, &Role::Node("m".to_owned()), today()), challenge)
}

fn by_the_key_of_the_planes_connections(authority: &Authority, _: &Signer, challenge: &[u8]) -> Vec<Response> {
    by(&certified(authority, &Role::Plane, today()), challenge)
}

fn by_a_key_of_yesterday(authority: &Authority, _: &Signer, challenge: &[u8]) -> Vec<Response> {
    by(&certified(authority, &Role::TaskSigner, hours(-40, -20)), challenge)
}

/// One that is introduced, and another that signs.
fn by_another_key_than_was_introduced(authority: &Authority, signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    let other = certified(authority, &Role::TaskSigner, today());
    let lease = sealed(&other, &assignment(NOWHERE, challenge));
    vec![introduction(signer), Response::Lease(lease)]
}

/// What the plane signed for another stream, kept and said again.
fn from_another_stream(_: &Authority, signer: &Signer, _: &[u8]) -> Vec<Response> {
    by(signer, &[8; 32])
}

fn for_another_node(_: &Authority, signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    let mut other = assignment(NOWHERE, challenge);
    other.task.node_id = "m".to_owned();
    vec![introduction(signer), Response::Lease(sealed(signer, &other))]
}

/// A newer epoch than was signed, to outlive whoever has the lease.
fn under_another_epoch(_: &Authority, signer: &Signer, challenge: &[u8]) -> Vec<Response> {
    changed(signer, challenge, |lease| lease.epoch = 9)
}

/// A host of a plane whose streams say this; the refusals that are written down, and the tasks that are taken.
struct Obeying {
    directory: tempfile::TempDir,
    stop: CancellationToken,
}

impl Obeying {
    async fn to(script: impl FnOnce(Arc<Authority>, Arc<Signer>) -> Script) -> Self {
        let authority = authority();
        let signer = Arc::new(certified(&authority, &Role::TaskSigner, today()));
        let script = script(Arc::clone(&authority), signer);
        let plane::Open { address, join_token, .. } = plane::open(authority, script).await;
        let directory = tempfile::tempdir().unwrap();
        let agent = command::start(&settings(directory.path(), &address, &join_token)).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(agent.run(stop.clone()));
        Self { directory, stop }
    }

    async fn attacked(attack: Attack) -> Self {
        Self::to(|authority, signer| Arc::new(move |challenge| attack(&authority, &signer, challenge))).await
    }

    fn refused(&self) -> Vec<refusals::Record> {
        refusals::read(&self.directory.path().join("host")).unwrap()
    }

    async fn held(&self) -> Vec<Epoch> {
        let journal = Journal::open(&journal_path(&self.directory.path().join("host"))).await.unwrap();
        journal.held().await.unwrap().into_iter().map(|held| held.epoch).collect()
    }

    /// Waits until the first refusal is written down.
    async fn refuses(&self) -> refusals::Record {
        self.until(|| async { self.refused().into_iter().next() }).await
    }

    /// Waits until a task is taken.
    async fn takes(&self) -> Epoch {
        self.until(|| async { self.held().await.into_iter().next() }).await
    }

    async fn until<T, F: Future<Output = Option<T>> + Send>(&self, found: impl Fn() -> F + Sync) -> T {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(20));
        let search = async {
            loop {
                every.tick().await;
                if let Some(found) = found().await {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, search).await.unwrap()
    }
}

impl Drop for Obeying {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_the_plane_signed_for_this_stream_is_taken() {
    let host = Obeying::attacked(|_, signer, challenge| by(signer, challenge)).await;
    assert_eq!(host.takes().await, Epoch(1));
    assert_eq!(host.refused(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_key_for_tasks_signed_is_refused_with_its_reason() {
    let attacks: [(&str, Attack); 13] = [
        ("task.unsigned", unsigned),
        ("task.unsigned", not_introduced),
        ("task.unsigned", signed_as_something_else),
        ("task.signature_invalid", with_other_inputs),
        ("task.signature_invalid", by_another_key_than_was_introduced),
        ("task.signer_unknown", by_a_strange_authority),
        ("task.signer_wrong_purpose", by_the_key_of_a_node),
        ("task.signer_wrong_purpose", by_the_key_of_the_planes_connections),
        ("task.signer_expired", by_a_key_of_yesterday),
        ("task.stale", from_another_stream),
        ("task.other_node", for_another_node),
        ("task.malformed", under_another_epoch),
        ("task.malformed", |_, signer, challenge| {
            let mut all = by(signer, challenge);
            let Some(Response::Lease(lease)) = all.last_mut() else { unreachable!("a lease comes last") };
            let envelope = lease.envelope.as_mut().unwrap();
            envelope.payload = b"{}".to_vec();
            envelope.signatures[0].sig = signer.sign(&envelope.payload_type, b"{}").unwrap();
            all
        }),
    ];
    for (code, attack) in attacks {
        let host = Obeying::attacked(attack).await;
        let refused = host.refuses().await;
        assert_eq!(refused.code, code, "{}", refused.reason);
        assert_eq!(host.held().await, [], "{code}: it was refused, and taken all the same");
        assert_eq!(refusals::first_broken(&host.refused()), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_said_twice_is_taken_once() {
    let twice: Attack = |_, signer, challenge| {
        let mut all = by(signer, challenge);
        let again = all[1].clone();
        all.push(again);
        all
    };
    let host = Obeying::attacked(twice).await;
    let refused = host.refuses().await;
    assert_eq!((refused.code.as_str(), refused.about.task_id.as_deref()), ("task.replayed", Some("t")));
    assert_eq!(host.takes().await, Epoch(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_protection_each_attack_succeeds() {
    let attacks: BTreeMap<Protection, Vec<Attack>> = [
        (Protection::TasksAreSigned, vec![unsigned as Attack, not_introduced, with_other_inputs]),
        (Protection::TasksAreFresh, vec![from_another_stream as Attack]),
    ]
    .into();
    for (protection, attacks) in attacks {
        let _without = without(protection);
        for attack in attacks {
            let host = Obeying::attacked(attack).await;
            assert_eq!(host.takes().await, Epoch(1), "{protection:?} is not what keeps it out");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_repeats_itself_without_end_is_counted_and_fills_no_disk() {
    let flood: Attack = |_, signer, challenge| {
        let mut all = by(signer, challenge);
        let lease = all.remove(1);
        all.extend(std::iter::repeat_n(lease, 1_000));
        all
    };
    let host = Obeying::attacked(flood).await;
    // On a stream of its own, 999 of the 1,000 are said again.
    host.until(|| async { (host.refused().len() >= 60).then_some(()) }).await;
    assert!(host.refused().len() <= 120, "at most 60 in a minute, and at most two minutes were begun");
    let size = std::fs::metadata(host.directory.path().join("host/refusals.jsonl")).unwrap().len();
    assert!(size < 120 * 1024, "{size} bytes");
    assert_eq!(host.refused()[0].about.task_id.as_deref(), Some("t"));
}
