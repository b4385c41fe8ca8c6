//! Where short-lived credentials come from.
//!
//! | provider | gives | needs |
//! |---|---|---|
//! | `token_service` | a token that pulls from one repository | the token service of a registry, and an account there |
//! | `registry_key` | the same, signed here | a registry that trusts a certificate of ours |
//! | `presigned` | an address that reads one object of S3, or of what speaks like it | keys of an account that may read it |
//! | `issuer` | anything, from a service of one's own | its address, and a token for it |
//! | `fixed` | a secret that is always the same | nothing that would make one; it does not run out by itself |
//!
//! Which provider gives what stands in one document ([`Desk::load`]). Its secrets are sealed with a key that is elsewhere
//! ([`SealingKey`]), so the document may lie in a repository and in backups.
//!
//! This crate knows types and scopes, and no nodes, tasks or leases: whoever asks has checked that it may.

mod document;
mod fixed;
mod issuer;
mod presigned;
mod provider;
mod registry_key;
mod sealed;
mod token_service;
mod web;

pub use self::{
    document::{Desk, DeskError},
    provider::{Bearer, Minted, ProviderError, Wanted},
    sealed::{Purpose, Sealed, SealedError, SealingKey},
};
