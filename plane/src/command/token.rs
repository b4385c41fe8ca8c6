//! fettle-plane token

use std::time::Duration;

use clap::{Args, Subcommand};
use fettle_model::name::Label;
use serde_json::json;

use super::place::Place;
use crate::{
    administration::{Access, Token},
    identity::role::RoleName,
};

/// Tokens of people and programs.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Creates a token and prints it. It is not kept and cannot be shown again.
    Create(Create),
    /// Lists tokens, without their secrets.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Gives a token another secret, and prints it. It is not kept and cannot be shown again. Name, role and end stay, and
    /// the secret that it has stays good for a while, so that whoever uses it can be told the new one.
    Rotate {
        /// Its id or its name.
        token: String,
        /// How long the secret that it has stays good; `0s` is not at all, for one that somebody else may know.
        #[arg(long, value_name = "DURATION", value_parser = |text: &str| humantime::parse_duration(text), default_value = "24h")]
        overlap: Duration,
    },
    /// Makes a token useless, for good.
    Revoke {
        /// Its id or its name.
        token: String,
    },
}

/// Creates a token.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// What it is for. Appears in the audit trail.
    #[arg(long)]
    name: String,
    /// What it may do.
    #[arg(long, value_enum)]
    role: RoleName,
    /// The project of a project role. It is created when it is new.
    #[arg(long)]
    project: Option<Label>,
    /// The organisation of the project, or of a tenant administrator; `default` when absent.
    #[arg(long)]
    org: Option<Label>,
    /// When it stops to work, like `30d`. Never, when absent.
    #[arg(long, value_parser = |text: &str| humantime::parse_duration(text))]
    expires: Option<Duration>,
}

impl TokenCommand {
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        let administration = place.open().await?;
        let done = match self {
            Self::Create(create) => {
                let access = create.role.access(create.project, create.org)?;
                let (_, secret) = administration.create_token(&create.name, access, create.expires).await?;
                super::print(secret.reveal())
            }
            Self::List { json } => list(&administration.tokens().await?, json),
            Self::Rotate { token, overlap } => {
                let (_, secret) = administration.rotate_token(&token, overlap).await?;
                super::print(secret.reveal())
            }
            Self::Revoke { token } => {
                let revoked = administration.revoke_token(&token).await?;
                super::print(&format!("token {} ({}) is revoked", revoked.id, revoked.name))
            }
        };
        administration.close().await;
        done
    }
}

fn list(tokens: &[Token], json: bool) -> anyhow::Result<()> {
    if json {
        let items: Vec<_> = tokens.iter().map(document).collect();
        return super::print(&serde_json::to_string_pretty(&json!({ "items": items }))?);
    }
    for token in tokens {
        let document = document(token);
        let text = |name: &str| document[name].as_str().unwrap_or("-").to_owned();
        super::print(&format!(
            "{}  {:<14}  {:<20}  {}/{}  used {}  expires {}  revoked {}",
            text("id"),
            text("role"),
            text("name"),
            text("org_id"),
            text("project_id"),
            text("used_at"),
            text("expires_at"),
            text("revoked_at")
        ))?;
    }
    Ok(())
}

fn document(token: &Token) -> serde_json::Value {
    let (org_id, project_id) = match &token.access {
        Access::PlatformAdmin => (None, None),
        Access::TenantAdmin { org_id } => (Some(org_id), None),
        Access::Project { project, .. } => (Some(&project.org_id), Some(&project.project_id)),
    };
    json!({
        "id": token.id,
        "name": token.name,
        "role": token.access.role_name(),
        "org_id": org_id,
        "project_id": project_id,
        "created_at": token.created_at,
        "used_at": token.used_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    })
}
