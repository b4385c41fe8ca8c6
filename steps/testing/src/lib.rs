//! `testing.misbehave@v1`: does what a host must survive, on request. Never part of a catalog.

mod behavior;
mod input;

use fettle_step::{About, Capability, Context, Definition, Effect, Failure, Observation, Step};
use input::{Answer, Input, Mode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What the mode answered.
#[derive(Serialize, JsonSchema)]
struct Output {
    answer: Value,
}

const ABOUT: About = About {
    kind: "testing.misbehave@v1",
    summary: "Does what a host must survive, on request.",
    effect: Effect::Observe,
    requests: &[
        (Capability::Exec, "runs the command profile that the test names"),
        (Capability::Files, "reads and writes the paths that the test names"),
        (Capability::Facts, "reads the fact that the test names"),
        (Capability::Gpu, "reads the GPUs when the test says so"),
    ],
};

fn run(input: &Input) -> Result<Output, Failure> {
    Ok(Output { answer: behavior::act(input)? })
}

fn probe(input: &Input) -> Result<Observation<Output>, Failure> {
    match input.probe {
        Answer::Satisfied => Ok(Observation::Satisfied(Output { answer: input.value.clone() })),
        Answer::Unsatisfied => Ok(Observation::Unsatisfied("the test says so".to_owned())),
        Answer::Unknown => Ok(Observation::Unknown("the test says so".to_owned())),
        Answer::Loop => behavior::endless(),
        Answer::Fail => Err(behavior::fail(input)),
    }
}

/// The step; by hand, because some modes break the contract that `step!` keeps.
#[must_use]
pub fn step() -> impl Step {
    Misbehaving { good: Definition::new(ABOUT, run).with_probe(probe) }
}

struct Misbehaving {
    good: Definition<Input, Output>,
}

impl Step for Misbehaving {
    fn describe(&self) -> String {
        self.good.describe()
    }

    fn probe(&self, context: &Context, input: &str) -> Result<Observation<String>, Failure> {
        self.good.probe(context, input)
    }

    fn run(&self, context: &Context, input: &str) -> Result<String, Failure> {
        let answer = self.good.run(context, input)?;
        let Ok(input) = serde_json::from_str::<Input>(input) else {
            return Ok(answer);
        };
        Ok(match input.mode {
            Mode::InvalidJson => "{\"answer\": ".to_owned(),
            Mode::WrongSchema => r#"{"reply": 1}"#.to_owned(),
            Mode::HugeOutput => {
                format!(r#"{{"answer":"{}"}}"#, "x".repeat(usize::try_from(input.count).unwrap_or(usize::MAX)))
            }
            Mode::Ok
            | Mode::Loop
            | Mode::Busy
            | Mode::Allocate
            | Mode::Log
            | Mode::Panic
            | Mode::Fail
            | Mode::Exec
            | Mode::ReadFile
            | Mode::WriteFile
            | Mode::Stat
            | Mode::Facts
            | Mode::Gpu
            | Mode::Ask
            | Mode::Chance => answer,
        })
    }

    fn undo(&self, context: &Context, input: &str, output: Option<&str>) -> Result<(), Failure> {
        self.good.undo(context, input, output)
    }
}

fettle_step::export!(step);

#[cfg(test)]
mod tests {
    use fettle_step::{
        Context, FailureClass, Observation, Step,
        fake::{Node, Trial},
    };
    use serde_json::json;

    use super::step;

    #[test]
    fn the_probe_answers_what_the_test_says() {
        let trial = Trial::new(step());
        let probe =
            |answer: &str| trial.probe(&json!({"mode": "ok", "probe": answer, "value": 7, "class": "transient"}));
        assert_eq!(probe("satisfied"), Ok(Observation::Satisfied(json!({"answer": 7}))));
        assert!(matches!(probe("unsatisfied"), Ok(Observation::Unsatisfied(_))));
        assert!(matches!(probe("unknown"), Ok(Observation::Unknown(_))));
        assert_eq!(probe("fail").unwrap_err().class, FailureClass::Transient);
    }

    #[test]
    fn it_breaks_the_contract_on_request() {
        let run = |input: &str| step().run(&Context::default(), input).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&run(r#"{"mode": "invalid_json"}"#)).is_err());
        assert_eq!(run(r#"{"mode": "wrong_schema"}"#), r#"{"reply": 1}"#);
        assert!(run(r#"{"mode": "huge_output", "count": 3000000}"#).len() > 3_000_000);
    }

    #[test]
    fn it_reaches_only_what_is_granted() {
        let node = Node::new();
        let trial = Trial::new(step());
        for input in [
            json!({"mode": "exec", "name": "id"}),
            json!({"mode": "read_file", "path": "site/a"}),
            json!({"mode": "facts", "name": "memory"}),
            json!({"mode": "gpu"}),
        ] {
            assert_eq!(trial.run(&input).unwrap_err().class, FailureClass::Denied, "{input}");
        }
        node.allow_write("site");
        assert_eq!(
            trial.run(&json!({"mode": "write_file", "path": "site/a", "text": "x"})),
            Ok(json!({"answer": true}))
        );
        assert_eq!(trial.run(&json!({"mode": "read_file", "path": "site/a"})), Ok(json!({"answer": "x"})));
        assert_eq!(trial.run(&json!({"mode": "log", "count": 3, "text": "x"})), Ok(json!({"answer": 3})));
        assert_eq!(node.logs().len(), 3);
    }
}
