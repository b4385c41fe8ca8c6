//! fettle-plane audit

use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::administration::Administration;

/// Prints the audit trail, the oldest row first.
#[derive(Debug, Args)]
pub(super) struct Audit {
    /// Print one JSON object per row.
    #[arg(long)]
    json: bool,
    /// Only rows after this sequence number.
    #[arg(long)]
    after: Option<i64>,
}

impl Audit {
    pub(super) async fn run(self, data: &Path) -> anyhow::Result<()> {
        let administration = Administration::open(data).await?;
        let mut after = self.after;
        loop {
            let rows = administration.audit(after).await?;
            for row in &rows {
                super::print(&if self.json {
                    json!({
                        "sequence": row.sequence, "at": row.at, "actor": row.actor, "scope": row.scope,
                        "action": row.action, "resource_name": row.resource_name, "result": row.result,
                        "correlation_id": row.correlation_id, "details": row.details,
                    })
                    .to_string()
                } else {
                    let details = row.details.as_ref().map(|details| format!("  {details}")).unwrap_or_default();
                    format!(
                        "{}  {}  {}  {}  {}  {}  {}{details}",
                        row.at, row.actor, row.scope, row.action, row.resource_name, row.result, row.correlation_id
                    )
                })?;
            }
            match rows.last() {
                Some(last) => after = Some(last.sequence),
                None => break,
            }
        }
        administration.close().await;
        Ok(())
    }
}
