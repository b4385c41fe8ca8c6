//! What Fettle's things *are*: definitions, graphs, plans, grants, policy, operations, leases.
//!
//! This crate is pure. It knows no clock, no network, no file system, no database and no sandbox, so
//! that the plane and every host compute the same [`plan::Plan`] from the same signed bytes.

pub mod access;
pub mod activation;
pub mod assignment;
pub mod canonical;
pub mod cassette;
pub mod catalog;
pub mod check;
pub mod command;
pub mod credential;
pub mod definition;
pub mod denial;
pub mod descriptor;
pub mod digest;
pub mod document;
pub mod egress;
pub mod expression;
pub mod failure;
pub mod grant;
pub mod graph;
pub mod limits;
pub mod name;
pub mod operation;
pub mod overlay;
pub mod plan;
pub mod policy;
pub mod reference;
pub mod schema;
pub mod selector;
pub mod settlement;
pub mod task;
pub mod taxonomy;
pub mod time;
pub mod violation;
pub mod web;
