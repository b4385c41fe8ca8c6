//! What the plane remembers: records, and one narrow trait per aggregate.
//!
//! A store is a database behind these traits; nothing else of the plane knows which. Every write is
//! one named verb and one transaction: it checks the state it starts from, writes the records, the
//! outbox events and the audit row together, and answers only when all of it is durable. Time and
//! identifiers come from the caller.

pub mod audit;
pub mod chain;
pub mod change;
pub mod context;
pub mod definition;
pub mod error;
pub mod event;
pub mod fact;
pub mod id;
#[cfg(feature = "laws")]
pub mod laws;
pub mod log;
pub mod node;
pub mod node_set;
pub mod operation;
pub mod page;
pub mod policy;
pub mod project;
pub mod queue;
pub mod retention;
pub mod secret;
pub mod task;
pub mod token;
pub mod webhook;

pub use error::StoreError;

/// A whole store.
pub trait Store:
    audit::AuditStore
    + definition::DefinitionStore
    + event::EventStore
    + log::LogStore
    + node::NodeStore
    + node_set::NodeSetStore
    + operation::OperationStore
    + policy::PolicyStore
    + project::ProjectStore
    + retention::RetentionStore
    + task::TaskStore
    + token::TokenStore
    + webhook::WebhookStore
    + Health
{
}

impl<T> Store for T where
    T: audit::AuditStore
        + definition::DefinitionStore
        + event::EventStore
        + log::LogStore
        + node::NodeStore
        + node_set::NodeSetStore
        + operation::OperationStore
        + policy::PolicyStore
        + project::ProjectStore
        + retention::RetentionStore
        + task::TaskStore
        + token::TokenStore
        + webhook::WebhookStore
        + webhook::WebhookStore
        + Health
{
}

/// Whether the store can do its work.
#[async_trait::async_trait]
pub trait Health: Send + Sync {
    /// Reads something trivial.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn check_health(&self) -> Result<(), StoreError>;

    /// Finishes what was begun and closes the connections. Later calls fail.
    async fn close(&self);
}
