//! /api/v1/admin/operation-definitions

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod show;
mod view;
