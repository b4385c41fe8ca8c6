//! /api/v1/projects/{project}/allocations

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod show;
