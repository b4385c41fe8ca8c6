//! `fettle artifact copy`

use std::{path::Path, str::FromStr};

use clap::Args;
use fettle_model::{
    digest::Digest,
    reference::{Reference, Repository},
};
use fettle_supply::{CopySource, CopyTarget, Layout, LayoutError};
use serde::Serialize;

use super::Session;
use crate::{error::CommandError, supply::RegistryArguments};

const LAYOUT: &str = "oci-layout:";

/// Copies artifacts with their signatures, bundles and attestations, byte for byte, between registries
/// and OCI image layout directories.
///
/// A layout directory is what an air-gapped site gets on a disk: `--oci-layout DIR` makes hosts, planes
/// and commands take from it what is in it, with the same verdicts. Nothing is verified on the way but
/// digests.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle artifact copy registry.internal:5000/steps/file.render@sha256:... --to oci-layout:/media/disk
  fettle artifact copy oci-layout:/media/disk@sha256:... --to registry.site:5000/steps/file.render")]
pub struct Copy {
    /// What to copy: `host:port/path@sha256:...`, or `oci-layout:DIR@sha256:...`.
    #[arg(value_name = "FROM", required = true)]
    from: Vec<From>,
    /// Where to: `host:port/path`, or `oci-layout:DIR`, which is made when it is not there.
    #[arg(long, value_name = "TO")]
    to: To,
    #[command(flatten)]
    registry: RegistryArguments,
}

#[derive(Clone, Debug)]
enum From {
    Registry(Reference),
    Layout(String, Digest),
}

#[derive(Clone, Debug)]
enum To {
    Registry(Repository),
    Layout(String),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(rest) = text.strip_prefix(LAYOUT) else {
            return text.parse().map(Self::Registry).map_err(|error| format!("{error}"));
        };
        let wrong = || format!("`{text}` names no artifact of a layout; write `{LAYOUT}DIR@sha256:<hex>`");
        let (directory, digest) = rest.rsplit_once('@').ok_or_else(wrong)?;
        Ok(Self::Layout(directory.to_owned(), digest.parse().map_err(|_| wrong())?))
    }
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(LAYOUT) {
            Some(directory) => Ok(Self::Layout(directory.to_owned())),
            None => text.parse().map(Self::Registry).map_err(|error| format!("{error}")),
        }
    }
}

#[derive(Serialize)]
struct Copied {
    reference: String,
    signatures: usize,
    referrers: usize,
}

impl Copy {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.registry.client()?;
        let opened = |layout: Result<Layout, LayoutError>| layout.map_err(CommandError::from);
        let target = match &self.to {
            To::Registry(repository) => CopyTarget::Registry(repository.clone()),
            To::Layout(directory) => CopyTarget::Layout(opened(Layout::open_or_create(Path::new(directory)))?),
        };
        let mut all = Vec::new();
        for from in &self.from {
            let source = match from {
                From::Registry(reference) => CopySource::Registry(reference.clone()),
                From::Layout(directory, digest) => {
                    CopySource::Layout(opened(Layout::open(Path::new(directory)))?, *digest)
                }
            };
            let copied = client.copy(&source, &target).await?;
            let reference = match &self.to {
                To::Registry(repository) => repository.at(copied.digest).to_string(),
                To::Layout(directory) => format!("{LAYOUT}{directory}@{}", copied.digest),
            };
            all.push(Copied { reference, signatures: copied.signatures, referrers: copied.referrers });
        }
        session.show(&all, |all| {
            let line =
                |it: &Copied| format!("{}  ({} signatures, {} referrers)\n", it.reference, it.signatures, it.referrers);
            all.iter().map(line).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_a_digest_and_a_target_does_not() {
        let digest = Digest::of(b"it");
        assert!(
            matches!(format!("oci-layout:/a@b@{digest}").parse(), Ok(From::Layout(directory, it)) if directory == "/a@b" && it == digest)
        );
        assert!(matches!(format!("127.0.0.1:1/a@{digest}").parse(), Ok(From::Registry(_))));
        for wrong in ["oci-layout:/a", "oci-layout:/a@v1", "127.0.0.1:1/a:v1", "127.0.0.1:1/a"] {
            assert!(wrong.parse::<From>().is_err(), "{wrong}");
        }
        assert!(matches!("oci-layout:/a".parse(), Ok(To::Layout(directory)) if directory == "/a"));
        assert!(format!("127.0.0.1:1/a@{digest}").parse::<To>().is_err());
    }
}
