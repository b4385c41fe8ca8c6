//! /api/v1

pub(crate) mod admin;
pub(crate) mod nodes;
pub(crate) mod openapi_json;
mod page;
mod policies;
pub(crate) mod projects;
pub(crate) mod tenants;
mod webhooks;
