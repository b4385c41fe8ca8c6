//! Laws that every step of a kind keeps.

use serde_json::Value;

use super::Trial;
use crate::{Observation, Step};

/// The law of a converge step: its probe is not satisfied before, `run` makes it so, both answer the
/// same output, and a second run answers it again. Answers that output.
///
/// # Panics
/// When the law is broken, saying where.
pub fn converges<S: Step>(trial: &Trial<S>, input: &Value) -> Value {
    let before = trial.probe(input);
    assert!(matches!(before, Ok(Observation::Unsatisfied(_))), "before the run the probe answers {before:?}");
    let first = trial.run(input);
    let after = trial.probe(input);
    let second = trial.run(input);
    assert_eq!(
        after.clone().ok(),
        first.clone().ok().map(Observation::Satisfied),
        "run answers {first:?}, the probe after it {after:?}"
    );
    assert_eq!(second, first, "a second run answers something else");
    first.unwrap_or_default()
}
