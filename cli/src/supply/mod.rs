//! What publishing and verifying commands share: [`PublishArguments`] pushes and signs with a key of
//! [`SigningArguments`], [`TrustArguments`] fetches and verifies, both through [`RegistryArguments`].

mod publish;
mod signing;
mod trust;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use fettle_model::document;
use fettle_supply::{RegistryClient, RegistryOptions};
use serde::de::DeserializeOwned;

pub use self::{
    publish::{PublishArguments, Published, attest},
    signing::{Format, PASSWORD_VARIABLE, SignatureArguments, SigningArguments},
    trust::{TemporarySupplier, TrustArguments},
};
use crate::error::CommandError;

/// How registries are spoken to.
#[derive(Clone, Debug, Args)]
pub struct RegistryArguments {
    /// A registry (`host:port`) to speak to without TLS; loopback addresses always are. Repeatable.
    #[arg(long, value_name = "HOST:PORT")]
    pub plain_http: Vec<String>,
    /// An OCI image layout directory that stands before all registries. Repeatable.
    #[arg(long, value_name = "DIR")]
    pub oci_layout: Vec<PathBuf>,
}

impl RegistryArguments {
    /// A client of the registries.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn client(&self) -> Result<RegistryClient, CommandError> {
        let plain_http = self.plain_http.iter().cloned().collect();
        Ok(RegistryClient::new(RegistryOptions {
            plain_http,
            layouts: self.oci_layout.clone(),
            ..RegistryOptions::default()
        })?)
    }
}

/// Reads a file as text.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path).map_err(|source| CommandError::Read { path: path.to_owned(), source })
}

/// Reads a YAML or JSON file strictly.
///
/// # Errors
/// When it cannot be read, or has another form.
pub fn read_document<T: DeserializeOwned>(path: &Path, what: &'static str) -> Result<T, CommandError> {
    document::read(&read(path)?).map_err(|source| CommandError::Document { path: path.to_owned(), what, source })
}
