//! Full means wait: what the node has only so much of, and who waits for it.
//!
//! Whoever waits adds to the [`Pressure`] of the node. While anybody waits, the host tells the plane that
//! it has no free slot: more tasks would only wait as well, and another node may have room.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// How many wait for anything of this node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pressure(Arc<watch::Sender<usize>>);

impl Default for Pressure {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Pressure {
    /// Whether anybody waits now.
    #[must_use]
    pub fn is_felt(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Hears of every change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }

    fn wait(&self) -> Waiting<'_> {
        self.0.send_modify(|waiting| *waiting += 1);
        Waiting(self)
    }
}

struct Waiting<'a>(&'a Pressure);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

/// So many at once; whoever comes later waits, in order. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue {
    slots: Arc<Semaphore>,
    pressure: Pressure,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

/// The host is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host is shutting down")]
pub struct Closed;

impl Queue {
    /// A queue for `slots` at once, at least one.
    #[must_use]
    pub fn new(slots: usize, pressure: &Pressure) -> Self {
        let slots = Arc::new(Semaphore::new(slots.clamp(1, Semaphore::MAX_PERMITS)));
        Self { slots, pressure: pressure.clone() }
    }

    /// Takes a place, and waits for one when all are taken.
    ///
    /// # Errors
    /// Only while the host ends.
    pub async fn enter(&self) -> Result<Place, Closed> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(Place(permit));
        }
        let _waiting = self.pressure.wait();
        Arc::clone(&self.slots).acquire_owned().await.map(Place).map_err(|_| Closed)
    }

    /// Places that are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.slots.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn whoever_finds_it_full_waits_and_is_felt() {
        let pressure = Pressure::default();
        let queue = Queue::new(1, &pressure);
        let first = queue.enter().await.unwrap();
        assert!(!pressure.is_felt(), "a queue that is full without anybody waiting is no reason to refuse work");
        let mut second = std::pin::pin!(queue.enter());
        assert!(poll!(&mut second).is_pending() && pressure.is_felt());
        drop(first);
        assert!(poll!(&mut second).is_ready() && !pressure.is_felt());
    }

    #[tokio::test]
    async fn who_gives_up_is_no_longer_felt() {
        let pressure = Pressure::default();
        let queue = Queue::new(1, &pressure);
        let _first = queue.enter().await.unwrap();
        {
            let second = queue.enter();
            let mut second = std::pin::pin!(second);
            assert!(poll!(&mut second).is_pending() && pressure.is_felt());
        }
        assert!(!pressure.is_felt());
    }
}
