//! /api/v1/admin

pub(crate) mod operation_definitions;
