//! /api/v1/admin/operation-policies

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod show;
