//! A capability call that did not work.

/// What was tried, and what the host answered. Becomes a [`Failure`](crate::Failure) with `?`; match on
/// `cause` to do something else about it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallError<Cause> {
    /// What was tried, as the start of a sentence: ``read `site/app.conf` ``.
    pub attempted: String,
    /// What the host answered.
    pub cause: Cause,
}

/// Names what was tried, once it failed.
pub(crate) fn attempt<T, Cause>(
    answer: Result<T, Cause>,
    attempted: impl FnOnce() -> String,
) -> Result<T, CallError<Cause>> {
    answer.map_err(|cause| CallError { attempted: attempted(), cause })
}
