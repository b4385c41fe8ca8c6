//! /api/v1/projects/{project}/node-groups

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod show;
