//! The key that development artifacts are signed with.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use fettle_supply::SigningKey;

use crate::command::key::trust_policy_text;

/// Where the keys are.
pub(super) struct Keys {
    pub(super) private: PathBuf,
    pub(super) trust: PathBuf,
}

/// Makes the key and the trust policy, when they are not there.
pub(super) fn ensure(data: &Path) -> anyhow::Result<Keys> {
    let directory = data.join("keys");
    super::make_private(&directory)?;
    let keys = Keys { private: directory.join("dev.key"), trust: data.join("trust.yaml") };
    let key = if keys.private.exists() {
        SigningKey::load(&keys.private, b"")?
    } else {
        let key = SigningKey::generate()?;
        key.save(&keys.private, b"")?;
        key
    };
    write_new(&directory.join("dev.pub"), &key.public().to_pem())?;
    write_new(&keys.trust, &trust_policy_text("dev", &key)?)?;
    Ok(keys)
}

/// What somebody changed stays.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
