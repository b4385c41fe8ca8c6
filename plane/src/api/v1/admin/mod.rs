//! /api/v1/admin

pub(crate) mod operation_definitions;
pub(crate) mod operation_policies;
