//! `fettle step run`

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueEnum};
use fettle_host::{
    capabilities::{Configured, report},
    clock::Clock,
    command,
    queue::Pressure,
    replay::{self, Answered, Request},
};
use fettle_model::{
    cassette::{Function, Outcome},
    denial::Denial,
    grant::Grants,
    policy::PolicyBundle,
    task::LogLine,
};
use fettle_supply::{RegistryClient, RegistryOptions};
use serde_json::{Value, json};

use super::{
    Session,
    component::{Component, cassette},
};
use crate::{
    error::{CommandError, count},
    output,
    supply::{TrustArguments, read_document},
};

/// Runs one function of a component here, against a cassette or against this machine.
///
/// With --cassette the node's answers come from a recorded attempt, and nothing of this machine is touched.
/// With --grants and --policy it runs on this machine and reaches what both allow; without them it is
/// granted nothing. Its log goes to standard error. --record keeps what it did for `fettle step replay`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step run my_step.wasm --input input.json --cassette pull.cassette
  fettle step run my_step.wasm --input input.json --grants grants.yaml --policy policy.yaml --files /tmp/node
  fettle step run my_step.wasm --function probe --input input.json --grants grants.yaml --policy policy.yaml \\
      --record probe.cassette --json")]
pub struct Run {
    /// The component.
    #[arg(value_name = "FILE|REFERENCE")]
    component: String,
    /// The input, in YAML or JSON; the cassette's, or an empty object, when left out.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The function.
    #[arg(long, value_enum, default_value_t = Called::Run)]
    function: Called,
    /// What `run` answered, for `undo`; a file in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Answers of a recorded attempt.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["grants", "policy", "files"])]
    cassette: Option<PathBuf>,
    /// What it may reach of this machine, as in a definition: `files: { write: [data] }`.
    #[arg(long, value_name = "FILE", requires = "policy")]
    grants: Option<PathBuf>,
    /// The policy bundle: roots, command profiles, the ceiling.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Where relative roots of the policy are.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    files: PathBuf,
    /// Where to keep the cassette of this run.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Called {
    /// Looks.
    Probe,
    /// Does the work.
    Run,
    /// Takes it back.
    Undo,
}

impl From<Called> for Function {
    fn from(called: Called) -> Self {
        match called {
            Called::Probe => Self::Probe,
            Called::Run => Self::Run,
            Called::Undo => Self::Undo,
        }
    }
}

/// Log lines of a step that is run by hand go to whoever runs it.
struct Spoken;

impl report::Sink for Spoken {
    fn line(&self, line: LogLine) {
        let level = serde_json::to_value(line.level).ok();
        output::remark(&format!("{}: {}", level.as_ref().and_then(Value::as_str).unwrap_or("info"), line.text));
    }

    fn denied(&self, denial: Denial) {
        output::remark(&format!("denied: {}.{}, by {}", denial.capability, denial.function, denial.rule));
    }

    fn progress(&self, percent: u8, message: Option<String>) {
        output::remark(format!("{percent} % {}", message.unwrap_or_default()).trim_end());
    }
}

impl Run {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let component = Component::load(session, &self.component, &self.trust).await?;
        let function = Function::from(self.function);
        let output = self.output.as_deref().map(document).transpose()?.map(|value| value.to_string());
        let ran = match &self.cassette {
            Some(path) => self.against(&component, function, path, output.as_deref()).await?,
            None => self.locally(&component, function, output.as_deref()).await?,
        };
        if let Some(path) = &self.record {
            tokio::fs::write(path, &ran.cassette)
                .await
                .map_err(|source| CommandError::Write { path: path.clone(), source })?;
        }
        show(session, function, &ran)
    }

    async fn against(
        &self,
        component: &Component,
        function: Function,
        path: &Path,
        output: Option<&str>,
    ) -> Result<Answered, CommandError> {
        let recorded = cassette(path).await?;
        let input = match &self.input {
            Some(path) => document(path)?.to_string(),
            None => recorded.header.input.clone(),
        };
        let request = Request { function, input: &input, output };
        let Component { sandbox, compiled, descriptor, .. } = component;
        let ran = replay::against(sandbox, compiled, descriptor, &request, &recorded).await;
        let (ran, difference) = ran.map_err(|source| CommandError::Replay { path: component.path.clone(), source })?;
        if let Some(difference) = difference {
            let difference = serde_json::to_string(&difference).unwrap_or_default();
            output::remark(&format!("the cassette has no answer to what the step asks: {difference}"));
        }
        Ok(ran)
    }

    async fn locally(
        &self,
        component: &Component,
        function: Function,
        output: Option<&str>,
    ) -> Result<Answered, CommandError> {
        let input = self.input.as_deref().map_or_else(|| Ok(json!({})), document)?.to_string();
        let grants: Grants = match &self.grants {
            Some(path) => read_document(path, "grant")?,
            None => Grants::default(),
        };
        let policy: PolicyBundle = match &self.policy {
            Some(path) => read_document(path, "policy bundle")?,
            None => serde_json::from_value(json!({"revision": 0}))
                .map_err(|error| CommandError::Sandbox(format!("no empty policy bundle: {error}")))?,
        };
        let denied = |problem: String| CommandError::NotGranted {
            problem: format!("{} may not run here: {problem}", component.path.display()),
        };
        let step = component.sandbox.link(&component.compiled, &grants).map_err(|error| denied(error.to_string()))?;
        let registry = RegistryClient::new(RegistryOptions::default())?;
        let node = command::node(self.files.clone(), registry, None, None, &Pressure::default())
            .map_err(|error| CommandError::Sandbox(format!("{error:#}")))?;
        let configured =
            Configured::new(&node, &grants, &policy, None).map_err(|failure| denied(failure.to_string()))?;
        let report = report::Report::new(Arc::new(Spoken), Clock::system());
        let capabilities = configured.prepare(report, &format!("local/{}", std::process::id()));
        let request = Request { function, input: &input, output };
        replay::locally(&step, &component.descriptor, &request, capabilities)
            .await
            .map_err(|source| CommandError::Replay { path: component.path.clone(), source })
    }
}

fn document(path: &Path) -> Result<Value, CommandError> {
    read_document(path, "JSON or YAML document")
}

fn show(session: &Session, function: Function, ran: &Answered) -> Result<(), CommandError> {
    let Some(outcome) = ran.recorded.outcome() else { return Ok(()) };
    let calls: Vec<&str> = ran.recorded.calls().map(|call| call.name.as_str()).collect();
    let answer = json!({
        "function": function, "outcome": outcome, "calls": calls, "cassette": ran.recorded.digest,
    });
    session.show(&answer, |_| {
        format!("{} after {}\n", replay::shown_outcome(outcome), count(calls.len(), "capability call"))
    })?;
    match outcome {
        Outcome::Failed(failure) => Err(CommandError::StepFailed { class: failure.class }),
        Outcome::Satisfied(_)
        | Outcome::Unsatisfied(_)
        | Outcome::Unknown(_)
        | Outcome::Answered(_)
        | Outcome::Undone
        | Outcome::Interrupted => Ok(()),
    }
}
