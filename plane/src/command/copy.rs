//! `fettle-plane backup`, `restore` and `migrate`

use std::path::{Path, PathBuf};

use clap::Args;
use fettle_store_sqlite::copy;

use crate::administration::{Administration, DATABASE};

/// Writes all that the plane knows to one new file, as it is at one moment. The plane may run meanwhile.
///
/// The file holds no secret in clear; tokens are kept as hashes. It can be read by its owner only.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fettle-plane --data plane-data backup plane-2026-11-20.db")]
pub(super) struct Backup {
    /// The new file.
    file: PathBuf,
}

/// Puts a backup in the place of the database, while no plane runs on it.
///
/// The backup is checked first. What happened after it was made is forgotten: operations of that time are
/// unknown, and tasks that were leased then are leased again, so steps may start once more.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fettle-plane --data plane-data restore plane-2026-11-20.db
  fettle-plane --data plane-data restore plane-2026-11-20.db --replace")]
pub(super) struct Restore {
    /// The backup.
    file: PathBuf,
    /// Put a database that is there aside, as `plane.db.before-restore`.
    #[arg(long)]
    replace: bool,
}

/// Brings the tables up to date, as `serve` does when it starts, and ends.
#[derive(Debug, Args)]
pub(super) struct Migrate {}

impl Backup {
    pub(super) async fn run(self, data: &Path) -> anyhow::Result<()> {
        copy::backup(&data.join(DATABASE), &self.file).await?;
        super::print(&format!("{} holds all that the plane knows", self.file.display()))
    }
}

impl Restore {
    pub(super) async fn run(self, data: &Path) -> anyhow::Result<()> {
        Administration::make_directory(data)?;
        copy::restore(&self.file, &data.join(DATABASE), self.replace).await?;
        // A backup of an earlier version is brought up to date at once, where somebody watches.
        Administration::open(data).await?.close().await;
        super::print(&format!("{} is restored; start the plane", data.join(DATABASE).display()))
    }
}

impl Migrate {
    pub(super) async fn run(self, data: &Path) -> anyhow::Result<()> {
        Administration::open(data).await?.close().await;
        super::print(&format!("{} is up to date", data.join(DATABASE).display()))
    }
}
