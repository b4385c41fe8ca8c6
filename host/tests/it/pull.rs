//! `artifact.pull_oci@v1` in the real host, against a real registry behind a proxy that misbehaves.

use std::{
    collections::BTreeSet,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::common::{self, Heard, TestNode};
use fettle_host::{
    capabilities::{Configured, report::Report},
    clock::Clock,
    sandbox::{Call, Observation, Step},
};
use fettle_model::{
    definition::ArtifactConstraints,
    digest::Digest,
    failure::{Failure, FailureClass},
    grant::Grants,
    reference::Reference,
};
use fettle_supply::{
    RegistryClient, RegistryOptions,
    testing::{FaultyProxy, Misbehaviour, TestRegistry},
};
use serde_json::{Value, json};

/// Several of the pieces in which blobs are written, and no multiple of them.
const LARGE: usize = (3 << 20) + 4321;
/// How much of a large file arrives before the registry breaks off.
const ARRIVES: usize = 2 << 20;

struct World {
    registry: TestRegistry,
    proxy: FaultyProxy,
    node: TestNode,
    step: Step,
    grants: Grants,
    constraints: Option<ArtifactConstraints>,
    heard: Arc<Heard>,
}

fn content(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| ((index + seed).wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

impl World {
    /// None, after a word about it, where there is no registry to start.
    async fn new() -> Option<Self> {
        if !TestRegistry::is_installed() {
            common::skip("docker-registry is not installed here");
            return None;
        }
        let registry = TestRegistry::start();
        let proxy = FaultyProxy::start(registry.address()).await;
        let mut node = TestNode::new();
        let options = RegistryOptions { idle_timeout: Duration::from_millis(400), ..RegistryOptions::default() };
        node.node.transfers =
            fettle_host::capabilities::transfer::Transfers::new(RegistryClient::new(options).unwrap());
        let grants = format!("{{transfer: {{hosts: ['{}']}}, files: {{write: [data]}}}}", proxy.address());
        let grants = fettle_model::document::read(&grants).unwrap();
        let step = node.link("artifact-pull-oci", &grants).await;
        Some(Self { registry, proxy, node, step, grants, constraints: None, heard: Arc::default() })
    }

    /// Pushes files under these titles, and answers where the node finds them.
    async fn push(&self, files: &[(&str, Vec<u8>)]) -> Reference {
        let source = tempfile::tempdir().unwrap();
        let mut titled = Vec::new();
        for (index, (title, content)) in files.iter().enumerate() {
            let path = source.path().join(index.to_string());
            std::fs::write(&path, content).unwrap();
            titled.push(((*title).to_owned(), path));
        }
        let client = RegistryClient::new(RegistryOptions::default()).unwrap();
        let pushed = client.push_files(&self.registry.repository("models/small"), &titled).await.unwrap();
        self.proxy.repository("models/small").at(pushed.digest)
    }

    fn call(&self, timeout: Duration) -> Call {
        let Self { node, grants, .. } = self;
        let configured = Configured::new(&node.node, grants, &node.policy, self.constraints.as_ref()).unwrap();
        let report = Report::new(Arc::<Heard>::clone(&self.heard), Clock::system());
        Call {
            context: common::context(),
            capabilities: configured.prepare(report, &node.attempt()),
            timeout,
            elapsed: Duration::ZERO,
            spent: fettle_host::sandbox::Spent::default(),
            tape: None,
        }
    }

    async fn run(&self, input: &Value) -> Result<Value, Failure> {
        self.step.run(self.call(Duration::from_secs(20)), &input.to_string()).await
    }

    async fn probe(&self, input: &Value) -> Result<Observation, Failure> {
        self.step.probe(self.call(Duration::from_secs(20)), &input.to_string()).await
    }

    /// Paths that were asked for so far, of blobs.
    fn blobs_asked_for(&self) -> usize {
        self.proxy.heads().iter().filter(|head| head.contains("/blobs/")).count()
    }

    fn last_line(&self) -> String {
        self.heard.lines.lock().unwrap().last().unwrap().text.clone()
    }

    fn data(&self) -> PathBuf {
        self.node.directory.path().join("data")
    }

    /// Everything below the root, whatever its name.
    fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        collect(&self.data(), &self.data(), &mut found);
        found
    }
}

fn collect(root: &Path, directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().unwrap().is_dir() {
            collect(root, &entry.path(), found);
        } else {
            found.insert(entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned());
        }
    }
}

fn input(reference: &Reference) -> Value {
    json!({"reference": reference.to_string(), "destination": "data/model"})
}

#[track_caller]
fn failed(result: Result<Value, Failure>, class: FailureClass, code: &str) -> Failure {
    let failure = result.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure}");
    failure
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_of_several_layers_becomes_its_files() {
    let Some(world) = World::new().await else { return };
    let files = [("weights/a.bin", content(1, LARGE)), ("config.json", b"{}".to_vec()), ("empty", Vec::new())];
    let reference = world.push(&files).await;
    let input = input(&reference);
    let before = world.probe(&input).await.unwrap();
    let Observation::Unsatisfied(difference) = before else { panic!("{before:?}") };
    assert!(difference.contains(&format!("would fetch data/model/weights/a.bin ({LARGE} bytes)")), "{difference}");
    let output = world.run(&input).await.unwrap();
    for (name, content) in &files {
        assert!(std::fs::read(world.data().join("model").join(name)).unwrap() == *content, "{name}");
    }
    assert_eq!(world.files(), ["model/config.json", "model/empty", "model/weights/a.bin"].map(str::to_owned).into());
    assert_eq!(output["size"], LARGE + 2);
    assert_eq!(output["digest"], reference.digest.to_string());
    assert_eq!(world.probe(&input).await, Ok(Observation::Satisfied(output.clone())));
    assert_eq!(world.heard.progress.lock().unwrap().last(), Some(&100));
    let asked = world.blobs_asked_for();
    assert_eq!(world.run(&input).await, Ok(output));
    assert_eq!(world.blobs_asked_for(), asked, "a second run fetched something");
    assert!(
        world.last_line().starts_with("pulled 3 files, 0 bytes over the network; 3 were there"),
        "{}",
        world.last_line()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_changed_is_noticed_and_fetched_again() {
    let Some(world) = World::new().await else { return };
    let large = content(1, LARGE);
    let reference = world.push(&[("a.bin", large.clone()), ("b.bin", content(2, 1000))]).await;
    let input = input(&reference);
    let output = world.run(&input).await.unwrap();
    let path = world.data().join("model/a.bin");
    let mut changed = large.clone();
    changed[LARGE / 2] ^= 1;
    std::fs::write(&path, changed).unwrap();
    let seen = world.probe(&input).await.unwrap();
    assert_eq!(seen, Observation::Unsatisfied(format!("would replace data/model/a.bin ({LARGE} bytes)")));
    assert_eq!(world.run(&input).await, Ok(output.clone()));
    assert!(std::fs::read(&path).unwrap() == large);
    assert!(
        world.last_line().contains(&format!("{LARGE} bytes over the network; 1 were there")),
        "{}",
        world.last_line()
    );
    assert_eq!(world.probe(&input).await, Ok(Observation::Satisfied(output)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_down_or_overloaded_is_worth_another_try() {
    let Some(mut world) = World::new().await else { return };
    let reference = world.push(&[("a.bin", content(1, 1000))]).await;
    for (part, how) in [
        ("manifests/", Misbehaviour::Status(503, "busy".to_owned())),
        ("blobs/", Misbehaviour::Status(503, "busy".to_owned())),
        ("blobs/", Misbehaviour::Status(429, "slow down".to_owned())),
        ("manifests/", Misbehaviour::Truncate(10)),
        ("manifests/", Misbehaviour::Stall(10)),
    ] {
        world.proxy.misbehave(part, how.clone());
        let failure = failed(world.run(&input(&reference)).await, FailureClass::Transient, "transfer.unavailable");
        assert!(failure.message.contains("models/small"), "{how:?}: {failure}");
    }
    world.proxy.behave();
    world.registry.stop();
    failed(world.run(&input(&reference)).await, FailureClass::Transient, "transfer.unavailable");
    assert!(world.probe(&input(&reference)).await.is_err_and(|failure| failure.class == FailureClass::Transient));
    world.registry.restart();
    world.run(&input(&reference)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_breaks_off_is_tried_again_from_where_it_stopped() {
    let Some(world) = World::new().await else { return };
    for (index, how) in [Misbehaviour::Truncate(ARRIVES), Misbehaviour::EndEarly(ARRIVES), Misbehaviour::Stall(ARRIVES)]
        .iter()
        .enumerate()
    {
        let large = content(10 + index, LARGE);
        let digest = Digest::of(&large);
        let reference = world.push(&[("a.bin", large.clone())]).await;
        world.proxy.misbehave(&format!("blobs/{digest}"), how.clone());
        let failure = failed(world.run(&input(&reference)).await, FailureClass::Transient, "transfer.unavailable");
        let path = world.data().join("model/a.bin");
        assert!(!path.exists() || Digest::of(&std::fs::read(&path).unwrap()) != digest, "{how:?}: {failure}");
        world.proxy.behave();
        world.run(&input(&reference)).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == large, "{how:?}");
        let ranges = world.proxy.heads().iter().filter(|head| head.to_lowercase().contains("range: bytes=")).count();
        assert_eq!(ranges, index + 1, "{how:?}");
        assert!(!world.last_line().contains(", 0 bytes were left"), "{how:?}: {}", world.last_line());
        assert_eq!(world.files(), ["model/a.bin".to_owned()].into(), "{how:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_runs_out_of_time_leaves_what_the_next_one_resumes() {
    let Some(world) = World::new().await else { return };
    let large = content(1, LARGE);
    let reference = world.push(&[("a.bin", large.clone())]).await;
    world.proxy.misbehave("blobs/", Misbehaviour::Stall(ARRIVES));
    // Shorter than the registry may be silent.
    let call = world.call(Duration::from_millis(250));
    failed(world.step.run(call, &input(&reference).to_string()).await, FailureClass::Permanent, "limit.wall-clock");
    assert!(!world.data().join("model/a.bin").exists());
    world.proxy.behave();
    world.run(&input(&reference)).await.unwrap();
    assert!(std::fs::read(world.data().join("model/a.bin")).unwrap() == large);
    assert_eq!(world.files(), ["model/a.bin".to_owned()].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_are_refused_and_nothing_of_them_is_kept() {
    let Some(world) = World::new().await else { return };
    let large = content(1, LARGE);
    let digest = Digest::of(&large);
    let reference = world.push(&[("a.bin", large)]).await;
    for (part, how) in [
        (format!("blobs/{digest}"), Misbehaviour::Flip(LARGE / 2)),
        (format!("blobs/{digest}"), Misbehaviour::Shorten(ARRIVES)),
        (format!("blobs/{digest}"), Misbehaviour::Endless),
        ("manifests/".to_owned(), Misbehaviour::Flip(20)),
    ] {
        world.proxy.misbehave(&part, how.clone());
        let failure = failed(world.run(&input(&reference)).await, FailureClass::Permanent, "transfer.corrupt");
        assert!(failure.message.contains("nothing of it was kept"), "{how:?}: {failure}");
        assert_eq!(world.files(), BTreeSet::new(), "{how:?}");
    }
    world.proxy.behave();
    world.registry.corrupt(&digest);
    failed(world.run(&input(&reference)).await, FailureClass::Permanent, "transfer.corrupt");
    assert_eq!(world.files(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn titles_that_lead_elsewhere_or_collide_are_refused_before_anything_is_fetched() {
    let Some(world) = World::new().await else { return };
    for (titles, code) in [
        (&["fine", "../escape"][..], "artifact.unsafe-title"),
        (&["a/../../escape"], "artifact.unsafe-title"),
        (&["/tmp/escape"], "artifact.unsafe-title"),
        (&["a//b"], "artifact.unsafe-title"),
        (&["."], "artifact.unsafe-title"),
        (&["a\\b"], "artifact.unsafe-title"),
        (&["same", "same"], "artifact.duplicate-title"),
        (&["a", "a/b"], "artifact.nested-title"),
    ] {
        let files: Vec<_> = titles.iter().enumerate().map(|(seed, title)| (*title, content(seed, 100))).collect();
        let reference = world.push(&files).await;
        failed(world.run(&input(&reference)).await, FailureClass::Permanent, code);
        assert!(world.probe(&input(&reference)).await.is_err(), "{titles:?}");
    }
    assert_eq!(world.blobs_asked_for(), 0);
    assert_eq!(world.files(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_refused_and_the_registry_is_not_even_asked() {
    let Some(world) = World::new().await else { return };
    let reference = world.push(&[("a.bin", content(1, 100))]).await;
    let repository = world.proxy.repository("models/small");
    for text in [format!("{repository}:v1"), format!("{repository}:v1@{}", reference.digest), repository.to_string()] {
        let result = world.run(&json!({"reference": text, "destination": "data/model"})).await;
        failed(result, FailureClass::InvalidInput, "reference.invalid");
    }
    assert_eq!(world.proxy.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_granted_is_denied_and_nothing_is_fetched() {
    let Some(mut world) = World::new().await else { return };
    let reference = world.push(&[("a.bin", content(1, 100))]).await;
    // The same registry on its other port is another host.
    let direct = world.registry.repository("models/small").at(reference.digest);
    failed(world.run(&input(&direct)).await, FailureClass::Denied, "transfer.access-denied");
    assert_eq!(world.proxy.requests(), 0);
    for destination in ["other/model", "nothing/model"] {
        let result = world.run(&json!({"reference": reference.to_string(), "destination": destination})).await;
        failed(result, FailureClass::Denied, "transfer.access-denied");
    }
    let result = world.run(&json!({"reference": reference.to_string(), "destination": "data/../other"})).await;
    failed(result, FailureClass::InvalidInput, "transfer.invalid-request");
    for files in ["write: [data/elsewhere]", "read: [data]"] {
        let grants = format!("{{transfer: {{hosts: ['{}']}}, files: {{{files}}}}}", world.proxy.address());
        let result = world.node.run("artifact-pull-oci", &grants, &input(&reference)).await;
        failed(result, FailureClass::Denied, "transfer.access-denied");
    }
    let allowed_repositories = vec!["other/*".to_owned()];
    world.constraints =
        Some(ArtifactConstraints { allowed_repositories, require_signature: false, max_size_bytes: None });
    failed(world.run(&input(&reference)).await, FailureClass::Denied, "transfer.access-denied");
    assert_eq!(world.blobs_asked_for(), 0);
    assert_eq!(world.files(), BTreeSet::new());
    assert!(!world.node.directory.path().join("other").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_over_its_size_is_refused_before_anything_is_fetched() {
    let Some(mut world) = World::new().await else { return };
    let reference = world.push(&[("a.bin", content(1, 600)), ("b.bin", content(2, 600))]).await;
    let mut limited = input(&reference);
    limited["max_size_bytes"] = json!(1199);
    let failure = failed(world.run(&limited).await, FailureClass::Permanent, "artifact.too-large");
    assert!(failure.message.contains("1200") && failure.message.contains("1199"), "{failure}");
    let constraints = |limit| {
        let allowed_repositories = vec!["models/*".to_owned()];
        Some(ArtifactConstraints { allowed_repositories, require_signature: false, max_size_bytes: Some(limit) })
    };
    world.constraints = constraints(1199);
    let failure = failed(world.run(&input(&reference)).await, FailureClass::Permanent, "transfer.limit-exceeded");
    assert!(failure.message.contains("1200 bytes") && failure.message.contains("1199"), "{failure}");
    assert_eq!(world.blobs_asked_for(), 0);
    world.constraints = constraints(1200);
    limited["max_size_bytes"] = json!(1200);
    world.run(&limited).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_said_and_leaves_nothing() {
    let Some(world) = World::new().await else { return };
    let reference = world.push(&[("a.bin", content(1, LARGE)), ("small", content(2, 10))]).await;
    let data = world.data();
    std::fs::create_dir_all(&data).unwrap();
    let Ok(_mounted) = common::TinyDisk::mount(&data, "1m") else {
        return common::skip("a small file system cannot be mounted here: run as root");
    };
    let failure = failed(world.run(&input(&reference)).await, FailureClass::Transient, "transfer.no-space");
    assert!(failure.message.contains(&format!("{LARGE} bytes")) && failure.message.contains("free some"), "{failure}");
    // Of the one that had room, whole or in part, the next attempt makes use.
    let left = world.files();
    assert!(left.iter().all(|file| file.contains("small")), "{left:?}");
    // The small one of them alone has room.
    let reference = world.push(&[("small", content(2, 10))]).await;
    world.run(&input(&reference)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_link_at_the_destination_is_followed() {
    let Some(world) = World::new().await else { return };
    let outside = world.node.directory.path().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    let secret = outside.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let large = content(1, LARGE);
    let reference = world.push(&[("sub/a.bin", large.clone())]).await;
    let directory = world.data().join("model/sub");
    let partial = {
        world.proxy.misbehave("blobs/", Misbehaviour::Truncate(ARRIVES));
        world.run(&input(&reference)).await.unwrap_err();
        world.proxy.behave();
        world.data().join(world.files().pop_first().unwrap())
    };
    let untouched = |what: &str| {
        assert_eq!(std::fs::read(&secret).unwrap(), b"secret", "{what}");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "{what}");
    };
    for (what, at, target) in [
        ("a link at the file's temporary name", &partial, &secret),
        ("a link at the temporary name to nothing", &partial, &outside.join("new")),
        ("a link instead of the directory", &directory, &outside),
    ] {
        std::fs::remove_dir_all(world.data()).unwrap();
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target, at).unwrap();
        let failure = world.run(&input(&reference)).await.unwrap_err();
        assert!(failure.message.contains("symbolic link"), "{what}: {failure}");
        untouched(what);
    }
    std::fs::remove_dir_all(world.data()).unwrap();
    std::fs::create_dir_all(directory.parent().unwrap()).unwrap();
    std::fs::write(&directory, "a file").unwrap();
    let failure = world.run(&input(&reference)).await.unwrap_err();
    assert!(failure.message.contains("`sub`, which is no directory"), "{failure}");
    std::fs::remove_file(&directory).unwrap();
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("a.bin");
    symlink(&secret, &file).unwrap();
    assert!(world.probe(&input(&reference)).await.is_err(), "a link passed for the file");
    // The name is free to be replaced; what it led to is not.
    world.run(&input(&reference)).await.unwrap();
    untouched("a link at the file's name");
    assert!(std::fs::symlink_metadata(&file).unwrap().is_file());
    assert!(std::fs::read(&file).unwrap() == large);
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_removes_what_was_pulled_and_leaves_what_was_changed_since() {
    let Some(world) = World::new().await else { return };
    let reference = world.push(&[("a.bin", content(1, 100)), ("b.bin", content(2, 100))]).await;
    let output = world.run(&input(&reference)).await.unwrap();
    std::fs::write(world.data().join("model/b.bin"), "somebody's own").unwrap();
    let call = world.call(Duration::from_secs(20));
    world.step.undo(call, &input(&reference).to_string(), Some(&output.to_string())).await.unwrap();
    assert_eq!(world.files(), ["model/b.bin".to_owned()].into());
}
