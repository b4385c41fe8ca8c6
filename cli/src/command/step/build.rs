//! `fettle step build`

use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use fettle_model::{digest::Digest, name::StepKind};
use serde::Serialize;

use super::{
    Session,
    look::{self, Look},
};
use crate::{
    author::{
        build,
        cargo::{Metadata, Package},
        copy, provenance,
        record::{self, Record},
        sbom,
        source::Source,
        toolchain::{TARGET, Toolchain},
    },
    error::CommandError,
    output,
};

/// Builds a crate into a component, the same bytes from the same sources wherever it is done.
///
/// `Cargo.lock` is taken as it is. Variables of the environment and flags of this machine's
/// configuration do not reach the compiler, and directories are renamed in what it writes. Then the
/// component is asked what it is. Beside it are written its bill of materials (`.sbom.json`,
/// CycloneDX) and its provenance (`.provenance.json`, SLSA), which `fettle step publish` signs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step build steps/file-render
  fettle step build -p fettle-step-file-render
  fettle step build --check-reproducible --json

The crate's workspace needs a profile `step`:
  [profile.step]
  inherits = \"release\"
  opt-level = \"s\"
  lto = true
  codegen-units = 1
  panic = \"abort\"
  strip = true")]
pub struct Build {
    /// The crate's directory.
    #[arg(value_name = "DIR", default_value = ".", conflicts_with = "package")]
    directory: PathBuf,
    /// A package of the workspace in this directory.
    #[arg(short, long)]
    package: Option<String>,
    /// Build a second time from a copy in another directory, and fail when the bytes differ.
    #[arg(long)]
    check_reproducible: bool,
    #[command(flatten)]
    builder: Builder,
}

/// Who builds.
#[derive(Clone, Debug, Args)]
pub(super) struct Builder {
    /// Who builds, for the provenance: a URI that others know this builder by.
    #[arg(long, env = "FETTLE_BUILDER_ID", value_name = "URI", default_value = provenance::LOCAL_BUILDER)]
    builder_id: String,
}

/// What was built.
#[derive(Debug, Serialize)]
struct Built {
    path: PathBuf,
    size: u64,
    digest: Digest,
    kind: StepKind,
    target: &'static str,
    toolchain: String,
    commit: Option<String>,
    sbom: PathBuf,
    provenance: PathBuf,
    /// Absent when it was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    reproducible: Option<bool>,
}

impl Build {
    /// The build of a crate as the options of `step build` have it.
    pub(super) fn of(directory: &Path, builder: Builder) -> Self {
        Self { directory: directory.to_owned(), package: None, check_reproducible: false, builder }
    }

    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let (built, seen) = self.component().await?;
        session.show(&built, text)?;
        seen.check(&built.path)
    }

    /// Builds the component that [`Self::run`] builds, and answers it when it could be published.
    pub(super) async fn publishable(&self) -> Result<(PathBuf, Bytes), CommandError> {
        let (built, seen) = self.component().await?;
        seen.check(&built.path)?;
        let content = look::read(&built.path).await?;
        Ok((built.path, content))
    }

    async fn component(&self) -> Result<(Built, Look), CommandError> {
        if !self.directory.is_dir() {
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such directory");
            return Err(CommandError::Read { path: self.directory.clone(), source });
        }
        let toolchain = Toolchain::of(&self.directory).await?;
        let metadata = Metadata::locked(&self.directory).await?;
        let package = metadata.step(&self.directory, self.package.as_deref())?;
        let source = Source::of(&metadata.workspace_root).await?;
        if source.changed {
            output::remark("warning: files differ from the commit, so the provenance names none");
        }
        let path = build::build(&metadata, package, &toolchain, &source, &metadata.target_directory).await?;
        let content = look::read(&path).await?;
        for directory in build::leaks(&content, &metadata, &toolchain, &metadata.target_directory) {
            output::remark(&format!("warning: the component names {} of this machine", directory.display()));
        }
        if self.check_reproducible {
            build_elsewhere(&metadata, package, &toolchain, &source, &path, &content).await?;
        }
        let seen = look::look(&path, content).await?;
        let sbom = sbom::write(&metadata, package, seen.digest)?;
        let made = provenance::Built {
            package: &package.name,
            component: seen.digest,
            sbom: Digest::of(&sbom),
            toolchain: &toolchain,
            source: &source,
            builder: &self.builder.builder_id,
        };
        let provenance = format!("{:#}\n", provenance::predicate(&made)).into_bytes();
        Record { sbom, provenance }.write(&path)?;
        let (sbom, provenance) = record::paths(&path);
        let built = Built {
            size: seen.size,
            digest: seen.digest,
            kind: seen.descriptor.kind.clone(),
            target: TARGET,
            toolchain: toolchain.rustc.clone(),
            commit: source.commit.clone(),
            sbom,
            provenance,
            reproducible: self.check_reproducible.then_some(true),
            path,
        };
        Ok((built, seen))
    }
}

fn text(built: &Built) -> String {
    let mut rows = vec![
        ("path", built.path.display().to_string()),
        ("size", output::bytes(built.size)),
        ("digest", built.digest.to_string()),
        ("kind", built.kind.to_string()),
        ("target", built.target.to_owned()),
        ("toolchain", built.toolchain.clone()),
        ("commit", built.commit.clone().unwrap_or_else(|| "none".to_owned())),
    ];
    if built.reproducible == Some(true) {
        rows.push(("again", "the same bytes from a copy in another directory".to_owned()));
    }
    rows.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}

/// Builds from a copy of the workspace in another directory, and compares.
async fn build_elsewhere(
    metadata: &Metadata,
    package: &Package,
    toolchain: &Toolchain,
    source: &Source,
    path: &Path,
    content: &[u8],
) -> Result<(), CommandError> {
    let copied = copy::beside(&metadata.workspace_root, &metadata.target_directory)?;
    // Links in the way to a temporary directory would be written in the component as they are.
    let root = copied.path().canonicalize();
    let root = root.map_err(|source| CommandError::Read { path: copied.path().to_owned(), source })?;
    let there = Metadata::locked(&root).await?;
    let again = there.step(&root, Some(&package.name))?;
    let built = build::build(&there, again, toolchain, source, &root.join("target")).await?;
    let second = look::read(&built).await?;
    if second == content {
        return Ok(());
    }
    let differ = content.iter().zip(second.iter()).position(|(one, other)| one != other);
    let at = differ.unwrap_or(content.len().min(second.len()));
    Err(CommandError::Refused {
        path: path.to_owned(),
        reason: format!(
            "the same sources gave {} here and {} in another directory, from byte {at} on; look for a build script or a \
             macro that reads a path, the time or the machine, and for dependencies by path outside of the workspace",
            Digest::of(content),
            Digest::of(&second)
        ),
    })
}
