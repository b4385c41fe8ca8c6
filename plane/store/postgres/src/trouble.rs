//! What an error of the database means for a transaction.

use fettle_store::StoreError;

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection is gone, or the server is going.
    Lost,
    /// Another transaction was in the way; the same may work now.
    InTheWay,
    /// The statement itself failed.
    Statement,
}

impl Trouble {
    /// What an error means.
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        let error = match error {
            sqlx::Error::Database(error) => error,
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::PoolClosed => return Self::Lost,
            _ => return Self::Statement,
        };
        match error.code().as_deref().unwrap_or_default() {
            // Serialization, deadlock, a lock that took too long.
            "40001" | "40P01" | "55P03" => Self::InTheWay,
            // A transaction that was idle for too long, and all of connections and shutdowns.
            "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => Self::Lost,
            code if code.starts_with("08") => Self::Lost,
            _ => Self::Statement,
        }
    }

    /// What the error of a verb means; none when the verb was refused by what it found.
    pub(crate) fn of_verb(error: &StoreError) -> Option<Self> {
        let StoreError::Unavailable { source, .. } = error else { return None };
        source.downcast_ref().map(Self::of)
    }
}
