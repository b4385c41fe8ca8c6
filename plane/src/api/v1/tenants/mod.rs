//! /api/v1/tenants

pub(crate) mod operation_policies;
pub(crate) mod webhooks;
