//! Where the data of a plane is, for every command.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use fettle_identity::Directory;

use crate::{
    administration::Administration,
    config::default_authorities,
    database::{Address, Database},
};

/// Holds the address of the database, when no option does.
const VARIABLE: &str = "FETTLE_DATABASE_URL";

/// Where the data is.
#[derive(Debug, Args)]
pub(super) struct PlaceOptions {
    /// Where everything is kept; with a PostgreSQL database, where this plane keeps its copies of artifacts.
    #[arg(long, global = true, env = "FETTLE_PLANE_DATA", default_value = "fettle-plane-data")]
    data: PathBuf,
    /// Keep everything in this PostgreSQL database, which several planes may share, instead of the data directory:
    /// `postgres://user@host:5432/name`. An address with a password belongs in `FETTLE_DATABASE_URL`, or in a file:
    /// every user of this machine can see arguments.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "database_file")]
    database: Option<String>,
    /// A file that holds that address, in its first line.
    #[arg(long, global = true, value_name = "FILE")]
    database_file: Option<PathBuf>,
    /// Where the authorities are kept that sign the certificates of nodes and planes; `authority` in the data directory
    /// when absent. Planes that share a database share these files too: copy them, keys and all.
    #[arg(long, global = true, env = "FETTLE_PLANE_AUTHORITY", value_name = "DIR")]
    authority: Option<PathBuf>,
}

/// Where the data is.
#[derive(Debug)]
pub(super) struct Place {
    /// The data directory.
    pub(super) data: PathBuf,
    /// The database.
    pub(super) database: Database,
    /// The authorities, where they are not in the data directory.
    pub(super) authority: Option<PathBuf>,
}

impl PlaceOptions {
    /// What the options and the environment say.
    pub(super) fn place(self) -> anyhow::Result<Place> {
        let database = match (self.database, self.database_file) {
            (Some(text), _) => {
                let address: Address = text.parse()?;
                if address.has_password() {
                    bail!(
                        "an argument can be seen by every user of this machine, so it may hold no password; put the \
                         address in {VARIABLE}, or in a file and name it with `--database-file`"
                    );
                }
                Database::Postgres(address)
            }
            (None, Some(file)) => Database::Postgres(read(&file)?),
            (None, None) => match std::env::var(VARIABLE) {
                Ok(text) => Database::Postgres(text.parse().with_context(|| format!("{VARIABLE} cannot be used"))?),
                Err(_) => Database::DataDirectory,
            },
        };
        Ok(Place { data: self.data, database, authority: self.authority })
    }
}

fn read(file: &Path) -> anyhow::Result<Address> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = text.lines().next().unwrap_or_default().trim();
    line.parse().with_context(|| format!("the first line of {} cannot be used", file.display()))
}

impl Place {
    /// Refuses where the authority that nodes will meet may be another one than is found, or made, here: tokens that
    /// name it are made in one place, and the planes that share the database, or these files, are in others.
    pub(super) fn knows_the_authority(&self) -> anyhow::Result<()> {
        let is_alone = matches!(self.database, Database::DataDirectory) && self.authority.is_none();
        let directory = self.authority.clone().unwrap_or_else(|| default_authorities(&self.data));
        if is_alone || Directory::new(directory.clone()).signs().is_ok() {
            return Ok(());
        }
        bail!(
            "there is no authority in {}, and a join token names the one that nodes will meet; run this with the data \
             directory of a plane that has started (`--data`), or name its authority (`--authority`)",
            directory.display()
        )
    }

    /// Opens it beside whatever planes run on it.
    pub(super) async fn open(&self) -> anyhow::Result<Administration> {
        let administration = Administration::open_in(&self.data, &self.database).await?;
        Ok(match &self.authority {
            Some(directory) => administration.with_authorities(directory.clone()),
            None => administration,
        })
    }
}
