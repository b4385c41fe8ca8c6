//! `fettle-plane backup`, `restore` and `migrate`

use std::path::PathBuf;

use clap::Args;
use fettle_store_sqlite::copy;

use super::place::Place;
use crate::{
    administration::Administration,
    database::{Database, FILE},
};

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
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        if let Database::Postgres(address) = &place.database {
            let file = self.file.display();
            anyhow::bail!(
                "PostgreSQL has its own program for that, which planes do not notice: pg_dump --format=custom \
                 --no-owner --file={file} {}",
                address.arguments()
            );
        }
        copy::backup(&place.data.join(FILE), &self.file).await?;
        super::print(&format!("{} holds all that the plane knows", self.file.display()))
    }
}

impl Restore {
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        if let Database::Postgres(address) = &place.database {
            let file = self.file.display();
            anyhow::bail!(
                "PostgreSQL has its own program for that; stop all planes on it first: pg_restore --clean --if-exists \
                 --no-owner --single-transaction {} {file}",
                address.arguments()
            );
        }
        let database = place.data.join(FILE);
        Administration::make_directory(&place.data)?;
        copy::restore(&self.file, &database, self.replace).await?;
        // A backup of an earlier version is brought up to date at once, where somebody watches.
        place.open().await?.close().await;
        super::print(&format!("{} is restored; start the plane", database.display()))
    }
}

impl Migrate {
    pub(super) async fn run(self, place: &Place) -> anyhow::Result<()> {
        place.open().await?.close().await;
        let name = match &place.database {
            Database::DataDirectory => place.data.join(FILE).display().to_string(),
            Database::Postgres(address) => address.to_string(),
        };
        super::print(&format!("{name} is up to date"))
    }
}
