//! Where the database is, and how every connection to it is set up.

use std::{fmt, str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions as _, PgConnection,
    postgres::{PgConnectOptions, PgSslMode},
};

use crate::error::OpenError;

/// How long a connection may take to open.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

/// What the server ends by itself, so that nothing of a plane that is gone or stuck holds others for long.
const LIMITS: [(&str, &str); 4] = [
    ("statement_timeout", "30s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "60s"),
    ("default_transaction_isolation", "read committed"),
];

/// Every statement goes by keys, through an index. The server keeps the plan that it makes of one, and makes it while the
/// tables are empty and no index seems worth its while: measured, that plan reads whole tables for ever after.
const BY_KEYS: [(&str, &str); 5] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

/// The address of a database, as a `postgres://` URL. It may hold a password, so it is never shown whole.
#[derive(Clone)]
pub struct Address {
    options: Box<PgConnectOptions>,
    has_password: bool,
}

impl Address {
    /// Whether the URL itself held a password.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        self.has_password
    }

    /// The same for the programs of PostgreSQL, without the password.
    #[must_use]
    pub fn arguments(&self) -> String {
        let options = &self.options;
        let host =
            options.get_socket().map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string());
        let user = options.get_username();
        let database = options.get_database().unwrap_or(user);
        format!("--host={host} --port={} --username={user} --dbname={database}", options.get_port())
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        let named =
            PgConnectOptions::clone(&self.options).application_name("fettle-plane").options(LIMITS).options(BY_KEYS);
        named.disable_statement_logging()
    }
}

impl FromStr for Address {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err(OpenError::Url(None));
        }
        let options = PgConnectOptions::from_str(text).map_err(|error| OpenError::Url(Some(error)))?;
        let userinfo = text.split_once("://").and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'));
        let has_password = userinfo.is_some_and(|(user, _)| user.contains(':')) || text.contains("password=");
        Ok(Self { options: Box::new(options), has_password })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&place(&self.options))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// Host, port and database, for sentences.
pub(crate) fn place(options: &PgConnectOptions) -> String {
    let host = options.get_socket().map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string());
    let database = options.get_database().unwrap_or(options.get_username());
    format!("{host}:{}/{database}", options.get_port())
}

/// Opens a connection.
pub(crate) async fn open(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    match tokio::time::timeout(CONNECT, options.connect()).await {
        Ok(connected) => connected,
        Err(_) => Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the server does not answer"))),
    }
}

/// Opens the first connection of a store, and looks at the server.
pub(crate) async fn first(options: &PgConnectOptions) -> Result<PgConnection, OpenError> {
    protected(options)?;
    let mut connection = open(options).await.map_err(|error| OpenError::of(options, error))?;
    let encoding: String = sqlx::query_scalar("SELECT current_setting('server_encoding')")
        .fetch_one(&mut connection)
        .await
        .map_err(|error| OpenError::of(options, error))?;
    if encoding == "UTF8" { Ok(connection) } else { Err(OpenError::Encoding { place: place(options), encoding }) }
}

/// Whether what passes to and from a server on another machine is protected: all that planes have in common is there. What
/// PostgreSQL does by itself, which is to take encryption where it is offered, protects from nobody; whoever wants less than
/// a server that proves itself says so.
fn protected(options: &PgConnectOptions) -> Result<(), OpenError> {
    if options.get_socket().is_some() || matches!(options.get_host(), "localhost" | "127.0.0.1" | "::1") {
        return Ok(());
    }
    match options.get_ssl_mode() {
        PgSslMode::VerifyFull => Ok(()),
        PgSslMode::Allow | PgSslMode::Prefer => Err(OpenError::Unprotected { place: place(options) }),
        mode @ (PgSslMode::Disable | PgSslMode::Require | PgSslMode::VerifyCa) => {
            tracing::warn!(
                ?mode,
                "whoever stands between this plane and its database can read or change what passes; write `sslmode=verify-full`"
            );
            Ok(())
        }
    }
}

/// Lets tables be changed for as long as that takes, and waited for while another plane changes them.
pub(crate) async fn without_limits(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("SET statement_timeout = 0; SET lock_timeout = 0").execute(connection).await.map(drop)
}

/// The limits of every connection again.
pub(crate) async fn with_limits(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("RESET statement_timeout; RESET lock_timeout").execute(connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_on_another_machine_proves_itself_unless_somebody_said_that_it_need_not() {
        for (url, counts) in [
            ("postgres://u@db.example/plane", false),
            ("postgres://u@10.0.0.7/plane?sslmode=prefer", false),
            ("postgres://u@db.example/plane?sslmode=allow", false),
            ("postgres://u@db.example/plane?sslmode=verify-full", true),
            ("postgres://u@db.example/plane?sslmode=disable", true),
            ("postgres://u@localhost/plane", true),
            ("postgres://u@%2Frun%2Fpostgresql/plane", true),
        ] {
            let address: Address = url.parse().unwrap();
            let protected = protected(&address.options());
            assert_eq!(protected.is_ok(), counts, "{url}");
            if let Err(error) = protected {
                assert!(error.to_string().contains("sslmode=verify-full"), "{error}");
            }
        }
    }

    #[test]
    fn an_address_never_shows_its_password() {
        let address: Address = "postgres://fettle:sesame@db.example:5433/plane".parse().unwrap();
        assert!(address.has_password());
        assert_eq!(address.to_string(), "db.example:5433/plane");
        assert!(!format!("{address:?}").contains("sesame"));
        let without: Address = "postgresql://fettle@db.example/plane".parse().unwrap();
        assert!(!without.has_password());
        for wrong in ["mysql://x/y", "db.example", "", "postgres://[::/x"] {
            let error = wrong.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains("postgres://"), "{wrong}: {error}");
        }
    }
}
