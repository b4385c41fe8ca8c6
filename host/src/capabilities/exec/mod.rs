//! `exec`: command profiles, and the only place of the host that starts programs.

mod calls;
mod capture;
mod cgroup;
mod confine;
mod executable;
pub mod leftovers;
mod program;
mod spawn;
pub mod users;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fettle_model::{
    command::{self, Argument},
    credential::CredentialType,
    failure::Failure,
    grant::ExecGrant,
    policy::{CommandProfile, PolicyBundle},
    task::LogLevel,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::{
    capture::Captured,
    cgroup::{CgroupError, Cgroups},
    confine::{Confinement, can_close_descriptors},
    spawn::{Finished, NODE_CHILDREN, Program, SecretVariable, SpawnError, Spawner, Termination},
};
use super::{
    Node,
    credentials::{IssueError, Purse},
    denials::Denials,
    denied, report,
};
use crate::sandbox::bindings::fettle::exec::exec as wit;

/// Children at once per attempt.
const CHILDREN: usize = 4;
/// The longest pause before a program is started again.
const BACKOFF_LIMIT: Duration = Duration::from_mins(1);

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
    /// The credentials of the task.
    purse: Option<Arc<Purse>>,
    report: report::Handle,
    denials: Denials,
    /// Programs are asked to end when it is canceled.
    pub(super) stop: CancellationToken,
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

    pub(super) fn prepare(
        &self,
        attempt: &str,
        purse: Option<Arc<Purse>>,
        report: report::Handle,
        denials: Denials,
    ) -> Exec {
        let children = Some(Semaphore::new(CHILDREN));
        let (granted, attempt, stop) = (self.0.clone(), attempt.to_owned(), CancellationToken::new());
        Exec { granted, attempt, children, purse, report, denials, stop }
    }
}

impl Exec {
    pub(super) async fn run(
        &mut self,
        profile: String,
        arguments: Vec<wit::Argument>,
    ) -> Result<wit::Outcome, wit::Error> {
        let granted = self.granted.as_ref().ok_or(wit::Error::AccessDenied)?;
        let profile = granted.profiles.get(&profile).ok_or_else(|| {
            self.denials.note("exec.profiles", granted.profiles.keys(), &profile);
            wit::Error::AccessDenied
        })?;
        tracing::Span::current().record("resolved_profile", profile.id.as_str());
        let given: Vec<(String, String)> =
            arguments.into_iter().map(|argument| (argument.name, argument.value)).collect();
        let vector =
            command::arguments(profile, &given).map_err(|error| wit::Error::InvalidArgument(error.to_string()))?;
        let children = self.children.as_ref().ok_or(wit::Error::AccessDenied)?;
        let _slot = children.acquire().await.map_err(|_| wit::Error::AccessDenied)?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            // Built anew each time: the executable and the paths are checked right before they are used.
            let mut program = program::build(profile, vector.clone(), &granted.roots, &self.attempt)
                .map_err(wit::Error::NotStarted)?;
            program.secrets = self.secrets(profile, &vector).await?;
            let secrets = program.secrets.clone();
            let run = granted.spawner.run_until(program, &self.stop).await;
            let mut finished = run.map_err(|error| wit::Error::NotStarted(error.to_string()))?;
            finished.hide(&secrets);
            match backoff(profile, finished.termination, attempts).filter(|_| !self.stop.is_cancelled()) {
                Some(pause) => {
                    let text = format!("profile `{}` {}; it is started again", profile.id, finished.termination);
                    self.report.log(LogLevel::Warn, text);
                    tokio::time::sleep(pause).await;
                }
                None => return Ok(outcome(profile, &finished, attempts)),
            }
        }
    }
}

impl Exec {
    /// What the profile passes in variables: of each credential that the step names, by its handle.
    async fn secrets(&self, profile: &CommandProfile, vector: &[Argument]) -> Result<Vec<SecretVariable>, wit::Error> {
        let mut secrets = Vec::new();
        for argument in vector {
            let Argument::Credential { credential_type, handle, variables } = argument else { continue };
            let none = IssueError::NoHandle(*credential_type);
            let opened = match &self.purse {
                Some(purse) => purse.open(handle, *credential_type).await,
                None => Err(none),
            };
            let credential = opened.map_err(|error| self.not_given(profile, *credential_type, &error))?;
            for (name, part) in variables {
                if credential.part(part).is_none() {
                    let reason = format!("the credential has no `{part}`, which profile `{}` passes on", profile.id);
                    return Err(wit::Error::NotStarted(reason));
                }
                let (name, part) = (name.clone(), part.clone());
                secrets.push(SecretVariable { name, credential: Arc::clone(&credential), part });
            }
        }
        Ok(secrets)
    }

    fn not_given(&self, profile: &CommandProfile, wanted: CredentialType, error: &IssueError) -> wit::Error {
        match error {
            IssueError::Refused { .. } | IssueError::NoHandle(_) => {
                let rule = match error {
                    IssueError::Refused { code, .. } => code.as_str(),
                    _ => "exec.credentials",
                };
                self.denials.note(rule, [profile.id.as_str()], wanted);
                self.report.log(LogLevel::Error, error.to_string());
                wit::Error::AccessDenied
            }
            _ => wit::Error::NotStarted(error.to_string()),
        }
    }
}

/// How long to wait before another start; none when the profile wants none.
fn backoff(profile: &CommandProfile, ended: Termination, attempts: u32) -> Option<Duration> {
    let retries = profile.retries.as_ref().filter(|retries| attempts < retries.attempts)?;
    let worth_it = match ended {
        Termination::Exited(code) => retries.exit_codes.contains(&code),
        Termination::Signaled(_) => retries.signaled,
        Termination::TimedOut => retries.timed_out,
    };
    let milliseconds = u64::from(retries.backoff_milliseconds).saturating_mul(1 << attempts.saturating_sub(1).min(16));
    worth_it.then(|| Duration::from_millis(milliseconds).min(BACKOFF_LIMIT))
}

fn outcome(profile: &CommandProfile, finished: &Finished, attempts: u32) -> wit::Outcome {
    let expected =
        matches!(finished.termination, Termination::Exited(code) if profile.expected_exit_codes.contains(&code));
    wit::Outcome {
        termination: match finished.termination {
            Termination::Exited(code) => wit::Termination::Exited(code),
            Termination::Signaled(signal) => wit::Termination::Signaled(signal),
            Termination::TimedOut => wit::Termination::TimedOut,
        },
        expected,
        stdout: finished.stdout.text(),
        stdout_truncated: finished.stdout.truncated,
        stderr: finished.stderr.text(),
        stderr_truncated: finished.stderr.truncated,
        duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
        attempts,
    }
}
