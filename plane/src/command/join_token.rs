//! fettle-plane join-token

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use fettle_identity::public_from_pem;
use fettle_model::name::Label;

use super::place::Place;

/// Tokens with which nodes join.
#[derive(Debug, Subcommand)]
pub(super) enum JoinTokenCommand {
    /// Creates a join token and prints it: it is not kept and cannot be shown again. Or lets a key in (`--for-key`), and
    /// prints by what its host knows the plane.
    Create(Create),
}

/// Creates a join token.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// The public key of one node, PEM (`fettle-host generate-key`): it joins by that key and needs no token. Prints the
    /// fingerprint of the authority, which its host needs (`--authority`).
    #[arg(long, value_name = "FILE", conflicts_with = "uses")]
    for_key: Option<PathBuf>,
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

fn read_key(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("the key {} cannot be read", path.display()))?;
    public_from_pem(&text).with_context(|| {
        format!("{} is no public key on the curve P-256; `fettle-host generate-key` prints one", path.display())
    })
}

impl JoinTokenCommand {
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        let Self::Create(create) = self;
        let owner = super::named_project(create.project, create.org)?;
        place.knows_the_authority()?;
        let key = create.for_key.as_deref().map(read_key).transpose()?;
        let administration = place.open().await?;
        let labels = create.label.into_iter().collect();
        let printed = match key {
            Some(key) => administration.allow_key(&key, owner, create.expires, labels).await?.to_string(),
            None => {
                let made =
                    administration.create_labelling_join_token(create.uses, owner, create.expires, labels).await?;
                made.reveal().to_owned()
            }
        };
        administration.close().await;
        super::print(&printed)
    }
}
