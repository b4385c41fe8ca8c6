//! From the rows of a database to the records of a store, and the few columns back. Both stores use it, so
//! that they cannot read the same columns differently.
//!
//! Nothing here sends a query: the statements are those of each store.

pub mod audit;
pub mod definition;
pub mod ending;
pub mod event;
pub mod log;
pub mod node;
pub mod node_set;
pub mod operation;
pub mod policy;
pub mod project;
pub mod report;
pub mod retry;
pub mod row;
pub mod segment;
pub mod settlement;
pub mod step;
pub mod subject;
pub mod task;
pub mod token;
pub mod waiting;
pub mod webhook;
