//! `command.exec_allowlisted@v1` in the real host, with real programs.

use std::time::{Duration, Instant};

use crate::common::{self, TestNode};
use fettle_host::sandbox::Observation;
use fettle_model::failure::{Failure, FailureClass};
use serde_json::{Value, json};

const GRANT: &str = "{exec: {profiles: [hello, counts, fails, expects, killed, sleeper, forever, silent, changed]}}";

async fn run(node: &TestNode, profile: &str, arguments: Value) -> Result<Value, Failure> {
    node.run("command-exec-allowlisted", GRANT, &json!({"profile": profile, "arguments": arguments})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_answers_its_exit_code_and_output() {
    let node = TestNode::new();
    let mut output = run(&node, "hello", json!({"who": "world"})).await.unwrap();
    let duration = output.as_object_mut().unwrap().remove("duration_ms").unwrap();
    assert!(duration.as_u64().unwrap() < 10_000);
    let expected = json!({
        "exit_code": 0, "stdout": "hello world", "stdout_truncated": false, "stderr": "", "stderr_truncated": false,
    });
    assert_eq!(output, expected);
    // Numbers and texts are both taken; the profile says what they may be.
    assert_eq!(run(&node, "counts", json!({"last": 3})).await.unwrap()["stdout"], "1\n2\n3\n");
    assert_eq!(run(&node, "counts", json!({"last": "2"})).await.unwrap()["stdout"], "1\n2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_is_judged_by_the_profile() {
    let node = TestNode::new();
    assert_eq!(run(&node, "expects", json!({})).await.unwrap()["exit_code"], 1);
    let failure = run(&node, "fails", json!({})).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "command.exit-code"));
    for words in ["`fails`", "exit code 2", "it last wrote: ", "cannot access '/not-there-2'"] {
        assert!(failure.message.contains(words), "{words}: {failure}");
    }
    assert!(!failure.message.contains("/not-there-1"), "only the last line is told: {failure}");
    // What nobody keeps cannot be told.
    let failure = run(&node, "silent", json!({})).await.unwrap_err();
    assert!(failure.message.contains("it wrote nothing to stderr"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_does_not_end_is_killed_and_said_so() {
    let node = TestNode::new();
    for profile in ["sleeper", "forever"] {
        let begun = Instant::now();
        let failure = run(&node, profile, json!({})).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "command.timed-out"), "{failure}");
        assert!(failure.message.contains(&format!("`{profile}` did not end within its timeout")), "{failure}");
        assert!(failure.message.len() < 1000, "{} bytes", failure.message.len());
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(common::marked_processes(&node.attempt()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_was_killed_says_by_which_signal() {
    let failure = run(&TestNode::new(), "killed", json!({})).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "command.signaled"), "{failure}");
    assert!(failure.message.contains("`killed` was ended by signal 9"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_outside_the_profile_is_refused_before_anything_starts() {
    let node = TestNode::new();
    for (profile, arguments, words) in [
        ("hello", json!({"who": "World"}), "[a-z]+"),
        ("hello", json!({"who": "a b; reboot"}), "[a-z]+"),
        ("hello", json!({"who": 7}), "[a-z]+"),
        ("hello", json!({}), "needs argument `who`"),
        ("hello", json!({"who": "a", "format": "x"}), "has no argument `format`"),
        ("counts", json!({"last": 4}), "3"),
        ("counts", json!({"last": "1 "}), "integer"),
        ("fails", json!({"path": "/"}), "has no argument `path`"),
    ] {
        let failure = run(&node, profile, arguments.clone()).await.unwrap_err();
        assert_eq!(
            (failure.class, failure.code.as_str()),
            (FailureClass::InvalidInput, "exec.invalid-argument"),
            "{arguments}: {failure}"
        );
        assert!(failure.message.contains(words), "{arguments}: {failure}");
    }
    let failure = run(&node, "hello", json!({"who": ["a"]})).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidInput, "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_is_not_granted_is_denied_whether_it_is_there_or_not() {
    let node = TestNode::new();
    let denied = async |profile: &str| {
        let failure = run(&node, profile, json!({})).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Denied, "exec.access-denied"), "{failure}");
        assert!(failure.message.contains("`exec.profiles`"), "{failure}");
        failure.message.replace(profile, "X")
    };
    assert_eq!(denied("stubborn").await, denied("not-there").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executable_that_was_changed_or_is_gone_is_not_started() {
    let node = TestNode::new();
    let failure = run(&node, "changed", json!({})).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "exec.not-started"), "{failure}");
    let grant = "{exec: {profiles: [gone]}}";
    let failure = node.run("command-exec-allowlisted", grant, &json!({"profile": "gone"})).await.unwrap_err();
    assert_eq!(failure.code, "exec.not-started", "{failure}");
    assert!(failure.message.contains("/usr/bin/not-there"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_can_say_whether_a_command_ran() {
    let input = json!({"profile": "hello", "arguments": {"who": "world"}});
    let observation = TestNode::new().probe("command-exec-allowlisted", GRANT, &input).await.unwrap();
    assert!(matches!(observation, Observation::Unknown(_)), "{observation:?}");
}
