//! The way out of a machine: every connection that a step causes, and every pull of an artifact, is made
//! to an address that was vetted here.
//!
//! A name is resolved once; every answer is stripped of its IPv6 dress and compared with the ranges that
//! are not of the public Internet; the connection goes to what is left, while TLS still asks for the name.
//! Hosts that are written as addresses are vetted the same. No redirect is followed and no proxy used.
//!
//! | for | guard | reaches |
//! |---|---|---|
//! | steps (`transfer`, `http`) | [`Guard::of_policy`] | public addresses, and the private ones that the policy bundle names for a host |
//! | artifacts that a host or a plane pulls itself | [`Guard::of_configuration`] | also private ones; never link-local or metadata addresses |
//!
//! ```
//! # use fettle_egress::*;
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let egress = fettle_model::document::read("private: { registry.internal: [10.0.0.0/8] }")?;
//! let client = Client::new(Guard::of_policy(&egress), &ClientOptions::default())?;
//! let refused = client.request(reqwest::Method::GET, "http://169.254.169.254/".parse()?).unwrap_err();
//! assert_eq!(refused.range.name, "an address of a metadata service");
//! # Ok(())
//! # }
//! # example().unwrap();
//! ```

mod canonical;
mod client;
mod confidential;
mod guard;
#[cfg(not(feature = "mutations"))]
mod mutation;
#[cfg(feature = "mutations")]
pub mod mutation;
mod range;

/// What requests and answers are made of.
pub mod http {
    pub use reqwest::{
        Error, Method, RequestBuilder, Response,
        header::{HeaderMap, HeaderName, HeaderValue},
    };
}

pub use canonical::canonical;
pub use client::{Client, ClientError, ClientOptions, refusal};
pub use confidential::is_confidential;
pub use guard::{Found, Guard, Lookup, Refused, SystemLookup};
pub use range::{Consent, Range, special};
