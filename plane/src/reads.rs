//! What each request reads. Who asks for the same thing at the same time is answered by one read, which begins after all
//! of them have asked: nobody is told what was true before, and a token that was revoked is refused at once.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fettle_model::name::OperationType;
use fettle_store::{
    Store, StoreError, node::Node, policy::PolicyDocument, project::Project, secret::SecretHash, token::Token,
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use tokio::sync::OwnedMutexGuard;

/// The reads of the store that requests have in common.
pub(crate) struct Reads {
    store: Arc<dyn Store>,
    tokens: Together<SecretHash, Option<Token>>,
    nodes: Together<String, Option<Node>>,
    policies: Together<(Project, OperationType), Vec<PolicyDocument>>,
}

impl Reads {
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        Self { store, tokens: Together::default(), nodes: Together::default(), policies: Together::default() }
    }

    /// The token with this secret.
    pub(crate) async fn token(&self, hash: SecretHash) -> Result<Option<Token>, StoreError> {
        let store = Arc::clone(&self.store);
        self.tokens.read(hash, async move { store.token_by_hash(hash).await }).await
    }

    /// The node of this name.
    pub(crate) async fn node_by_name(&self, name: &str) -> Result<Option<Node>, StoreError> {
        let (store, asked) = (Arc::clone(&self.store), name.to_owned());
        self.nodes.read(name.to_owned(), async move { store.node_by_name(&asked).await }).await
    }

    /// The overlays that hold in a project, the most general first.
    pub(crate) async fn policy_chain(
        &self,
        project: &Project,
        operation_type: &OperationType,
    ) -> Result<Vec<PolicyDocument>, StoreError> {
        let store = Arc::clone(&self.store);
        let key = (project.clone(), operation_type.clone());
        let (project, operation_type) = key.clone();
        self.policies.read(key, async move { store.policy_chain(&project, &operation_type).await }).await
    }
}

type Answer<V> = Result<V, StoreError>;

/// Reads of one kind. Of each key one is under way at most; whoever asks meanwhile waits for the next.
struct Together<K, V>(Arc<Mutex<HashMap<K, Slot<V>>>>);

/// The reads of a key.
struct Slot<V> {
    /// Held while one is under way.
    gate: Arc<tokio::sync::Mutex<()>>,
    /// The one that has not begun, while somebody waits for it.
    next: Option<WeakShared<BoxFuture<'static, Answer<V>>>>,
}

impl<K, V> Default for Together<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, V> Together<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Does what `how` says, or is answered by somebody who does the same from now on.
    fn read(
        &self,
        key: K,
        how: impl Future<Output = Answer<V>> + Send + 'static,
    ) -> Shared<BoxFuture<'static, Answer<V>>> {
        let mut slots = lock(&self.0);
        let slot = slots.entry(key.clone()).or_insert_with(|| Slot { gate: Arc::default(), next: None });
        if let Some(next) = slot.next.as_ref().and_then(WeakShared::upgrade) {
            return next;
        }
        let (slots, gate) = (Arc::clone(&self.0), Arc::clone(&slot.gate));
        let next = async move {
            let _turn = Turn::begin(slots, key, gate.lock_owned().await);
            how.await
        };
        let next = next.boxed().shared();
        slot.next = next.downgrade();
        next
    }
}

/// A read that is under way.
struct Turn<K: Eq + Hash, V> {
    slots: Arc<Mutex<HashMap<K, Slot<V>>>>,
    key: K,
    gate: Option<OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash, V> Turn<K, V> {
    /// Whoever asks from now on is not answered by it.
    fn begin(slots: Arc<Mutex<HashMap<K, Slot<V>>>>, key: K, gate: OwnedMutexGuard<()>) -> Self {
        if let Some(slot) = lock(&slots).get_mut(&key) {
            slot.next = None;
        }
        Self { slots, key, gate: Some(gate) }
    }
}

impl<K: Eq + Hash, V> Drop for Turn<K, V> {
    fn drop(&mut self) {
        let mut slots = lock(&self.slots);
        self.gate = None;
        // Nothing is kept of a key that nobody waits for.
        if slots.get(&self.key).is_some_and(|slot| slot.next.as_ref().is_none_or(|next| next.upgrade().is_none())) {
            slots.remove(&self.key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use tokio::sync::oneshot;

    use super::*;

    type Reading = Pin<Box<dyn Future<Output = Answer<u32>>>>;

    /// A read that ends when it is told what it found. Before that it says that it has begun.
    fn asked(reads: &Together<&'static str, u32>, key: &'static str) -> (Reading, Told) {
        let (tell, told) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let how = async move {
            let _ = begin.send(());
            told.await.unwrap()
        };
        (Box::pin(reads.read(key, how)), Told { tell, begun })
    }

    struct Told {
        tell: oneshot::Sender<Answer<u32>>,
        begun: oneshot::Receiver<()>,
    }

    impl Told {
        fn has_begun(&mut self) -> bool {
            self.begun.try_recv().is_ok()
        }
    }

    fn now(reading: &mut Reading) -> Option<Result<u32, String>> {
        match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer.map_err(|error| error.to_string())),
            Poll::Pending => None,
        }
    }

    #[test]
    fn nobody_is_answered_by_a_read_that_began_before_the_question() {
        let reads = Together::default();
        let (mut first, mut one) = asked(&reads, "a");
        assert_eq!(now(&mut first), None);
        assert!(one.has_begun(), "the first begins at once");
        let (mut second, mut two) = asked(&reads, "a");
        let (mut third, mut three) = asked(&reads, "a");
        assert_eq!((now(&mut second), now(&mut third)), (None, None));
        assert!(!two.has_begun(), "one at a time");
        one.tell.send(Ok(1)).unwrap();
        assert_eq!(now(&mut first), Some(Ok(1)));
        assert_eq!(now(&mut third), None);
        assert!(two.has_begun() && !three.has_begun(), "the second and the third are one read");
        let (mut fourth, mut four) = asked(&reads, "a");
        assert_eq!((now(&mut fourth), four.has_begun()), (None, false));
        two.tell.send(Ok(2)).unwrap();
        assert_eq!((now(&mut third), now(&mut second)), (Some(Ok(2)), Some(Ok(2))));
        assert_eq!((now(&mut fourth), four.has_begun()), (None, true));
        four.tell.send(Ok(3)).unwrap();
        assert_eq!(now(&mut fourth), Some(Ok(3)));
        assert!(lock(&reads.0).is_empty(), "nothing is kept");
    }

    #[test]
    fn keys_do_not_wait_for_each_other() {
        let reads = Together::default();
        let [(mut first, mut one), (mut second, mut two)] = ["a", "b"].map(|key| asked(&reads, key));
        assert_eq!((now(&mut first), now(&mut second)), (None, None));
        assert!(one.has_begun() && two.has_begun());
    }

    #[test]
    fn who_gives_up_keeps_nobody_waiting() {
        let reads = Together::default();
        let (mut first, one) = asked(&reads, "a");
        assert_eq!(now(&mut first), None);
        let (mut second, mut two) = asked(&reads, "a");
        let (mut third, _three) = asked(&reads, "a");
        assert_eq!((now(&mut second), now(&mut third)), (None, None));
        drop(first);
        assert!(one.tell.is_closed(), "a read that nobody waits for is not made");
        drop(second);
        assert_eq!(now(&mut third), None);
        assert!(two.has_begun());
        two.tell.send(Ok(2)).unwrap();
        assert_eq!(now(&mut third), Some(Ok(2)));
        let (mut alone, waits) = asked(&reads, "a");
        assert_eq!(now(&mut alone), None);
        drop(alone);
        assert!(waits.tell.is_closed() && lock(&reads.0).is_empty(), "nothing is kept");
    }

    #[test]
    fn all_who_wait_are_told_of_an_error() {
        let reads = Together::default();
        let (mut first, one) = asked(&reads, "a");
        assert_eq!(now(&mut first), None);
        let [(mut second, two), (mut third, _)] = ["a", "a"].map(|key| asked(&reads, key));
        one.tell.send(Ok(1)).unwrap();
        assert_eq!((now(&mut first), now(&mut second)), (Some(Ok(1)), None));
        two.tell.send(Err(StoreError::not_found("a", "b"))).unwrap();
        let told = Some(Err("there is no a `b`".to_owned()));
        assert_eq!((now(&mut second), now(&mut third)), (told.clone(), told));
    }
}
