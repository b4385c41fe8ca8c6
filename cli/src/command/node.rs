//! `fettle node`

use std::fmt::Write as _;

use clap::{Args, Subcommand};

use super::{Session, target::PlaneArguments};
use crate::{error::CommandError, output, plane::Node, watch::clean};

/// Nodes.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum NodeCommand {
    List(List),
    Show(Show),
    Revoke(Revoke),
}

/// Lists the nodes that the token's projects may use.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle node list
  fettle node list --json")]
pub struct List {
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Shows one node: its state and what it has.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle node show gpu-17")]
pub struct Show {
    /// Name or id.
    #[arg(value_name = "NODE")]
    name: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

/// Revokes a node's certificates, for good: it may do nothing more within seconds, and is not let in again.
///
/// An honest host stops what runs and ends. The node's operations end by their deadlines, or by `fettle operation cancel`.
/// The host can join again with a new join token, under a new name.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle node revoke gpu-17")]
pub struct Revoke {
    /// Name or id.
    #[arg(value_name = "NODE")]
    name: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl NodeCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::List(list) => {
                let nodes = list.plane.client(session).await?.nodes().await?;
                session.show(&nodes, |nodes| table(nodes))
            }
            Self::Show(show) => {
                let node = show.plane.client(session).await?.node(&show.name).await?;
                session.show(&node, text)
            }
            Self::Revoke(revoke) => {
                let node = revoke.plane.client(session).await?.revoke_node(&revoke.name).await?;
                session.show(&node, text)
            }
        }
    }
}

fn table(nodes: &[Node]) -> String {
    if nodes.is_empty() {
        return "there is no node; `fettle-host run` with a join token adds one\n".to_owned();
    }
    let rows = nodes.iter().map(|node| {
        let project = node.project_id.clone().unwrap_or_else(|| "all".to_owned());
        let gpu = node.capabilities.get("gpu.vendor").cloned().unwrap_or_else(|| "none".to_owned());
        vec![node.name.clone(), node.status.clone(), format!("{}/{}", node.running_tasks, node.slots), gpu, project]
    });
    output::table(&["NODE", "STATUS", "TASKS", "GPU", "PROJECT"], &rows.collect::<Vec<_>>())
}

fn text(node: &Node) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("node", &node.name);
    line("id", &node.id);
    line("status", &node.status);
    line("heard of", node.last_heartbeat_at.as_deref().unwrap_or("never"));
    line("project", node.project_id.as_deref().unwrap_or("all"));
    line("tasks", &format!("{} of {}", node.running_tasks, node.slots));
    line("host", &node.host_version);
    if let Some(certificate) = &node.certificate {
        line("certificate", &format!("{}, until {}", certificate.serial, certificate.expires_at));
        line("authority", &certificate.authority);
    }
    for (title, facts) in [("capabilities", &node.capabilities), ("labels", &node.labels)] {
        if !facts.is_empty() {
            let _ = writeln!(text, "\n{title}");
        }
        for (name, value) in facts {
            let _ = writeln!(text, "  {:<24} {}", clean(name), clean(value));
        }
    }
    text
}
