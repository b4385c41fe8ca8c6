//! /api/v1

pub(crate) mod admin;
pub(crate) mod nodes;
pub(crate) mod openapi_json;
mod page;
pub(crate) mod projects;
