//! From database errors to store errors, and to sentences about a database that cannot be opened.

use std::error::Error;

use fettle_store::StoreError;
use sqlx::{migrate::MigrateError, postgres::PgConnectOptions};

use crate::connection::place;

/// Makes the error of a verb that the database did not complete.
pub(crate) fn unavailable<E: Into<Box<dyn Error + Send + Sync>>>(verb: &'static str) -> impl FnOnce(E) -> StoreError {
    move |source| StoreError::Unavailable { verb, source: source.into().into() }
}

/// The writer is closed.
#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
pub(crate) struct Closed;

/// Nothing of the transaction was written.
#[derive(Debug, thiserror::Error)]
#[error("nothing was written: {0}")]
pub(crate) struct NotWritten(pub(crate) String);

/// The connection was lost while the transaction was committed.
#[derive(Debug, thiserror::Error)]
#[error("the connection was lost during the commit, so it may have been written or not; ask again: {0}")]
pub(crate) struct Unknown(pub(crate) String);

/// Every connection for reading was in use for too long.
#[derive(Debug, thiserror::Error)]
#[error("all {connections} connections for reading were in use, or none could be opened, for {seconds} s")]
pub(crate) struct Exhausted {
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
}

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The text is no address of a database.
    #[error("that is no address of a PostgreSQL database; write one like postgres://user@host:5432/database")]
    Url(#[source] Option<sqlx::Error>),
    /// Nobody answers there.
    #[error("nobody answers as PostgreSQL at {place}; start it, or correct the address")]
    Unreachable {
        /// Host, port and database.
        place: String,
        /// What the system said.
        #[source]
        source: sqlx::Error,
    },
    /// It is on another machine, and need not prove itself.
    #[error(
        "{place} is on another machine, and its address does not ask that it proves itself; add `?sslmode=verify-full&sslrootcert=<file>` to the address"
    )]
    Unprotected {
        /// Host, port and database.
        place: String,
    },
    /// The user or the password is wrong.
    #[error("PostgreSQL at {place} does not let this user in; check user and password, and its pg_hba.conf")]
    Login {
        /// Host, port and database.
        place: String,
        /// What the server said.
        #[source]
        source: sqlx::Error,
    },
    /// There is no such database.
    #[error("there is no database at {place}; create it: createdb --encoding=UTF8 NAME")]
    Missing {
        /// Host, port and database.
        place: String,
        /// What the server said.
        #[source]
        source: sqlx::Error,
    },
    /// The user may not do what a plane does.
    #[error("the user may not write to {place}; make it the owner: ALTER DATABASE NAME OWNER TO USER")]
    Right {
        /// Host, port and database.
        place: String,
        /// What the server said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A newer plane wrote it.
    #[error("a newer version wrote {place} (schema {version}); use that version of fettle-plane")]
    Newer {
        /// Host, port and database.
        place: String,
        /// The version of its tables.
        version: i64,
    },
    /// Texts would not be kept as they are.
    #[error("the encoding of {place} is {encoding}; create it with --encoding=UTF8 --template=template0")]
    Encoding {
        /// Host, port and database.
        place: String,
        /// What it has.
        encoding: String,
    },
    /// Anything else.
    #[error("the database {place} cannot be used")]
    Other {
        /// Host, port and database.
        place: String,
        /// What is wrong.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl OpenError {
    pub(crate) fn unusable(options: &PgConnectOptions, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other { place: place(options), source: source.into() }
    }

    pub(crate) fn of(options: &PgConnectOptions, source: sqlx::Error) -> Self {
        let place = place(options);
        let code = source.as_database_error().and_then(|error| error.code()).map(std::borrow::Cow::into_owned);
        match code.as_deref() {
            Some("28000" | "28P01") => Self::Login { place, source },
            Some("3D000") => Self::Missing { place, source },
            Some("42501") => Self::Right { place, source: source.into() },
            None if matches!(source, sqlx::Error::Io(_)) => Self::Unreachable { place, source },
            _ => Self::Other { place, source: source.into() },
        }
    }

    pub(crate) fn of_migration(options: &PgConnectOptions, error: MigrateError) -> Self {
        let place = place(options);
        let refused = |source: &sqlx::Error| {
            source.as_database_error().is_some_and(|error| error.code().as_deref() == Some("42501"))
        };
        match error {
            MigrateError::VersionMissing(version) => Self::Newer { place, version },
            MigrateError::Execute(ref source) | MigrateError::ExecuteMigration(ref source, _) if refused(source) => {
                Self::Right { place, source: error.into() }
            }
            _ => Self::Other { place, source: error.into() },
        }
    }
}
