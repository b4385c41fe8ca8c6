//! The one HTTP client: guarded addresses, no redirects, no proxies, no compression.

use std::{error::Error as _, time::Duration};

use reqwest::{Method, RequestBuilder, Url};

use crate::{
    Guard, Refused,
    mutation::{Protection, off},
};

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Longest time to a connection, the lookup of its name included.
    pub connect_timeout: Duration,
    /// Certificates in PEM that are trusted beside the system's.
    pub authorities: Vec<Vec<u8>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(10), authorities: Vec::new() }
    }
}

/// Sends requests to vetted addresses only. Connections are kept and used again, so clients with
/// different guards are different clients. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    guard: Guard,
}

/// The client cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS; check the system's certificate store and the certificates that were given")]
pub struct ClientError(#[source] reqwest::Error);

impl Client {
    /// Makes a client.
    ///
    /// # Errors
    /// When TLS cannot be set up, or a certificate is none.
    pub fn new(guard: Guard, options: &ClientOptions) -> Result<Self, ClientError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("fettle/", env!("CARGO_PKG_VERSION")))
            .referer(false)
            // Digests are of the bytes on the wire, and no small answer may grow large.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            // One connection per transfer is faster than flow control over a shared one.
            .http1_only()
            .dns_resolver(guard.clone())
            .connect_timeout(options.connect_timeout);
        if !off(Protection::Redirects) {
            builder = builder.redirect(reqwest::redirect::Policy::none());
        }
        if !off(Protection::Proxies) {
            builder = builder.no_proxy();
        }
        for pem in &options.authorities {
            builder = builder.add_root_certificate(reqwest::Certificate::from_pem(pem).map_err(ClientError)?);
        }
        Ok(Self { http: builder.build().map_err(ClientError)?, guard })
    }

    /// Starts a request. The host of `url` is looked at as it will be connected to, not as it was written.
    ///
    /// # Errors
    /// When the host is written as an address that is refused.
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Refused> {
        if let Some(host) = url.host() {
            self.guard.check_literal(&host)?;
        }
        Ok(self.http.request(method, url))
    }

    /// What decides about its addresses.
    #[must_use]
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// The refusal that made a request fail, if one did.
#[must_use]
pub fn refusal(error: &reqwest::Error) -> Option<&Refused> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(refused) = cause.downcast_ref::<Refused>() {
            return Some(refused);
        }
        source = cause.source();
    }
    None
}
