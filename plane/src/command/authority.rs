//! fettle-plane authority

use clap::{Args, Subcommand};
use fettle_identity::{Directory, Fingerprint};
use serde_json::json;

use super::place::Place;
use crate::{clock::SystemClock, config::default_authorities, identity::authorities};

/// What signs the certificates of nodes and planes. Planes that run see each change within seconds, and tell the nodes
/// that are connected.
#[derive(Debug, Subcommand)]
pub(super) enum AuthorityCommand {
    /// Shows which authorities count, and which one signs.
    Show(Show),
    /// Makes a new authority. Both count from now on, and the old one goes on signing: nodes learn of the new one first.
    BeginRotation,
    /// Lets the new authority sign. Nodes renew their certificates at once.
    Activate,
    /// Takes the old authority away. What it signed counts no longer, so a node that was off since then is locked out.
    FinishRotation(Finish),
}

/// How to show them.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Which authority stays.
#[derive(Debug, Args)]
pub(super) struct Finish {
    /// The fingerprint of the authority that signs, as `show` prints it.
    #[arg(long, value_name = "FINGERPRINT")]
    keep: Fingerprint,
}

impl AuthorityCommand {
    pub(super) fn run(self, place: &Place) -> anyhow::Result<()> {
        let directory = place.authority.clone().unwrap_or_else(|| default_authorities(&place.data));
        let directory = Directory::new(directory);
        match self {
            Self::Show(show) => show.run(&directory),
            Self::BeginRotation => {
                let new = authorities::begin_rotation(&directory, &SystemClock)?;
                super::print(&format!(
                    "{new} counts from now on and does not sign yet; when all nodes have been connected since, go on \
                     with `authority activate`"
                ))
            }
            Self::Activate => {
                let signs = directory.activate()?;
                super::print(&format!(
                    "{signs} signs from now on; when `fettle node list` shows it for all nodes, go on with `authority \
                     finish-rotation --keep {signs}`"
                ))
            }
            Self::FinishRotation(finish) => {
                let gone = directory.finish_rotation(finish.keep)?;
                super::print(&format!("{gone} counts no longer"))
            }
        }
    }
}

impl Show {
    fn run(self, directory: &Directory) -> anyhow::Result<()> {
        let standing = directory.open()?;
        let signs = standing.signs.fingerprint();
        if self.json {
            let all: Vec<_> = standing
                .roots
                .fingerprints()
                .map(|one| json!({"fingerprint": one.to_string(), "signs": one == signs}))
                .collect();
            return super::print(&json!({ "items": all }).to_string());
        }
        for one in standing.roots.fingerprints() {
            super::print(&format!("{one}  {}", if one == signs { "signs" } else { "counts" }))?;
        }
        Ok(())
    }
}
