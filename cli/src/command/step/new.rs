//! `fettle step new`

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use fettle_model::{descriptor, grant::Capability, name::StepKind};
use serde::Serialize;

use super::Session;
use crate::{
    author::{cargo, crate_name::CrateName, template::NewStep},
    error::CommandError,
    output,
};

/// Makes the crate of a new step: one plain function, its tests, its table of cases, and all that builds,
/// tests and publishes it. It builds, and its tests and cases pass, as it is.
///
/// Without `--capability` a step that observes gets `facts`, one that converges `files`, one that
/// consumes `exec`. A directory that exists is never touched.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step new greeting --kind acme.greeting@v1 --sdk-path ~/fettle/steps/sdk
  fettle step new gpu-count --kind acme.gpu.count@v1 --effect observe \\
      --capability gpu --capability files \\
      --sdk-git https://git.example.com/fettle --sdk-rev 4f2a91c")]
pub struct New {
    /// Name of the crate, and of the directory that is made.
    name: CrateName,
    /// The step kind: dotted words and a version, `acme.thing@v1`.
    #[arg(long)]
    kind: StepKind,
    /// What running it does to a node.
    #[arg(long, value_enum, default_value_t = Effect::Converge)]
    effect: Effect,
    /// What it asks the node for. Repeatable.
    #[arg(long, value_name = "NAME", value_parser = capability)]
    capability: Vec<Capability>,
    /// Where the directory is made.
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    parent: PathBuf,
    #[command(flatten)]
    sdk: Sdk,
    /// The commit of the SDK's git repository.
    #[arg(long, value_name = "COMMIT", requires = "sdk_git", value_parser = revision)]
    sdk_rev: Option<String>,
}

/// Where the SDK is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false, id = "sdk")]
struct Sdk {
    /// The SDK in a clone of Fettle: its directory `steps/sdk`.
    #[arg(long, value_name = "DIR")]
    sdk_path: Option<PathBuf>,
    /// The SDK in a git repository.
    #[arg(long, value_name = "URL", value_parser = git_url)]
    sdk_git: Option<String>,
}

/// What running a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Effect {
    /// Reads only.
    Observe,
    /// Makes its own probe satisfied; safe to repeat.
    Converge,
    /// May not be repeated.
    Consume,
}

/// What was made.
#[derive(Serialize)]
struct Made {
    directory: PathBuf,
    kind: StepKind,
    files: Vec<&'static str>,
    /// Whether there is a `Cargo.lock`.
    locked: bool,
}

impl New {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let step = self.step()?;
        let files = step.files().map_err(|error| CommandError::Build {
            problem: format!("the template is broken: {error:#}"),
            fix: "report it; this should not be".to_owned(),
        })?;
        let parent = self.parent.strip_prefix(".").unwrap_or(&self.parent);
        let directory = parent.join(self.name.as_str());
        write(&directory, &files)?;
        cargo::format(&directory).await;
        let lock = self.sdk.sdk_path.as_deref().and_then(lock_beside);
        let locked = cargo::lock(&directory, lock.as_deref()).await;
        if let Err(error) = &locked {
            output::remark(&format!("warning: there is no Cargo.lock yet: {error}"));
        }
        let files = files.iter().map(|(path, _)| *path).collect();
        let made = Made { directory, kind: self.kind.clone(), files, locked: locked.is_ok() };
        session.show(&made, |made| {
            let directory = made.directory.display();
            format!(
                "{directory} holds {}\n\n  cd {directory}\n  cargo test          # against a fake node\n  fettle step test    \
                 # builds the component and runs cases.yaml in the sandbox\n  git init && git add --all && git commit\n",
                made.kind
            )
        })
    }

    fn step(&self) -> Result<NewStep, CommandError> {
        let named = &self.capability;
        let mut capabilities: Vec<Capability> =
            Capability::ALL.into_iter().filter(|capability| named.contains(capability)).collect();
        if capabilities.is_empty() {
            capabilities.push(match self.effect {
                Effect::Observe => Capability::Facts,
                Effect::Converge => Capability::Files,
                Effect::Consume => Capability::Exec,
            });
        }
        if self.effect == Effect::Converge && !capabilities.contains(&Capability::Files) {
            return Err(CommandError::Missing {
                problem: "a step that converges can tell whether its state holds; what this template keeps is a file"
                    .to_owned(),
                fix: "add `--capability files`, or start from `--effect observe` and write `probe` yourself".to_owned(),
            });
        }
        let effect = match self.effect {
            Effect::Observe => descriptor::Effect::Observe,
            Effect::Converge => descriptor::Effect::Converge,
            Effect::Consume => descriptor::Effect::Consume,
        };
        let (name, kind, sdk) = (self.name.clone(), self.kind.clone(), self.sdk.dependency(self.sdk_rev.as_deref())?);
        Ok(NewStep { name, kind, effect, capabilities, sdk })
    }
}

impl Sdk {
    /// The dependency, as a line of `Cargo.toml`.
    fn dependency(&self, revision: Option<&str>) -> Result<String, CommandError> {
        if let Some(url) = &self.sdk_git {
            let revision = revision.map(|revision| format!(", rev = \"{revision}\"")).unwrap_or_default();
            return Ok(format!("git = \"{url}\"{revision}"));
        }
        let path = self.sdk_path.clone().unwrap_or_default();
        let found = fs::read_to_string(path.join("Cargo.toml")).and_then(|text| Ok((text, path.canonicalize()?)));
        let (manifest, path) = found.map_err(|source| CommandError::Read { path: path.join("Cargo.toml"), source })?;
        let path = path
            .to_str()
            .filter(|path| !path.contains(['"', '\\']))
            .filter(|_| manifest.contains("name = \"fettle-step\""));
        let path = path.ok_or_else(|| CommandError::Missing {
            problem: format!("{} is not the SDK", self.sdk_path.clone().unwrap_or_default().display()),
            fix: "name the directory `steps/sdk` of a clone of Fettle, on a path without quotes".to_owned(),
        })?;
        Ok(format!("path = \"{path}\""))
    }
}

/// The versions that the SDK was tested with.
fn lock_beside(sdk: &Path) -> Option<PathBuf> {
    let sdk = sdk.canonicalize().ok()?;
    sdk.ancestors().map(|directory| directory.join("Cargo.lock")).find(|path| path.is_file())
}

/// Makes the directory, which must not be there, and everything in it. What could not be made whole is
/// taken away again: all of it was made here.
fn write(directory: &Path, files: &[(&str, String)]) -> Result<(), CommandError> {
    fs::create_dir(directory).map_err(|source| {
        let source = if source.kind() == io::ErrorKind::AlreadyExists {
            io::Error::new(source.kind(), "it exists already; choose another name, or another directory with --in")
        } else {
            source
        };
        CommandError::Write { path: directory.to_owned(), source }
    })?;
    for (relative, content) in files {
        let path = directory.join(relative);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
        if let Err(source) = made {
            let _ = fs::remove_dir_all(directory);
            return Err(CommandError::Write { path, source });
        }
    }
    Ok(())
}

fn capability(text: &str) -> Result<Capability, String> {
    let names = || Capability::ALL.map(Capability::name).join(", ");
    let found = Capability::ALL.into_iter().find(|capability| capability.name() == text);
    found.ok_or_else(|| format!("there is no capability `{text}`; there are {}", names()))
}

fn git_url(text: &str) -> Result<String, String> {
    let is_url = reqwest::Url::parse(text).is_ok_and(|url| ["https", "ssh", "file"].contains(&url.scheme()));
    // It is written between quotes.
    if is_url && !text.contains(['"', '\\', '\n']) {
        return Ok(text.to_owned());
    }
    Err("write a URL of a git repository: https://, ssh:// or file://".to_owned())
}

fn revision(text: &str) -> Result<String, String> {
    let is_commit = (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { Ok(text.to_owned()) } else { Err("write the commit in hexadecimal digits".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_capability_is_an_error_that_lists_the_valid_ones() {
        assert_eq!(capability("files"), Ok(Capability::Files));
        let error = capability("shell").unwrap_err();
        assert!(Capability::ALL.iter().all(|capability| error.contains(capability.name())), "{error}");
    }

    #[test]
    fn a_directory_that_exists_is_not_touched() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("Cargo.toml"), "mine").unwrap();
        let error = write(&directory, &[("Cargo.toml", "theirs".to_owned())]).unwrap_err();
        assert!(matches!(error, CommandError::Write { .. }), "{error}");
        assert_eq!(fs::read_to_string(directory.join("Cargo.toml")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        // Nor what a link leads to, or a file.
        std::os::unix::fs::symlink(parent.path().join("nowhere"), parent.path().join("link")).unwrap();
        assert!(write(&parent.path().join("link"), &[]).is_err());
        assert!(!parent.path().join("nowhere").exists());
    }

    #[test]
    fn what_is_not_whole_is_taken_away() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a");
        assert!(write(&directory, &[("src", String::new()), ("src/lib.rs", String::new())]).is_err());
        assert!(!directory.exists());
    }

    #[test]
    fn urls_and_revisions_stay_between_their_quotes() {
        for bad in ["\"", "https://example.com/\"x", "not a url", "ftp://example.com/a"] {
            assert!(git_url(bad).is_err(), "{bad}");
        }
        assert!(git_url("https://git.example.com/fettle").is_ok());
        assert!(revision("main").is_err() && revision("4f2a91c").is_ok());
    }
}
