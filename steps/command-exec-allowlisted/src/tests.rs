use fettle_step::{
    FailureClass, Observation,
    exec::{self, Outcome, Termination},
    fake::{Node, Trial, exited, terminated},
};
use serde_json::json;

#[test]
fn arguments_reach_the_host_by_name_in_order() {
    let node = Node::new();
    node.put_profile("nvidia_smi_health", Ok(exited(0, "ok\n", "")));
    let input = json!({"profile": "nvidia_smi_health", "arguments": {"level": 3, "gpu": "GPU-1"}});
    assert_eq!(
        Trial::new(super::step()).run(&input),
        Ok(json!({
            "exit_code": 0, "stdout": "ok\n", "stdout_truncated": false,
            "stderr": "", "stderr_truncated": false, "duration_ms": 5,
        }))
    );
    assert_eq!(node.calls(), ["exec.run nvidia_smi_health gpu=GPU-1 level=3"]);
}

#[test]
fn an_exit_code_that_the_profile_expects_is_success() {
    let node = Node::new();
    let outcome = Outcome { expected: true, stdout_truncated: true, ..exited(2, "cut", "") };
    node.put_profile("check", Ok(outcome));
    let output = Trial::new(super::step()).run(&json!({"profile": "check"})).unwrap();
    assert_eq!((&output["exit_code"], &output["stdout_truncated"]), (&json!(2), &json!(true)));
}

#[test]
fn every_other_end_is_explained() {
    let long = "x".repeat(5_000);
    let argument = exec::Error::InvalidArgument("the argument `level` must be 1 to 3".to_owned());
    for (answer, class, code, part) in [
        (
            Ok(exited(3, "", "starting\nno such device\n\n")),
            FailureClass::Permanent,
            "command.exit-code",
            "`check` ended with exit code 3, which its profile does not expect; it last wrote: no such device",
        ),
        (Ok(exited(1, "out", "")), FailureClass::Permanent, "command.exit-code", "it wrote nothing to stderr"),
        (Ok(exited(1, "", &long)), FailureClass::Permanent, "command.exit-code", "xxx…"),
        (Ok(terminated(Termination::TimedOut)), FailureClass::Permanent, "command.timed-out", "within its timeout"),
        (Ok(terminated(Termination::Signaled(9))), FailureClass::Permanent, "command.signaled", "by signal 9"),
        (Err(argument), FailureClass::InvalidInput, "exec.invalid-argument", "`level` must be 1 to 3"),
        (Err(exec::Error::AccessDenied), FailureClass::Denied, "exec.access-denied", "`check`"),
        (
            Err(exec::Error::NotStarted("its SHA-256 differs".to_owned())),
            FailureClass::Permanent,
            "exec.not-started",
            "its SHA-256 differs",
        ),
    ] {
        let node = Node::new();
        node.put_profile("check", answer);
        let failure = Trial::new(super::step()).run(&json!({"profile": "check"})).unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure}");
        assert!(failure.message.contains(part) && failure.message.len() < 2_100, "{failure}");
    }
}

#[test]
fn what_is_no_text_or_whole_number_is_refused_by_its_place() {
    let node = Node::new();
    node.put_profile("check", Ok(exited(0, "", "")));
    for value in [json!(true), json!(1.5), json!(["a"]), json!(null)] {
        let failure =
            Trial::new(super::step()).run(&json!({"profile": "check", "arguments": {"a": value}})).unwrap_err();
        assert!(failure.message.contains("at `/arguments/a`: an argument is a text or a whole number"), "{failure}");
    }
    assert!(node.calls().is_empty());
}

#[test]
fn it_cannot_tell_whether_it_ran() {
    assert!(matches!(Trial::new(super::step()).probe(&json!({"profile": "check"})), Ok(Observation::Unknown(_))));
}
