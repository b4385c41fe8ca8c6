//! fettle-plane audit

use clap::Args;
use fettle_model::digest::Digest;
use fettle_store::{audit::AuditRecord, chain::Chain};
use serde_json::json;

use super::place::Place;
use crate::administration::Administration;

/// Prints the audit trail, the oldest row first, or checks that nothing was taken out of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fettle-plane --data plane-data audit --json
  fettle-plane --data plane-data audit --verify
  fettle-plane --data plane-data audit --verify --head sha256:...")]
pub(super) struct Audit {
    /// Print one JSON object per row, or one for the check.
    #[arg(long)]
    json: bool,
    /// Only rows after this sequence number.
    #[arg(long, conflicts_with = "verify")]
    after: Option<i64>,
    /// Follow the links from row to row, and print the last one, the head. Exit code 1 and a sentence when a
    /// row was removed, changed, added or moved.
    #[arg(long)]
    verify: bool,
    /// A head that was noted earlier: the trail must still have it. Nothing else tells that its end was cut
    /// off, or that all of it was written anew.
    #[arg(long, value_name = "DIGEST", requires = "verify")]
    head: Option<Digest>,
}

impl Audit {
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        let administration = place.open().await?;
        let done = if self.verify { self.verify(&administration).await } else { self.print(&administration).await };
        administration.close().await;
        done
    }

    async fn print(&self, administration: &Administration) -> anyhow::Result<()> {
        let mut after = self.after;
        loop {
            let rows = administration.audit(after).await?;
            for row in &rows {
                super::print(&if self.json { document(row).to_string() } else { line(row) })?;
            }
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(last.sequence);
        }
    }

    async fn verify(&self, administration: &Administration) -> anyhow::Result<()> {
        let mut chain = Chain::with_head(self.head);
        let mut after = None;
        loop {
            let rows = administration.audit(after).await?;
            rows.iter().try_for_each(|row| chain.follow(row))?;
            let Some(last) = rows.last() else { break };
            after = Some(last.sequence);
        }
        let (head, (linked, unlinked)) = (chain.end()?, chain.rows());
        if self.json {
            return super::print(&json!({ "linked": linked, "unlinked": unlinked, "head": head }).to_string());
        }
        super::print(&format!("linked rows {linked}, each follows the one before it"))?;
        if unlinked > 0 {
            super::print(&format!("older rows  {unlinked}, written by a version without links"))?;
        }
        let Some(head) = head else { return Ok(()) };
        super::print(&format!("head        {head}"))?;
        super::print("Note the head elsewhere, and pass it with --head next time.")
    }
}

fn document(row: &AuditRecord) -> serde_json::Value {
    json!({
        "sequence": row.sequence, "at": row.at, "actor": row.actor, "scope": row.scope,
        "action": row.action, "resource_name": row.resource_name, "result": row.result,
        "correlation_id": row.correlation_id, "details": row.details, "link": row.link,
    })
}

fn line(row: &AuditRecord) -> String {
    let details = row.details.as_ref().map(|details| format!("  {details}")).unwrap_or_default();
    format!(
        "{}  {}  {}  {}  {}  {}  {}{details}",
        row.at, row.actor, row.scope, row.action, row.resource_name, row.result, row.correlation_id
    )
}
