//! What a replay found, in words.

use std::fmt::Write as _;

use fettle_host::replay::{Difference, Replayed};
use fettle_model::digest::Digest;

use crate::{error::count, output};

/// The verdict for programs.
pub(super) const fn verdict(found: &Replayed) -> &'static str {
    if found.same { "SAME" } else { "DIFFERENT" }
}

/// What a replay found, for people.
pub(super) fn text(found: &Replayed) -> String {
    let mut text = String::new();
    let compared =
        format!("{} and {} of {}", count_of(found.functions, "function"), count_of(found.calls, "call"), found.kind);
    if let Some(difference) = &found.difference {
        text.push_str(&output::wrap(&format!("{}: ", word(found)), &because(found)));
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

/// The verdict for people: a difference that is the step's own fault has a word of its own.
pub(super) fn word(found: &Replayed) -> &'static str {
    if found.is_nondeterministic() { "NONDETERMINISTIC" } else { verdict(found) }
}

fn because(found: &Replayed) -> String {
    if found.is_nondeterministic() {
        format!("{} was asked and answered the same, and did something else ({})", found.kind, short(found.component))
    } else if found.component == found.recorded_component {
        format!("a recorded answer is none that this program's contract knows ({})", found.kind)
    } else {
        let (now, before) = (short(found.component), short(found.recorded_component));
        format!("{now} is not {before}, which was recorded, and behaves otherwise")
    }
}

/// The start of a digest; all of it is in `--json`.
fn short(digest: Digest) -> String {
    format!("sha256:{}", digest.hex().chars().take(12).collect::<String>())
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
