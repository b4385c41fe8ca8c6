//! fettle-plane join-token

use std::time::Duration;

use clap::{Args, Subcommand};
use fettle_model::name::Label;

use super::place::Place;

/// Tokens with which nodes join.
#[derive(Debug, Subcommand)]
pub(super) enum JoinTokenCommand {
    /// Creates a join token and prints it. It is not kept and cannot be shown again.
    Create(Create),
}

/// Creates a join token.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// How many nodes may join with it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    uses: u32,
    /// When it stops to work.
    #[arg(long, value_parser = |text: &str| humantime::parse_duration(text), default_value = "1h")]
    expires: Duration,
    /// The project that will own the nodes. Without it they are common to all projects.
    #[arg(long)]
    project: Option<Label>,
    /// The organisation of the project; `default` when absent.
    #[arg(long)]
    org: Option<Label>,
    /// A label (`region=eu`) that the nodes have, whatever their hosts say. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && text.len() <= 200 => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write `key=value` of at most 200 bytes, like `region=eu`".to_owned()),
    }
}

impl JoinTokenCommand {
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        let Self::Create(create) = self;
        let owner = super::named_project(create.project, create.org)?;
        place.knows_the_authority()?;
        let administration = place.open().await?;
        let secret = administration.create_labelling_join_token(
            create.uses,
            owner,
            create.expires,
            create.label.into_iter().collect(),
        );
        let secret = secret.await?;
        administration.close().await;
        super::print(secret.reveal())
    }
}
