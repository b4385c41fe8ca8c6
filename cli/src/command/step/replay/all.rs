//! `fettle step replay --all`

use std::{collections::BTreeMap, fmt::Write as _};

use fettle_host::{
    executor::journal::{Entry, Filter},
    replay::Replayed,
};
use fettle_model::digest::Digest;
use serde::Serialize;
use serde_json::json;

use super::{
    Component, Session, again,
    host::{Host, named},
    text,
};
use crate::{
    error::{CommandError, count},
    report,
};

/// What became of one attempt.
#[derive(Serialize)]
struct Tried {
    attempt: Entry,
    verdict: &'static str,
    nondeterministic: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Replayed>,
    /// Why it was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The verdict on what could not be tried.
const UNTRIED: &str = "UNTRIED";

impl Tried {
    fn new(attempt: Entry, outcome: Result<Replayed, CommandError>) -> Self {
        match outcome {
            Ok(found) => Self {
                attempt,
                verdict: text::verdict(&found),
                nondeterministic: found.is_nondeterministic(),
                replay: Some(found),
                problem: None,
            },
            Err(error) => {
                let problem = Some(report::sentence(&error));
                Self { attempt, verdict: UNTRIED, nondeterministic: false, replay: None, problem }
            }
        }
    }

    fn word(&self) -> &'static str {
        self.replay.as_ref().map_or(self.verdict, text::word)
    }
}

/// Components by their digest, each compiled once.
struct Components<'a> {
    host: &'a Host,
    given: Option<Component>,
    kept: BTreeMap<Digest, Option<Component>>,
}

impl Components<'_> {
    /// The one that was given, else the one that ran.
    async fn of(&mut self, digest: Digest) -> Result<&Component, CommandError> {
        if let Some(given) = &self.given {
            return Ok(given);
        }
        if !self.kept.contains_key(&digest) {
            self.kept.insert(digest, self.host.component(digest).await?);
        }
        self.kept.get(&digest).and_then(Option::as_ref).ok_or_else(|| self.host.not_kept(digest))
    }
}

/// Replays all attempts that match; with a component that is given, those of its kind.
pub(super) async fn run(
    session: &Session,
    host: &Host,
    filter: &Filter,
    given: Option<Component>,
    times: u32,
) -> Result<(), CommandError> {
    let kind = given.as_ref().map(|component| component.descriptor.kind.to_string());
    let entries = host.list(filter).await?;
    let mut components = Components { host, given, kept: BTreeMap::new() };
    let mut tried = Vec::new();
    for entry in entries.into_iter().filter(|entry| kind.as_ref().is_none_or(|kind| *kind == entry.kind)) {
        let outcome = one(&mut components, &entry, times).await;
        tried.push(Tried::new(entry, outcome));
    }
    let number = |verdict| tried.iter().filter(|one| one.verdict == verdict).count();
    let (same, different, untried) = (number("SAME"), number("DIFFERENT"), number(UNTRIED));
    let answer = json!({ "attempts": tried, "same": same, "different": different, "untried": untried });
    let summary = format!("{}: {same} same, {different} different, {untried} untried", count(tried.len(), "attempt"));
    session.show(&answer, |_| shown(&tried, &summary))?;
    if same == tried.len() { Ok(()) } else { Err(CommandError::Differs("not every replay is like its recording")) }
}

async fn one(components: &mut Components<'_>, entry: &Entry, times: u32) -> Result<Replayed, CommandError> {
    let recorded = components.host.cassette(entry).await?;
    let component = components.of(recorded.header.component).await?;
    Ok(again(component, &recorded, times).await?.0)
}

fn shown(tried: &[Tried], summary: &str) -> String {
    let mut text = format!("{:<26}  {:<15} {:>3}  VERDICT\n", "OPERATION", "STEP", "TRY");
    for one in tried {
        let partial = if one.replay.as_ref().is_some_and(|found| found.partial.is_some()) { ", in part" } else { "" };
        let Entry { operation_id, step_id, attempt, .. } = &one.attempt;
        let _ = writeln!(text, "{operation_id:<26}  {step_id:<15} {attempt:>3}  {}{partial}", one.word());
    }
    for one in tried {
        match (&one.replay, &one.problem) {
            (Some(found), _) if !found.same => {
                let _ = write!(text, "\n{}{}", named(&one.attempt), text::text(found));
            }
            (_, Some(problem)) => {
                let _ = writeln!(text, "\n{}{UNTRIED}: {problem}", named(&one.attempt));
            }
            (Some(_) | None, None) => {}
        }
    }
    let _ = writeln!(text, "\n{summary}");
    text
}
