//! How the database of a journal is waited for.

#[cfg(feature = "simulation")]
use std::sync::Arc;

#[cfg(feature = "simulation")]
use crate::simulation::InPlace;

/// Beside everything else, or in a simulation while all else stands still.
#[derive(Clone, Default)]
pub(super) enum Wait {
    /// As asynchronous code does.
    #[default]
    Beside,
    /// Nothing else happens meanwhile, and a machine that is dead waits for ever.
    #[cfg(feature = "simulation")]
    InPlace(Arc<dyn InPlace>),
}

impl Wait {
    #[cfg_attr(not(feature = "simulation"), expect(clippy::unused_self, reason = "there is one way to wait"))]
    pub(super) async fn of<T: Send>(&self, _what: &'static str, work: impl Future<Output = T> + Send) -> T {
        match self {
            Self::Beside => work.await,
            #[cfg(feature = "simulation")]
            Self::InPlace(place) => {
                let mut answer = None;
                let done = place.complete(_what, Box::pin(async { answer = Some(work.await) }));
                match answer.filter(|_| done) {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        }
    }
}
