//! The context file: where the plane is, and what to speak to it with, so that nobody types it again.
//! `fettle dev` writes one.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::CommandError;

/// Names the context file.
pub const VARIABLE: &str = "FETTLE_CONTEXT";

/// What commands fall back to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Context {
    /// The program that wrote it, and that may replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_by: Option<String>,
    /// `http://host:port` of a plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plane: Option<String>,
    /// A bearer token for that plane, and for no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// `host:port` of a registry to publish to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// The key to sign with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The trust policy to verify with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<PathBuf>,
    /// The node to send operations to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where the token is from, when `fettle login` has left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
}

/// How a token was had, and how the next one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The OpenID provider.
    pub issuer: String,
    /// This program, as the provider knows it.
    pub client_id: String,
    /// What the next token is given for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When the token ends, if anybody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Context {
    /// Where the context file is: `FETTLE_CONTEXT`, else `fettle/context.json` in the user's
    /// configuration directory.
    #[must_use]
    pub fn path() -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        variable(VARIABLE).or_else(|| {
            let directory = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
            Some(directory.join("fettle/context.json"))
        })
    }

    /// Reads the context file; an empty context when there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn load() -> Result<Self, CommandError> {
        match Self::path() {
            Some(path) => Ok(Self::read(&path)?.unwrap_or_default()),
            None => Ok(Self::default()),
        }
    }

    /// Reads a context file, if it is there.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, CommandError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CommandError::Read { path: path.to_owned(), source }),
        };
        fettle_model::document::read(&text).map(Some).map_err(|source| CommandError::Document {
            path: path.to_owned(),
            what: "context file",
            source,
        })
    }

    /// Writes the file, for its owner only: it holds a token.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), CommandError> {
        let failed = |source| CommandError::Write { path: path.to_owned(), source };
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory).map_err(failed)?;
        let temporary = path.with_extension("json.new");
        let write = || -> io::Result<()> {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        };
        write().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_context_survives_its_file_which_only_its_owner_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/context.json");
        assert_eq!(Context::read(&path).unwrap(), None);
        let context = Context { token: Some("secret".to_owned()), ..Context::default() };
        context.write(&path).unwrap();
        assert_eq!(Context::read(&path).unwrap(), Some(context));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "{plnae: x}").unwrap();
        let error = Context::read(&path).unwrap_err();
        assert_eq!(error.exit(), crate::exit::Exit::Invalid);
    }
}
