//! `fettle operation-policy list`

use clap::Args;

use super::{Session, scope::ScopeArguments};
use crate::{command::target::PlaneArguments, error::CommandError, output};

/// Lists what a scope says, by operation type.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation-policy list
  fettle operation-policy list --global --json")]
pub struct List {
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl List {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let policies = self.plane.client(session).await?.operation_policies(&self.scope.scope()).await?;
        session.show(&policies, |policies| {
            if policies.is_empty() {
                return "nothing is said; `fettle operation-policy set` says something\n".to_owned();
            }
            let rows = policies.iter().map(|one| {
                let said = serde_json::to_value(&one.policy).unwrap_or_default();
                let keys = said.as_object().map_or(0, serde_json::Map::len);
                let revision = one.revision.map(|revision| revision.to_string()).unwrap_or_default();
                let enabled = one.policy.as_ref().and_then(|policy| policy.enabled);
                let enabled = enabled.map_or("-", |enabled| if enabled { "yes" } else { "no" });
                vec![one.operation_type.clone(), revision, enabled.to_owned(), keys.to_string()]
            });
            output::table(&["TYPE", "REVISION", "ENABLED", "KEYS"], &rows.collect::<Vec<_>>())
        })
    }
}
