//! A step as an author writes it, called as the host calls it.

use fettle_step::{
    Context, Failure, FailureClass, Observation, Step,
    fake::{Node, Trial, converges},
    files,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What to write.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    path: String,
    text: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Output {
    size: usize,
}

fn run(input: &Input) -> Result<Output, Failure> {
    files::write(&input.path, input.text.as_bytes(), files::mode(0o644))?;
    Ok(Output { size: input.text.len() })
}

fn probe(input: &Input) -> Result<Observation<Output>, Failure> {
    if files::read_if_present(&input.path, 100)?.as_deref() == Some(input.text.as_bytes()) {
        return Ok(Observation::Satisfied(Output { size: input.text.len() }));
    }
    Ok(Observation::Unsatisfied("x".repeat(100_000)))
}

fn undo(input: &Input, output: Option<&Output>) -> Result<(), Failure> {
    if output.is_some() {
        files::remove(&input.path)?;
    }
    Ok(())
}

fettle_step::step! {
    kind: "text.write@v1",
    summary: "Writes a text to a file.",
    effect: Converge,
    requests: { files: "reads and writes the file" },
    run: run,
    probe: probe,
    undo: undo,
}

mod consuming {
    use fettle_step::Failure;

    #[expect(clippy::unnecessary_wraps, reason = "the form of every step")]
    fn run(_: &super::Input) -> Result<super::Output, Failure> {
        Ok(super::Output { size: usize::try_from(fettle_step::context().attempt).unwrap_or_default() })
    }

    fettle_step::step! {
        kind: "text.send@v1",
        summary: "Sends a text, once.",
        effect: Consume,
        requests: {},
        run: run,
    }
}

#[test]
fn a_step_describes_itself() {
    let description = Trial::new(step()).describe();
    assert_eq!(description["kind"], "text.write@v1");
    assert_eq!(description["effect"], "converge");
    assert_eq!(description["requests"], json!({"files": "reads and writes the file"}));
    assert_eq!((&description["probes"], &description["undoes"]), (&json!(true), &json!(true)));
    assert_eq!(description["input_schema"]["required"], json!(["path", "text"]));
    assert_eq!(description["input_schema"]["additionalProperties"], json!(false));
}

#[test]
fn a_step_is_probed_run_and_undone_through_json() {
    let node = Node::new();
    node.allow_write("site");
    let trial = Trial::new(step());
    let input = json!({"path": "site/a", "text": "hello"});
    let output = converges(&trial, &input);
    assert_eq!(output, json!({"size": 5}));
    assert_eq!(trial.undo(&input, None), Ok(()));
    assert!(node.file("site/a").is_some());
    assert_eq!(trial.undo(&input, Some(&output)), Ok(()));
    assert!(node.file("site/a").is_none());
}

#[test]
fn a_difference_is_cut_at_its_limit() {
    let node = Node::new();
    node.allow_write("site");
    let Ok(Observation::Unsatisfied(difference)) = Trial::new(step()).probe(&json!({"path": "site/a", "text": ""}))
    else {
        panic!("not unsatisfied");
    };
    assert!(difference.len() <= 64 * 1024 && difference.ends_with('…'));
}

#[test]
fn a_step_without_probe_or_undo_says_so() {
    let trial = Trial::new(consuming::step());
    let input = json!({"path": "a/b", "text": ""});
    assert!(matches!(trial.probe(&input), Ok(Observation::Unknown(_))));
    assert_eq!(trial.probe(&json!({})).unwrap_err().class, FailureClass::InvalidInput);
    assert_eq!(trial.undo(&input, None).unwrap_err().code, "undo.unsupported");
}

#[test]
fn a_step_sees_its_attempt() {
    let context = Context { attempt: 3, ..Context::default() };
    let answer = consuming::step().run(&context, r#"{"path": "a/b", "text": ""}"#);
    assert_eq!(answer.as_deref(), Ok(r#"{"size":3}"#));
}

#[test]
fn a_node_grants_nothing_and_is_gone_when_dropped() {
    let input = json!({"path": "site/a", "text": "x"});
    let trial = Trial::new(step());
    let denied = || trial.run(&input).is_err_and(|failure| failure.class == FailureClass::Denied);
    assert!(denied());
    {
        let node = Node::new();
        assert!(denied());
        node.allow_read("site");
        assert!(denied());
        node.allow_write("site-old");
        assert!(denied());
        node.allow_write("site");
        assert!(!denied());
    }
    assert!(denied());
}

#[test]
fn each_capability_error_has_its_class_and_says_what_was_tried() {
    for (error, class) in [
        (files::Error::AccessDenied, FailureClass::Denied),
        (files::Error::InvalidPath("no `..`".to_owned()), FailureClass::InvalidInput),
        (files::Error::NotFound, FailureClass::Permanent),
        (files::Error::TooLarge(5), FailureClass::Permanent),
        (files::Error::NoSpace("full".to_owned()), FailureClass::Transient),
        (files::Error::Failed("i/o error".to_owned()), FailureClass::Permanent),
    ] {
        let node = Node::new();
        node.allow_write("site").break_files(error);
        let failure = Trial::new(step()).run(&json!({"path": "site/a", "text": "x"})).unwrap_err();
        assert_eq!(failure.class, class, "{failure}");
        assert!(failure.message.contains("write `site/a`") && failure.code.starts_with("files."), "{failure}");
    }
}
