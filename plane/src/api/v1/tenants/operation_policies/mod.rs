//! /api/v1/tenants/{tenant}/operation-policies

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod show;
