//! `noop@v1`: takes any object, does nothing, answers an empty object. Benchmarks measure the host with it.

use fettle_step::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Any object; nothing of it is looked at.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
struct Input {
    #[expect(dead_code, reason = "read only to check that it is an object")]
    anything: Map<String, Value>,
}

/// Nothing.
#[derive(Serialize, JsonSchema)]
struct Output {}

#[expect(clippy::unnecessary_wraps, reason = "the form of every step")]
fn run(_input: &Input) -> Result<Output, Failure> {
    Ok(Output {})
}

fettle_step::step! {
    kind: "noop@v1",
    summary: "Does nothing.",
    effect: Observe,
    requests: {},
    run: run,
}

#[cfg(test)]
mod tests {
    use fettle_step::{FailureClass, fake::Trial};
    use serde_json::json;

    #[test]
    fn any_object_is_taken_and_nothing_done() {
        let trial = Trial::new(super::step());
        for input in [json!({}), json!({"a": {"b": [1, null]}})] {
            assert_eq!(trial.run(&input), Ok(json!({})));
        }
        assert_eq!(trial.run(&json!([])).unwrap_err().class, FailureClass::InvalidInput);
    }
}
