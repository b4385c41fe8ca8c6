//! `fettle operation-policy set`

use std::path::PathBuf;

use clap::Args;
use fettle_model::overlay::Overlay;

use super::{Session, scope::ScopeArguments, text};
use crate::{
    command::target::PlaneArguments,
    error::CommandError,
    plane::{OperationPolicy, PlaneClient, PlaneError, PolicyScope},
    supply::read_document,
};

/// Writes what a scope says of an operation type, in place of all that it said. The file has any of the seven keys:
/// enabled, max_concurrency, timeout_seconds, allowed_artifact_sources, allowed_target_kinds,
/// require_signature_verification, max_artifact_size_bytes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation-policy set model.artifact.stage policy.yaml
  fettle operation-policy set gpu.host.bootstrap deny.yaml --global
  fettle operation-policy set model.artifact.stage policy.yaml --if-match '\"3-0123456789abcdef\"'")]
pub struct Set {
    /// The operation type, without its version.
    #[arg(value_name = "TYPE")]
    operation_type: String,
    /// What is said, in YAML or JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only in place of this state; without it, of the state that is there now.
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Set {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let overlay: Overlay = read_document(&self.file, "operation policy")?;
        let (client, scope) = (self.plane.client(session).await?, self.scope.scope());
        let etag = match &self.if_match {
            Some(etag) => Some(etag.clone()),
            None => current(&client, &scope, &self.operation_type).await?.and_then(|policy| policy.etag),
        };
        let policy = client.put_operation_policy(&scope, &self.operation_type, etag.as_deref(), &overlay).await?;
        session.show(&policy, text::policy)
    }
}

/// What is said now; none when nothing is.
pub(super) async fn current(
    client: &PlaneClient,
    scope: &PolicyScope,
    operation_type: &str,
) -> Result<Option<OperationPolicy>, PlaneError> {
    match client.operation_policy(scope, operation_type).await {
        Ok(policy) => Ok(Some(policy)),
        Err(PlaneError::Refused(problem)) if problem.code == "policy.unknown" => Ok(None),
        Err(error) => Err(error),
    }
}
