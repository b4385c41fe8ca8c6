//! How an error is told: the sentence, everything that is wrong, the code, and what to do.

use std::{error::Error, fmt::Write as _};

use serde_json::json;

use crate::{error::CommandError, output, plane::PlaneError};

/// The sentence with its causes. A cause that repeats what was said already is left out.
pub(crate) fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

/// An error as text for people.
pub(crate) fn text(error: &CommandError) -> String {
    let mut text = format!("error: {}\n", sentence(error));
    for violation in violations(error) {
        let pointer = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
        let message = violation.message.replace('\n', "\n    ");
        let _ = writeln!(text, "  {pointer}: {message}");
    }
    if let Some(code) = code(error) {
        let _ = writeln!(text, "code: {code}");
    }
    if let Some(help) = error.help() {
        let _ = writeln!(text, "help: {help}");
    }
    text
}

/// An error as one JSON value for programs.
pub(crate) fn json(error: &CommandError) -> String {
    let value = json!({ "error": {
        "message": sentence(error),
        "code": code(error),
        "violations": violations(error),
        "help": error.help(),
        "idempotency_key": idempotency_key(error),
        "exit_code": error.exit().code(),
    }});
    output::json_text(&value.to_string()) + "\n"
}

fn violations(error: &CommandError) -> &[fettle_model::violation::Violation] {
    if let CommandError::Broken { violations, .. } = error {
        return &violations.0;
    }
    error.plane().and_then(PlaneError::problem).map_or(&[], |problem| &problem.violations)
}

fn idempotency_key(error: &CommandError) -> Option<&str> {
    if let CommandError::Unconfirmed { key, .. } = error { Some(key) } else { None }
}

fn code(error: &CommandError) -> Option<&str> {
    error.plane().and_then(PlaneError::problem).map(|problem| problem.code.as_str()).filter(|code| !code.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::Problem;

    fn refused(status: u16, body: &str) -> CommandError {
        PlaneError::Refused(Problem::read(status, body.as_bytes())).into()
    }

    #[test]
    fn every_violation_is_told_with_its_place() {
        let error = refused(
            422,
            r#"{"type": "urn:fettle:problem:request.invalid", "title": "Unprocessable Entity", "status": 422,
                "code": "request.invalid", "detail": "the request breaks 2 rules", "violations": [
                {"pointer": "/inputs/model", "message": "3 is not of type \"string\""},
                {"pointer": "", "message": "too much"}]}"#,
        );
        assert_eq!(
            text(&error),
            "error: the request breaks 2 rules\n  /inputs/model: 3 is not of type \"string\"\n  /: too much\n\
             code: request.invalid\n"
        );
        assert_eq!(error.exit().code(), 3);
    }

    #[test]
    fn a_problem_says_its_code_and_what_to_do() {
        let error =
            refused(404, r#"{"code": "operation.unknown", "detail": "there is no operation `x` in project `p`"}"#);
        assert_eq!(
            text(&error),
            "error: there is no operation `x` in project `p`\ncode: operation.unknown\n\
             help: `fettle operation list` shows those of this project\n"
        );
        let value: serde_json::Value = serde_json::from_str(&json(&error)).unwrap();
        assert_eq!((&value["error"]["code"], &value["error"]["exit_code"]), (&"operation.unknown".into(), &4.into()));
    }

    #[test]
    fn a_submission_whose_fate_is_unknown_says_its_key() {
        let source = PlaneError::Refused(Problem::read(504, b"upstream timed out"));
        let error = CommandError::Unconfirmed { key: "fettle-07".to_owned(), source };
        assert_eq!(
            text(&error),
            "error: nobody knows whether the operation was submitted; its idempotency key is `fettle-07`: the plane \
             answered 504 and says: upstream timed out\n\
             help: send the same command again with `--idempotency-key fettle-07`: it makes the operation, or finds it\n"
        );
        let value: serde_json::Value = serde_json::from_str(&json(&error)).unwrap();
        assert_eq!(value["error"]["idempotency_key"], "fettle-07");
        assert_eq!(error.exit().code(), 6);
    }

    #[test]
    fn an_answer_that_is_no_problem_document_is_still_told() {
        let error = refused(502, "<html>bad gateway</html>\nmore");
        assert_eq!(
            text(&error),
            "error: the plane answered 502 and says: <html>bad gateway</html>\n\
             help: try again; if it stays so, read the plane's log\n"
        );
        assert_eq!(error.exit().code(), 6);
        assert!(text(&refused(403, "")).contains("403 and says: nothing more"));
    }
}
