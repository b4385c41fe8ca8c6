//! /api/v1/projects/{project}/operation-policies

pub(crate) mod delete;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod show;
