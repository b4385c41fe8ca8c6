//! /api/v1/tenants/{tenant}/webhooks

pub(crate) mod amend;
pub(crate) mod create;
pub(crate) mod dead_letters;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod replay;
pub(crate) mod rotate_secret;
pub(crate) mod show;
