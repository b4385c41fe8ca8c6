//! `policy.activate@v1`: has a node obey a signed activation of policy bundles, or go back to an earlier bundle where that
//! was signed. The step decides nothing: the host fetches, verifies and obeys, or says why not.

use fettle_step::{Failure, Observation, policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which activation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A signed policy activation, as `host:port/repository@sha256:<hex>`: what `fettle policy activate` prints.
    activation: String,
}

/// What counts on the node from then on.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The activation that the node obeys.
    activation: String,
    /// Its revision.
    revision: u64,
    /// Digests of the policy bundles that count.
    bundles: Vec<String>,
}

fettle_step::step! {
    kind: "policy.activate@v1",
    summary: "Has a node obey a signed activation of policy bundles.",
    effect: Converge,
    requests: { policy: "tells the node which policy bundles count" },
    run: run,
    probe: probe,
}

fn output(active: policy::ActivePolicies) -> Output {
    Output { activation: active.activation, revision: active.revision, bundles: active.bundles }
}

fn probe(input: &Input) -> Result<Observation<Output>, Failure> {
    Ok(match policy::active()? {
        Some(active) if active.activation == input.activation => Observation::Satisfied(output(active)),
        Some(active) => Observation::Unsatisfied(format!(
            "the node obeys revision {} of another activation, {}",
            active.revision, active.activation
        )),
        None => Observation::Unsatisfied("no activation ever came to this node".to_owned()),
    })
}

fn run(input: &Input) -> Result<Output, Failure> {
    Ok(output(policy::activate(&input.activation)?))
}

#[cfg(test)]
mod tests;
