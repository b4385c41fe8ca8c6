//! `fettle key`

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use fettle_supply::{KeyType, SigningKey, TrustPolicy};
use serde::Serialize;

use crate::{
    error::CommandError,
    output::{Output, remark},
    supply::PASSWORD_VARIABLE,
};

/// Keys that sign artifacts.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum KeyCommand {
    Generate(Generate),
}

/// Makes a key pair in the files of cosign: `NAME.key` (encrypted with the password in
/// `FETTLE_KEY_PASSWORD`) and `NAME.pub`; and `NAME.trust.yaml`, a trust policy that trusts this key
/// for every kind of artifact. Files that exist are never overwritten.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  FETTLE_KEY_PASSWORD=... fettle key generate --output ~/keys/platform-team
  cosign sign --key ~/keys/platform-team.key ...   # the same key, another tool")]
pub struct Generate {
    /// Directory and name of the files, without an ending.
    #[arg(long, value_name = "DIR/NAME", default_value = "fettle")]
    output: PathBuf,
    /// Which kind of key; every tool reads the first.
    #[arg(long = "type", value_enum, default_value_t = Type::EcdsaP256, value_name = "TYPE")]
    key_type: Type,
}

/// A kind of key.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Type {
    /// ECDSA over P-256 with SHA-256.
    #[default]
    EcdsaP256,
    /// Ed25519.
    Ed25519,
}

impl From<Type> for KeyType {
    fn from(key_type: Type) -> Self {
        match key_type {
            Type::EcdsaP256 => Self::EcdsaP256,
            Type::Ed25519 => Self::Ed25519,
        }
    }
}

/// What was made.
#[derive(Debug, Serialize)]
struct Generated {
    private_key: PathBuf,
    public_key: PathBuf,
    trust_policy: PathBuf,
    key_id: String,
}

impl KeyCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// When the files exist or cannot be written.
    pub fn run(&self, output: Output) -> Result<(), CommandError> {
        let Self::Generate(generate) = self;
        let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
        if password.is_none() {
            remark(&format!("warning: {PASSWORD_VARIABLE} is not set, so the key is encrypted with an empty password"));
        }
        let generated = generate.run(password.unwrap_or_default().as_bytes())?;
        output
            .show(&generated, |made| {
                format!(
                    "private key   {}\npublic key    {}\ntrust policy  {}\nkey id        {}\n",
                    made.private_key.display(),
                    made.public_key.display(),
                    made.trust_policy.display(),
                    made.key_id
                )
            })
            .map_err(CommandError::output)
    }
}

impl Generate {
    fn run(&self, password: &[u8]) -> Result<Generated, CommandError> {
        let name = self.output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = |ending: &str| self.output.with_file_name(format!("{name}.{ending}"));
        let (private_key, public_key, trust_policy) = (file("key"), file("pub"), file("trust.yaml"));
        for path in [&private_key, &public_key, &trust_policy] {
            if path.exists() {
                let source = std::io::Error::new(
                    std::io::ErrorKind::AlreadyExists,
                    "it exists already; choose another name with --output, or remove it yourself",
                );
                return Err(CommandError::Write { path: path.clone(), source });
            }
        }
        let unusable = |source| CommandError::Key { path: private_key.clone(), source };
        let key = SigningKey::generate_as(self.key_type.into()).map_err(unusable)?;
        key.save(&private_key, password).map_err(unusable)?;
        write(&public_key, &key.public().to_pem())?;
        write(&trust_policy, &trust_policy_text(&name, &key)?)?;
        let key_id = key.public().id().to_string();
        Ok(Generated { private_key, public_key, trust_policy, key_id })
    }
}

/// A trust policy that trusts one key for every kind.
pub(crate) fn trust_policy_text(name: &str, key: &SigningKey) -> Result<String, CommandError> {
    let unusable = |source| CommandError::Trust { path: PathBuf::from(name), source };
    let policy = TrustPolicy::any_of([(name.to_owned(), key.public().clone())]).map_err(unusable)?;
    serde_norway::to_string(&policy).map_err(|error| CommandError::Write {
        path: PathBuf::from(name),
        source: std::io::Error::other(error.to_string()),
    })
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    fs::write(path, text).map_err(|source| CommandError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_its_trust_policy_trusts_it() {
        let directory = tempfile::tempdir().unwrap();
        let generate = Generate { output: directory.path().join("team.one"), key_type: Type::Ed25519 };
        let made = generate.run(b"secret").unwrap();
        assert_eq!(made.private_key, directory.path().join("team.one.key"));
        let key = SigningKey::load(&made.private_key, b"secret").unwrap();
        assert_eq!(made.key_id, key.public().id().to_string());
        let policy = TrustPolicy::read(&fs::read_to_string(&made.trust_policy).unwrap()).unwrap();
        assert_eq!(policy, TrustPolicy::any_of([("team.one".to_owned(), key.public().clone())]).unwrap());
        let error = generate.run(b"secret").unwrap_err();
        assert!(matches!(error, CommandError::Write { .. }), "{error}");
        assert!(SigningKey::load(&made.private_key, b"secret").is_ok(), "the first key is lost");
    }
}
