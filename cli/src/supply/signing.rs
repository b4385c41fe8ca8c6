//! With which key, in which format.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use fettle_model::reference::Reference;
use fettle_supply::{RegistryClient, SignatureFormat, SigningKey};

use crate::{command::Session, error::CommandError};

/// The variable with the password of a key.
pub const PASSWORD_VARIABLE: &str = "FETTLE_KEY_PASSWORD";

/// With which key.
#[derive(Clone, Debug, Args)]
pub struct SigningArguments {
    /// The private key to sign with; its password is in `FETTLE_KEY_PASSWORD`.
    #[arg(long, env = "FETTLE_KEY", value_name = "FILE")]
    pub key: Option<PathBuf>,
}

impl SigningArguments {
    /// The key.
    ///
    /// # Errors
    /// When it is not said which, or it cannot be used.
    pub fn key(&self, session: &Session) -> Result<SigningKey, CommandError> {
        let path = self.key.as_ref().or(session.context.key.as_ref()).ok_or_else(|| CommandError::Missing {
            problem: "it is not said which key to sign with".to_owned(),
            fix: "pass --key FILE or set FETTLE_KEY; `fettle key generate` makes a key".to_owned(),
        })?;
        let password = std::env::var(PASSWORD_VARIABLE).unwrap_or_default();
        SigningKey::load(path, password.as_bytes()).map_err(|source| CommandError::Key { path: path.clone(), source })
    }
}

/// How to sign.
#[derive(Clone, Debug, Args)]
pub struct SignatureArguments {
    /// In which format to sign: `cosign` (a `.sig` tag), `bundle` (a Sigstore bundle that refers to the
    /// artifact), or `both`.
    #[arg(long, value_enum, default_value_t = Format::Both, value_name = "FORMAT")]
    pub signature_format: Format,
    /// An annotation that is signed along. Repeatable.
    #[arg(short = 'a', long = "annotation", value_name = "KEY=VALUE", value_parser = annotation)]
    pub annotations: Vec<(String, String)>,
}

/// A format of signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// As cosign 2 and skopeo read it.
    Cosign,
    /// As cosign 3 reads it.
    Bundle,
    /// Both.
    #[default]
    Both,
}

impl From<Format> for SignatureFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Cosign => Self::Cosign,
            Format::Bundle => Self::Bundle,
            Format::Both => Self::Both,
        }
    }
}

fn annotation(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no annotation; write KEY=VALUE")),
    }
}

impl SignatureArguments {
    /// Signs an artifact that is in a registry, with these annotations and `more`.
    ///
    /// # Errors
    /// When the registry fails, or an annotation is named twice.
    pub async fn sign(
        &self,
        client: &RegistryClient,
        reference: &Reference,
        key: &SigningKey,
        more: Vec<(String, String)>,
    ) -> Result<(), CommandError> {
        let count = self.annotations.len() + more.len();
        let annotations: BTreeMap<String, String> = self.annotations.iter().cloned().chain(more).collect();
        if annotations.len() != count {
            return Err(CommandError::Missing {
                problem: "an annotation is given twice".to_owned(),
                fix: "name each annotation once".to_owned(),
            });
        }
        Ok(client.sign_as(reference, key, self.signature_format.into(), &annotations).await?)
    }
}
