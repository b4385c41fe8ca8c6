//! Who somebody is, by the word of an OpenID provider.
//!
//! A [`Verifier`] knows a few issuers. It reads where their keys are from their discovery document (OpenID Connect
//! Discovery 1.0, 4), keeps the keys, asks again when a token names one that it does not know, and takes a JSON Web
//! Token (RFC 7519) that one of them signed for one of the right audiences. What a person may do is for others to say:
//! an [`Identity`] is a name and claims.
//!
//! Time is a parameter. Tokens never get into errors or logs.

mod discovery;
mod issuer;
mod keys;
mod refusal;
mod verifier;

pub use self::{
    discovery::{Discovered, Discovery, Source, Unavailable},
    issuer::{Issuer, IssuerError},
    refusal::Refusal,
    verifier::{Identity, Verifier},
};

/// Public keys of an issuer (RFC 7517).
pub use jsonwebtoken::jwk::JwkSet;
