//! A database as one file that can be carried away, and back.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteLockingMode},
};
use tempfile::NamedTempFile;

use crate::MIGRATIONS;

/// What is added to the name of a database that a restored one has taken the place of.
pub const BEFORE_RESTORE: &str = ".before-restore";

/// How long to wait for a program that is just about to let go of a database.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a database was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// There is no database to copy.
    #[error("there is no database {0}; nothing was copied")]
    Missing(PathBuf),
    /// Nothing is written over.
    #[error("{0} is there already; choose another name, or move it away")]
    Exists(PathBuf),
    /// A database would be replaced, and nobody said that it may be.
    #[error("{0} has a database already; pass `--replace` to put it aside")]
    Occupied(PathBuf),
    /// Another program has the database open.
    #[error("{0} is in use; stop the plane on it first")]
    InUse(PathBuf),
    /// The copy is not what a plane writes.
    #[error("{file} is no sound database of a plane: {reason}")]
    Unsound {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot write {file}; check the disk and the permissions")]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The database did not do it.
    #[error("cannot copy {file}")]
    Database {
        /// The file.
        file: PathBuf,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
}

/// Writes the database to a new file, as it is at one moment. A plane may go on writing meanwhile. The new
/// file can be read by its owner only.
///
/// # Errors
/// When there is no database, the new file is there already, or it cannot be written.
pub async fn backup(database: &Path, to: &Path) -> Result<(), CopyError> {
    let failed = |source| CopyError::Database { file: database.to_owned(), source };
    if !database.exists() {
        return Err(CopyError::Missing(database.to_owned()));
    }
    let copy = beside(to)?;
    let options = SqliteConnectOptions::new().filename(database).read_only(true).disable_statement_logging();
    let mut connection = options.connect().await.map_err(failed)?;
    // An empty file may be written into; it is there already so that its permissions are right.
    sqlx::query("VACUUM INTO $1")
        .bind(copy.path().to_string_lossy().into_owned())
        .execute(&mut connection)
        .await
        .map_err(failed)?;
    connection.close().await.map_err(failed)?;
    keep(copy, to)
}

/// Puts a backup in the place of a database. With `replace`, a database that is there is put aside under
/// [`BEFORE_RESTORE`]; without, it stays and nothing is done.
///
/// # Errors
/// When the backup is not sound or of a newer version, the database is in use, or a file cannot be written.
/// Nothing has changed then.
pub async fn restore(backup: &Path, database: &Path, replace: bool) -> Result<(), CopyError> {
    check(backup).await?;
    let aside = named(database, BEFORE_RESTORE);
    if database.exists() {
        if !replace {
            return Err(CopyError::Occupied(database.to_owned()));
        }
        if aside.exists() {
            return Err(CopyError::Exists(aside));
        }
        settle(database).await?;
    }
    let mut copy = beside(database)?;
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| CopyError::File { file: path, source }
    };
    let mut content = std::fs::File::open(backup).map_err(file(backup))?;
    io::copy(&mut content, copy.as_file_mut()).map_err(file(copy.path()))?;
    if database.exists() {
        std::fs::rename(database, &aside).map_err(file(&aside))?;
    }
    keep(copy, database)
}

/// Whether a file is a sound database that this version can use.
///
/// # Errors
/// When it is not, with what is wrong.
pub async fn check(file: &Path) -> Result<(), CopyError> {
    let unsound = |reason: String| CopyError::Unsound { file: file.to_owned(), reason };
    if !file.exists() {
        return Err(CopyError::Missing(file.to_owned()));
    }
    let options = SqliteConnectOptions::new().filename(file).read_only(true).disable_statement_logging();
    let mut connection = options.connect().await.map_err(|error| unsound(error.to_string()))?;
    let said: Result<String, _> = sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(&mut connection).await;
    match said {
        Ok(said) if said == "ok" => {}
        Ok(said) => return Err(unsound(said)),
        Err(error) => return Err(unsound(error.to_string())),
    }
    let newest: Result<i64, _> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(&mut connection).await;
    let newest = newest.map_err(|_| unsound("it has no tables of a plane".to_owned()))?;
    let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
    if newest > known {
        return Err(unsound(format!("a newer version wrote it (schema {newest}); this one knows {known}")));
    }
    Ok(())
}

/// Makes one file of a database that nobody uses: what is in its log goes into it.
async fn settle(database: &Path) -> Result<(), CopyError> {
    let in_use = |_| CopyError::InUse(database.to_owned());
    let options = SqliteConnectOptions::new()
        .filename(database)
        .locking_mode(SqliteLockingMode::Exclusive)
        .busy_timeout(PATIENCE)
        .disable_statement_logging();
    let mut connection: SqliteConnection = options.connect().await.map_err(in_use)?;
    sqlx::query("BEGIN EXCLUSIVE; COMMIT").execute(&mut connection).await.map_err(in_use)?;
    // Leaving the log behind would add it to the restored database.
    sqlx::query("PRAGMA journal_mode = DELETE").execute(&mut connection).await.map_err(in_use)?;
    connection.close().await.map_err(in_use)
}

/// A file in the directory of another, for its owner only, removed unless it is kept.
fn beside(file: &Path) -> Result<NamedTempFile, CopyError> {
    if file.file_name().is_none() {
        return Err(CopyError::File { file: file.to_owned(), source: io::ErrorKind::InvalidInput.into() });
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    NamedTempFile::new_in(directory).map_err(|source| CopyError::File { file: file.to_owned(), source })
}

/// Gives a written file its name, and lets the disk have both.
fn keep(copy: NamedTempFile, to: &Path) -> Result<(), CopyError> {
    let failed = |source| CopyError::File { file: to.to_owned(), source };
    copy.as_file().sync_all().map_err(failed)?;
    let directory = copy.path().parent().map(Path::to_owned);
    copy.persist_noclobber(to).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => CopyError::Exists(to.to_owned()),
        _ => failed(error.error),
    })?;
    let directory = directory.map_or(Ok(()), |directory| std::fs::File::open(directory)?.sync_all());
    directory.map_err(failed)
}

fn named(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
