//! `fettle step replay`

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;
use fettle_host::replay::{Difference, Replayed, replay};
use serde_json::json;

use super::{
    Session,
    component::{Component, cassette},
};
use crate::{
    error::{CommandError, count},
    supply::TrustArguments,
};

/// Runs a recorded attempt again, with the recorded answers, and compares every call and every outcome.
///
/// Nothing of this machine is touched. The exit code is 0 when everything is the same, as far as it was
/// recorded, and 1 when anything differs. A step that does something else on the same input and the same
/// answers is named NONDETERMINISTIC; with another component it is only DIFFERENT.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle-host cassettes export --operation 01J... --step render --output render.cassette     (on the node)
  fettle step replay render.cassette --component registry.internal:5000/steps/file.render@sha256:...
  fettle step replay render.cassette --component target/wasm32-wasip2/step/my_step.wasm --json")]
pub struct Replay {
    /// The cassette.
    #[arg(value_name = "FILE")]
    cassette: PathBuf,
    /// The component: the one that was recorded, or another one to compare with it.
    #[arg(long, value_name = "FILE|REFERENCE")]
    component: String,
    /// How often: chance may be kind once.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Replay {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let recorded = cassette(&self.cassette).await?;
        let component = Component::load(session, &self.component, &self.trust).await?;
        let failed = |source| CommandError::Replay { path: component.path.clone(), source };
        let mut found = replay(&component.sandbox, &component.compiled, &recorded).await.map_err(failed)?;
        let mut times = 1;
        while found.same && times < self.times {
            found = replay(&component.sandbox, &component.compiled, &recorded).await.map_err(failed)?;
            times += 1;
        }
        let answer = json!({
            "verdict": verdict(&found), "nondeterministic": found.is_nondeterministic(), "times": times,
            "cassette": recorded.digest, "replay": found,
        });
        session.show(&answer, |_| text(&found))?;
        if found.same { Ok(()) } else { Err(CommandError::Differs("the replay differs from its recording")) }
    }
}

const fn verdict(found: &Replayed) -> &'static str {
    if found.same { "SAME" } else { "DIFFERENT" }
}

fn text(found: &Replayed) -> String {
    let mut text = String::new();
    let compared =
        format!("{} and {} of {}", count_of(found.functions, "function"), count_of(found.calls, "call"), found.kind);
    if let Some(difference) = &found.difference {
        let word = if found.is_nondeterministic() { "NONDETERMINISTIC" } else { "DIFFERENT" };
        let _ = writeln!(text, "{word}: {}", because(found));
        let _ = write!(text, "{}", shown(difference));
    } else {
        let _ = writeln!(text, "SAME: {compared}");
    }
    if let Some(partial) = &found.partial {
        let _ = writeln!(text, "compared up to there only: {partial}");
    }
    if found.other_limits {
        text.push_str("the limits here are other ones than on the node that recorded it\n");
    }
    text
}

fn because(found: &Replayed) -> String {
    if found.is_nondeterministic() {
        format!("{} was asked and answered the same, and did something else ({})", found.kind, found.component)
    } else if found.component == found.recorded_component {
        format!("a recorded answer is none that this program's contract knows ({})", found.kind)
    } else {
        format!("{} is not {}, which was recorded, and behaves otherwise", found.component, found.recorded_component)
    }
}

fn shown(difference: &Difference) -> String {
    let two = |place: String, before: &str, now: &str| format!("{place}\n  recorded  {before}\n  now       {now}\n");
    match difference {
        Difference::Call { function, call, expected, actual } => {
            two(format!("{}, call {call}", function.name()), expected, actual)
        }
        Difference::ExtraCall { function, call, actual } => {
            two(format!("{}, call {call}", function.name()), "no further call", actual)
        }
        Difference::MissingCalls { function, call, expected, actual } => {
            two(format!("{}, call {call}", function.name()), expected, &format!("no call: it ended, {actual}"))
        }
        Difference::Outcome { function, expected, actual } => {
            two(format!("{}, its end", function.name()), expected, actual)
        }
        Difference::Answer { function, call, name, reason } => {
            format!("{}, call {call}, the answer to {name}\n  {reason}\n", function.name())
        }
    }
}

fn count_of(number: u32, word: &str) -> String {
    count(number as usize, word)
}
