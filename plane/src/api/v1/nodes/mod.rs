//! /api/v1/nodes

pub(crate) mod list;
pub(crate) mod revoke;
pub(crate) mod show;
mod view;
