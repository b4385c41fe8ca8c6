//! /api/v1/projects/{project}

pub(crate) mod allocations;
pub(crate) mod node_groups;
mod node_set;
pub(crate) mod operation_policies;
pub(crate) mod operations;
pub(crate) mod webhooks;
