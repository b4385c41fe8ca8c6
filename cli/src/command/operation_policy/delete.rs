//! `fettle operation-policy delete`

use clap::Args;
use serde_json::json;

use super::{Session, scope::ScopeArguments, set::current};
use crate::{command::target::PlaneArguments, error::CommandError};

/// Removes what a scope says of an operation type.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation-policy delete model.artifact.stage
  fettle operation-policy delete gpu.host.bootstrap --global")]
pub struct Delete {
    /// The operation type, without its version.
    #[arg(value_name = "TYPE")]
    operation_type: String,
    /// Only this state; without it, the state that is there now.
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Delete {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (client, scope) = (self.plane.client(session).await?, self.scope.scope());
        let etag = match &self.if_match {
            Some(etag) => Some(etag.clone()),
            None => current(&client, &scope, &self.operation_type).await?.and_then(|policy| policy.etag),
        };
        let deleted = etag.is_some();
        if let Some(etag) = etag {
            client.delete_operation_policy(&scope, &self.operation_type, &etag).await?;
        }
        let told = json!({ "operation_type": self.operation_type, "deleted": deleted });
        session.show(&told, |_| {
            let said = if deleted { "nothing is said any more" } else { "nothing was said" };
            format!("{said} of {}\n", self.operation_type)
        })
    }
}
