//! The `exec` capability with real programs: what a profile allows, and what nobody may leave behind.

use std::time::{Duration, Instant};

use crate::common::{self, TestNode};
use fettle_host::{
    capabilities::exec::{Confinement, Program, Spawner, Termination, leftovers},
    queue::Pressure,
};
use fettle_model::failure::FailureClass;
use serde_json::{Value, json};

const GRANT: &str = "{exec: {profiles: [hello, environment, forever, sleeper, digest, changed, again, once, prints, prints-more, somebody, group, root, name]}, files: {write: [data]}, facts: {read: []}, gpu: {read: false}}";

async fn run(node: &TestNode, profile: &str, arguments: &Value) -> Result<Value, fettle_model::failure::Failure> {
    let answer = node.run("testing", GRANT, &json!({"mode": "exec", "name": profile, "arguments": arguments})).await?;
    Ok(answer["answer"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_runs_with_its_typed_arguments() {
    let answer = run(&TestNode::new(), "hello", &json!({"who": "world"})).await.unwrap();
    assert_eq!(answer["stdout"], "hello world");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_outside_the_profile_is_refused_with_its_rule() {
    let node = TestNode::new();
    for (arguments, words) in [
        (json!({"who": "a;b"}), "[a-z]+"),
        (json!({"who": "-n"}), "[a-z]+"),
        (json!({"shell": "x"}), "has no argument `shell`"),
        (json!({}), "needs argument `who`"),
    ] {
        let failure = run(&node, "hello", &arguments).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::InvalidInput, "{failure}");
        assert!(failure.message.contains(words), "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_is_not_granted_cannot_be_told_from_one_that_is_not_there() {
    let node = TestNode::new();
    let not_granted = run(&node, "stubborn", &json!({})).await.unwrap_err();
    let not_there = run(&node, "nothing", &json!({})).await.unwrap_err();
    assert_eq!(not_granted.class, FailureClass::Denied);
    assert_eq!(not_granted.message.replace("stubborn", "X"), not_there.message.replace("nothing", "X"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_gets_a_cleared_environment() {
    let answer = run(&TestNode::new(), "environment", &json!({})).await.unwrap();
    let text = answer["stdout"].as_str().unwrap();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["FETTLE_ATTEMPT", "FIXED"], "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_prints_for_ever_is_cut_and_killed() {
    let failure = run(&TestNode::new(), "forever", &json!({})).await;
    let shown = format!("{failure:?}");
    assert!(
        shown.contains("timed_out")
            || shown.contains("timed-out")
            || shown.contains("timed out")
            || shown.contains("TimedOut"),
        "{shown}"
    );
    assert!(shown.len() < 5_000, "output was not capped: {} bytes", shown.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_executable_is_not_started() {
    let failure = run(&TestNode::new(), "changed", &json!({})).await.unwrap_err();
    assert!(failure.message.contains("the executable was changed"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_argument_stays_below_its_root_and_follows_no_link() {
    let node = TestNode::new();
    let data = node.directory.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("a"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", data.join("link")).unwrap();
    let answer = run(&node, "digest", &json!({"file": "data/a"})).await.unwrap();
    assert!(
        answer["stdout"]
            .as_str()
            .unwrap()
            .starts_with("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881")
    );
    for (path, words) in
        [("data/link", "symbolic link"), ("data/../secret", "below root `data`"), ("/etc/passwd", "below root `data`")]
    {
        let failure = run(&node, "digest", &json!({"file": path})).await.unwrap_err();
        assert!(failure.message.contains(words), "{path}: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_given_as_a_descriptor_unless_the_profile_wants_the_name() {
    let node = TestNode::new();
    let data = node.directory.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("a"), "x").unwrap();
    let answer = run(&node, "digest", &json!({"file": "data/a"})).await.unwrap();
    assert!(answer["stdout"].as_str().unwrap().contains("/proc/self/fd/"), "{answer}");
    let answer = run(&node, "name", &json!({"file": "data/a"})).await.unwrap();
    assert_eq!(answer["stdout"], format!("{}\n", data.canonicalize().unwrap().join("a").display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_started_again_only_for_ends_that_its_profile_names() {
    for (profile, attempts) in [("again", 3), ("once", 1)] {
        let answer = run(&TestNode::new(), profile, &json!({})).await.unwrap();
        assert_eq!((&answer["attempts"], &answer["expected"]), (&json!(attempts), &json!(false)), "{profile}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cut_says_so_in_the_text() {
    let answer = run(&TestNode::new(), "forever", &json!({})).await.unwrap();
    let text = answer["stdout"].as_str().unwrap();
    assert!(text.ends_with("[cut: the first 1000 bytes were kept]\n") && answer["stdout_truncated"] == true, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_cut_where_the_profile_says_and_whole_with_a_larger_limit() {
    let node = TestNode::new();
    for (profile, truncated) in [("prints", true), ("prints-more", false)] {
        let answer = run(&node, profile, &json!({})).await.unwrap();
        let text = answer["stdout"].as_str().unwrap();
        assert_eq!(
            (text.ends_with("\n1000\n"), &answer["stdout_truncated"]),
            (!truncated, &json!(truncated)),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_says_whom_its_program_runs_as() {
    if !rustix::process::geteuid().is_root() {
        return common::skip("only root can start programs as somebody else");
    }
    let node = TestNode::new();
    let number = |answer: Value| answer["stdout"].as_str().unwrap().trim().to_owned();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let daemon = nix::unistd::Group::from_name("daemon").unwrap().unwrap();
    assert_eq!(number(run(&node, "somebody", &json!({})).await.unwrap()), nobody.uid.to_string());
    assert_eq!(number(run(&node, "group", &json!({})).await.unwrap()), daemon.gid.to_string());
}

fn program(executable: &str, arguments: &[&str], mark: &str, timeout: Duration) -> Program {
    Program {
        executable: executable.to_owned(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        environment: [(leftovers::MARK.to_owned(), mark.to_owned())].into(),
        secrets: Vec::new(),
        directory: "/".to_owned(),
        timeout,
        capture_stdout: 1000,
        capture_stderr: 1000,
        confinement: Confinement::default(),
    }
}

fn alive(mark: &str) -> usize {
    let needle = format!("{}={mark}", leftovers::MARK);
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments
        .filter(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == needle.as_bytes()))
        .count()
}

/// A program that forks a child which leaves its session, ignores SIGTERM and holds the pipes open.
const FORKS: [&str; 2] = ["-c", "trap '' TERM; setsid sleep 1000 & sleep 1000 & sleep 1000"];

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_forks_and_ignores_sigterm_leaves_nothing_behind() {
    let spawner = Spawner::start(None, &Pressure::default()).unwrap();
    let begin = Instant::now();
    // The host's own spawner is driven here; no profile could name a shell.
    let finished = spawner.run(program("/bin/sh", &FORKS, "forks-1", Duration::from_millis(500))).await.unwrap();
    assert_eq!(finished.termination, Termination::TimedOut);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(alive("forks-1"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_run_kills_everything_it_started() {
    let spawner = Spawner::start(None, &Pressure::default()).unwrap();
    let run = spawner.run(program("/bin/sh", &FORKS, "forks-2", Duration::from_secs(100)));
    assert!(tokio::time::timeout(Duration::from_millis(500), run).await.is_err());
    for _ in 0..100 {
        if alive("forks-2") == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} processes are left", alive("forks-2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_cannot_gain_privileges_and_inherits_no_descriptor() {
    let spawner = Spawner::start(None, &Pressure::default()).unwrap();
    // A descriptor that somebody opened without close-on-exec.
    let file = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let script = "grep NoNewPrivs /proc/self/status; ls /proc/self/fd | wc -l; grep -c . /dev/null; cat /proc/self/stat | cut -d' ' -f5";
    let finished =
        spawner.run(program("/bin/sh", &["-c", script], "privileges", Duration::from_secs(5))).await.unwrap();
    let text = String::from_utf8(finished.stdout.bytes).unwrap();
    assert!(text.contains("NoNewPrivs:\t1"), "{text}");
    // 0, 1, 2 and the one that `ls` itself has open.
    assert_eq!(text.lines().nth(1), Some("4"), "{text}");
}
