//! `fettle trust check`

use std::path::PathBuf;

use clap::Args;
use fettle_supply::TrustPolicy;
use serde_json::{Value, json};

use super::Session;
use crate::{error::CommandError, supply::read};

/// Reads a trust policy strictly and prints, kind by kind, whose signatures it lets count.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle trust check policies/trust/managed-keys.yaml")]
pub struct Check {
    /// The trust policy, in YAML or JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Check {
    pub(super) fn run(&self, session: &Session) -> Result<(), CommandError> {
        let policy = TrustPolicy::read(&read(&self.file)?)
            .map_err(|source| CommandError::Trust { path: self.file.clone(), source })?;
        session.show(&value(&policy), |_| text(&policy))
    }
}

pub(super) fn value(policy: &TrustPolicy) -> Value {
    let denied: Vec<_> =
        policy.denied().map(|(digest, reason)| json!({ "digest": digest, "reason": reason })).collect();
    json!({ "digest": policy.digest(), "revision": policy.revision(), "needed": policy.in_words(), "denied": denied })
}

pub(super) fn text(policy: &TrustPolicy) -> String {
    let mut text = format!("digest    {}\nrevision  {}\n", policy.digest(), policy.revision());
    for (kind, needed) in policy.in_words() {
        text.push_str(&format!("{kind}: {needed}\n"));
    }
    for (digest, reason) in policy.denied() {
        text.push_str(&format!("denied: {digest} ({reason})\n"));
    }
    if !policy.in_words().contains_key("trust_policy") {
        text.push_str("no rule for trust_policy: a newer policy cannot be activated, only put in place of the file\n");
    }
    text
}
