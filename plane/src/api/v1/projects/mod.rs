//! /api/v1/projects/{project}

pub(crate) mod operations;
