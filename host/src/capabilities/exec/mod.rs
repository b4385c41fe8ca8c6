//! `exec`: command profiles, and the only place of the host that starts programs.

mod calls;
pub mod leftovers;
mod program;
mod spawn;
pub mod users;

use std::{collections::BTreeMap, sync::Arc};

use fettle_model::{
    command,
    failure::Failure,
    grant::ExecGrant,
    policy::{CommandProfile, PolicyBundle},
};
use tokio::sync::Semaphore;

pub use self::spawn::{Finished, Program, SpawnError, Spawner, Termination};
use super::{Node, denials::Denials, denied, files::NodePath};
use crate::sandbox::bindings::fettle::exec::exec as wit;

/// Children at once per attempt.
const CHILDREN: usize = 4;

/// What one step may run.
#[derive(Clone, Default)]
pub struct Configured(Option<Arc<Granted>>);

struct Granted {
    profiles: BTreeMap<String, CommandProfile>,
    roots: BTreeMap<String, std::path::PathBuf>,
    spawner: Spawner,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Exec {
    granted: Option<Arc<Granted>>,
    attempt: String,
    children: Option<Semaphore>,
    denials: Denials,
}

impl Configured {
    pub(super) fn new(grant: Option<&ExecGrant>, policy: &PolicyBundle, node: &Node) -> Result<Self, Failure> {
        let Some(grant) = grant else { return Ok(Self(None)) };
        let mut profiles = BTreeMap::new();
        for id in &grant.profiles {
            let Some(profile) = policy.profile(id) else {
                let known: Vec<&str> = policy.profiles.iter().map(|profile| profile.id.as_str()).collect();
                return Err(denied(
                    "exec.unknown-profile",
                    format!(
                        "the grant names command profile `{id}`, and this node's policy has no such profile; it has {}",
                        known.join(", ")
                    ),
                ));
            };
            profiles.insert(id.clone(), profile.clone());
        }
        let roots =
            policy.roots.iter().map(|(name, path)| (name.to_string(), node.files_directory.join(path))).collect();
        Ok(Self(Some(Arc::new(Granted { profiles, roots, spawner: node.spawner.clone() }))))
    }

    pub(super) fn prepare(&self, attempt: &str, denials: Denials) -> Exec {
        let children = Some(Semaphore::new(CHILDREN));
        Exec { granted: self.0.clone(), attempt: attempt.to_owned(), children, denials }
    }
}

impl Exec {
    async fn start(&self, id: &str, arguments: Vec<wit::Argument>) -> Result<wit::Outcome, wit::Error> {
        let granted = self.granted.as_ref().ok_or(wit::Error::AccessDenied)?;
        let profile = granted.profiles.get(id).ok_or_else(|| {
            self.denials.note("exec.profiles", granted.profiles.keys(), id);
            wit::Error::AccessDenied
        })?;
        let given: Vec<(String, String)> =
            arguments.into_iter().map(|argument| (argument.name, argument.value)).collect();
        let vector =
            command::arguments(profile, &given).map_err(|error| wit::Error::InvalidArgument(error.to_string()))?;
        let program = program::build(profile, vector, &granted.roots, &self.attempt).map_err(wit::Error::NotStarted)?;
        let children = self.children.as_ref().ok_or(wit::Error::AccessDenied)?;
        let _slot = children.acquire().await.map_err(|_| wit::Error::AccessDenied)?;
        let finished = granted.spawner.run(program).await.map_err(|error| wit::Error::NotStarted(error.to_string()))?;
        Ok(outcome(profile, finished))
    }
}

fn outcome(profile: &CommandProfile, finished: Finished) -> wit::Outcome {
    let expected =
        matches!(finished.termination, Termination::Exited(code) if profile.expected_exit_codes.contains(&code));
    wit::Outcome {
        termination: match finished.termination {
            Termination::Exited(code) => wit::Termination::Exited(code),
            Termination::Signaled(signal) => wit::Termination::Signaled(signal),
            Termination::TimedOut => wit::Termination::TimedOut,
        },
        expected,
        stdout: String::from_utf8_lossy(&finished.stdout.bytes).into_owned(),
        stdout_truncated: finished.stdout.truncated,
        stderr: String::from_utf8_lossy(&finished.stderr.bytes).into_owned(),
        stderr_truncated: finished.stderr.truncated,
        duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
    }
}

impl Exec {
    pub(super) async fn run(
        &mut self,
        profile: String,
        arguments: Vec<wit::Argument>,
    ) -> Result<wit::Outcome, wit::Error> {
        self.start(&profile, arguments).await
    }
}

/// The absolute path of a checked `root/below/it`.
fn absolute(path: &str, roots: &BTreeMap<String, std::path::PathBuf>) -> Result<String, String> {
    let parsed = NodePath::parse(path).map_err(|rule| format!("`{path}` {rule}"))?;
    let root = roots.get(parsed.root()).ok_or_else(|| format!("this node has no root `{}`", parsed.root()))?;
    // The program follows what it is given, so what is there must be no link out of the root.
    let real =
        std::fs::canonicalize(root).map_err(|error| format!("root `{}` cannot be used: {error}", parsed.root()))?;
    let wanted = if parsed.relative() == "." { real } else { real.join(parsed.relative()) };
    match std::fs::canonicalize(&wanted) {
        Ok(found) if found == wanted => Ok(found.to_string_lossy().into_owned()),
        Ok(_) => Err(format!("`{path}` leads through a symbolic link; links are not followed")),
        Err(error) => Err(format!("`{path}` cannot be used: {error}")),
    }
}
