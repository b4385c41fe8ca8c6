//! `fettle-host generate-key`: a key by which a node is let in without a join token.

use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, path::PathBuf};

use anyhow::Context as _;
use fettle_identity::Key;

/// Makes a key for a node that is to be let in without a join token, and prints its public half, which the plane is told
/// of. A file that is there is left alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  fettle-host generate-key --output node.key > node.pub
  fettle-plane join-token create --for-key node.pub        # where the plane is; prints the authority's fingerprint
  fettle-host run --key-file node.key --authority FINGERPRINT --plane https://plane.example:7483 --trust trust.yaml")]
pub(super) struct GenerateKey {
    /// Where the private key goes; its owner alone may read it.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

impl GenerateKey {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let key = Key::generate()?;
        let write = || -> std::io::Result<()> {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&self.output)?;
            file.write_all(key.to_pem().as_bytes())?;
            file.sync_all()
        };
        write().with_context(|| format!("{} cannot be written", self.output.display()))?;
        std::io::stdout().write_all(key.public_pem().as_bytes()).context("standard output cannot be written")
    }
}
