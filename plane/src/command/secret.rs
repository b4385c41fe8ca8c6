//! fettle-plane secret

use std::{
    io::{BufRead as _, IsTerminal as _},
    path::PathBuf,
};

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use fettle_credentials::{Purpose, SealingKey};
use zeroize::Zeroizing;

/// Secrets in documents that the plane reads: sealed, so that whoever reads the document learns none.
#[derive(Debug, Subcommand)]
pub(super) enum SecretCommand {
    /// Makes a key in a new file. Planes over one database need the same; keep it where backups of documents and database
    /// are not.
    GenerateKey(GenerateKey),
    /// Reads a secret from its input, and prints it sealed, as `--credentials` takes it. The newline at its end does not
    /// count.
    Seal(Seal),
}

/// Where the key goes.
#[derive(Debug, Args)]
pub(super) struct GenerateKey {
    /// The file; it must not be there.
    file: PathBuf,
}

/// What seals it.
#[derive(Debug, Args)]
pub(super) struct Seal {
    /// The file of the key.
    #[arg(long, env = "FETTLE_PLANE_SECRET_KEY", value_name = "FILE")]
    secret_key: PathBuf,
}

/// The most bytes of a secret: a key in PEM has some thousand.
const LONGEST: u64 = 16 << 10;

impl SecretCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::GenerateKey(GenerateKey { file }) => {
                SealingKey::generate(&file)?;
                super::print(&format!("{} holds a new key; this user alone may read it", file.display()))
            }
            Self::Seal(seal) => seal.run(),
        }
    }
}

impl Seal {
    fn run(self) -> anyhow::Result<()> {
        use std::io::Read as _;
        let key = SealingKey::load(&self.secret_key)?;
        let input = std::io::stdin();
        let mut secret = Zeroizing::new(String::new());
        if input.is_terminal() {
            eprintln!("type the secret and press Enter; it is shown while you type");
            input.lock().read_line(&mut secret).context("the secret cannot be read")?;
        } else {
            input.lock().take(LONGEST + 1).read_to_string(&mut secret).context("the secret cannot be read")?;
        }
        ensure!(secret.len() as u64 <= LONGEST, "a secret has {LONGEST} bytes at most");
        let secret = secret.strip_suffix('\n').unwrap_or(&secret);
        ensure!(!secret.is_empty(), "there is no secret; send it to the standard input");
        super::print(&key.seal(Purpose::Document, secret)?.to_string())
    }
}
