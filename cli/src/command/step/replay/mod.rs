//! `fettle step replay`

mod all;
mod host;
mod text;

use std::path::{Path, PathBuf};

use clap::Args;
use fettle_host::{
    executor::journal::Entry,
    replay::{Replayed, replay},
};
use fettle_model::cassette::Cassette;
use serde_json::json;

use self::host::{Host, Which, newest};
use super::{
    Session,
    component::{Component, cassette},
};
use crate::{error::CommandError, supply::TrustArguments};

/// Runs recorded attempts again, with the recorded answers, and compares every call and every outcome.
///
/// An attempt comes from a file, or straight from what a host keeps (`--data`), which may run meanwhile:
/// the last attempt that matches, or with `--all` every one. Its component is taken from what that host
/// keeps, by its digest, unless `--component` names one.
///
/// Nothing of this machine is touched. The exit code is 0 when everything is the same, as far as it was
/// recorded, and 1 when anything differs or could not be tried. A step that does something else on the same
/// input and the same answers is named NONDETERMINISTIC; with another component it is only DIFFERENT.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step replay --data /var/lib/fettle-host --operation 01J... --step render
  fettle step replay --data /var/lib/fettle-host --operation 01J... --step render --attempt 2 --json
  fettle step replay --data /var/lib/fettle-host --all
  fettle step replay --data /var/lib/fettle-host --all --component my_step.wasm
  fettle step replay render.cassette --component registry.internal:5000/steps/file.render@sha256:...")]
pub struct Replay {
    /// The cassette, as `fettle-host cassettes export` wrote it.
    #[arg(value_name = "FILE", conflicts_with = "data", requires = "component")]
    cassette: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
    /// The component: the one that was recorded, or another one to compare with it. With `--all`, only
    /// attempts of its kind are replayed.
    #[arg(long, value_name = "FILE|REFERENCE")]
    component: Option<String>,
    /// How often: chance may be kind once.
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Replay {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let given = match &self.component {
            Some(name) => Some(Component::load(session, name, &self.trust).await?),
            None => None,
        };
        match (&self.cassette, &self.which.data, given) {
            (Some(file), _, Some(component)) => self.one(session, &cassette(file).await?, &component, None).await,
            (None, Some(data), given) if self.which.all => {
                all::run(session, &Host::open(data).await?, &self.which.filter(), given, self.times).await
            }
            (None, Some(data), given) => self.kept(session, data, given).await,
            (Some(_), _, None) | (None, None, _) => Err(CommandError::Missing {
                problem: "it is not said what to replay".to_owned(),
                fix: "pass --data with what a host keeps, or the file of a cassette with --component".to_owned(),
            }),
        }
    }

    /// Replays one attempt that a host keeps.
    async fn kept(&self, session: &Session, data: &Path, given: Option<Component>) -> Result<(), CommandError> {
        let host = Host::open(data).await?;
        let entry = newest(host.list(&self.which.filter()).await?)?;
        let recorded = host.cassette(&entry).await?;
        let component = match given {
            Some(component) => component,
            None => {
                let digest = recorded.header.component;
                host.component(digest).await?.ok_or_else(|| host.not_kept(digest))?
            }
        };
        self.one(session, &recorded, &component, Some(&entry)).await
    }

    async fn one(
        &self,
        session: &Session,
        recorded: &Cassette,
        component: &Component,
        attempt: Option<&Entry>,
    ) -> Result<(), CommandError> {
        let (found, times) = again(component, recorded, self.times).await?;
        let mut answer = json!({
            "verdict": text::verdict(&found), "nondeterministic": found.is_nondeterministic(), "times": times,
            "cassette": recorded.digest, "replay": found,
        });
        if let Some(attempt) = attempt {
            answer["attempt"] = json!(attempt);
        }
        session.show(&answer, |_| attempt.map(host::named).unwrap_or_default() + &text::text(&found))?;
        if found.same { Ok(()) } else { Err(CommandError::Differs("the replay differs from its recording")) }
    }
}

/// Replays an attempt until it differs, but no more often than `most`; answers how often it was.
async fn again(component: &Component, recorded: &Cassette, most: u32) -> Result<(Replayed, u32), CommandError> {
    let once = async || {
        let failed = |source| CommandError::Replay { path: component.path.clone(), source };
        replay(&component.sandbox, &component.compiled, recorded).await.map_err(failed)
    };
    let mut found = once().await?;
    let mut times = 1;
    while found.same && times < most {
        found = once().await?;
        times += 1;
    }
    Ok((found, times))
}
