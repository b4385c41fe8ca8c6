//! /api/v1/admin/operation-definitions

pub(crate) mod amend;
pub(crate) mod create;
pub(crate) mod deprecate;
mod find;
pub(crate) mod list;
pub(crate) mod retire;
pub(crate) mod show;
mod view;
