//! Verbs on their way through the writer: how they end, and what is answered.

use fettle_store::StoreError;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{
    error::{NotWritten, Unknown, unavailable},
    trouble::Trouble,
    unit::Unit,
};

/// How a verb ended, as far as the transaction is concerned.
pub(crate) enum Ended {
    Done,
    /// It found that it may not. The transaction goes on without it.
    Refused,
    Failed(Trouble, String),
}

impl Ended {
    /// How it ended that answered this.
    pub(crate) fn of<T>(result: &Result<T, StoreError>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(error) => match Trouble::of_verb(error) {
                None => Self::Refused,
                Some(trouble) => Self::Failed(trouble, reason(error)),
            },
        }
    }
}

/// Why a transaction was not committed.
pub(crate) enum Failure {
    /// One verb has to be taken back.
    TakeBack,
    /// Another transaction was in the way of several verbs: each of them alone may work.
    Apart,
    /// It may work now.
    Again(Trouble, String),
    /// The connection was lost during the commit.
    Unknown(String),
}

impl Failure {
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::TakeBack => "a verb had to be taken back",
            Self::Apart => "another transaction was in the way",
            Self::Again(_, reason) | Self::Unknown(reason) => reason,
        }
    }
}

/// A verb that waits, or that has run and waits for the commit.
pub(crate) trait Job: Send {
    /// How many verbs it runs.
    fn verbs(&self) -> usize {
        1
    }

    fn run<'c>(&'c mut self, unit: &'c mut Unit) -> BoxFuture<'c, Ended>;

    /// Each of its verbs as a job of its own, to be run again.
    fn split(self: Box<Self>) -> Vec<Box<dyn Job>>;

    /// Answers whoever asked; the argument says whether and why the commit failed.
    fn answer(self: Box<Self>, failed: Option<&Failure>);
}

/// What a verb is answered that ended so, if it was run.
pub(crate) fn answer<T>(
    verb: &'static str,
    result: Option<Result<T, StoreError>>,
    failed: Option<&Failure>,
) -> Result<T, StoreError> {
    let result = match failed {
        None => result.unwrap_or_else(|| Err(unavailable(verb)(NotWritten("it was not run".to_owned())))),
        Some(Failure::Unknown(reason)) => Err(unavailable(verb)(Unknown(reason.clone()))),
        Some(failure) => Err(unavailable(verb)(NotWritten(failure.reason().to_owned()))),
    };
    result.map_err(|error| match error {
        // Statements do not know the verb they belong to.
        StoreError::Unavailable { source, .. } => StoreError::Unavailable { verb, source },
        other => other,
    })
}

/// A verb that is run on its own.
pub(crate) struct Asked<I, T, F> {
    pub(crate) verb: &'static str,
    pub(crate) input: I,
    pub(crate) work: F,
    pub(crate) result: Option<Result<T, StoreError>>,
    pub(crate) sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<I, T, F> Job for Asked<I, T, F>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
    F: for<'c> Fn(&'c mut Unit, &'c I) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync + 'static,
{
    fn run<'c>(&'c mut self, unit: &'c mut Unit) -> BoxFuture<'c, Ended> {
        Box::pin(async move {
            let result = (self.work)(unit, &self.input).await;
            let ended = Ended::of(&result);
            self.result = Some(result);
            ended
        })
    }

    fn split(self: Box<Self>) -> Vec<Box<dyn Job>> {
        vec![self]
    }

    fn answer(self: Box<Self>, failed: Option<&Failure>) {
        let _ = self.sender.send(answer(self.verb, self.result, failed));
    }
}

/// What an error says, down to its first cause.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    let first = std::iter::successors(error.source(), |error| error.source()).last();
    first.map_or_else(|| error.to_string(), ToString::to_string)
}
