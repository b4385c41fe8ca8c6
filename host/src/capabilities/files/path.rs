//! Paths that a step names: `root/below/it`, opened without leaving the root and without links.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, mkdirat, openat2},
    io::Errno,
};

use super::{Error, Root, error_of};

/// A path of the right form. Says nothing yet about what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePath {
    root: String,
    parts: Vec<String>,
}

/// Nothing above the directory, no link at any level.
pub(super) const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl NodePath {
    /// Reads the text form.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('/') {
            return Err("is absolute; write `root/name`, where the node's policy says which directory the root is");
        }
        if text.len() > 1024 {
            return Err("is longer than 1024 bytes");
        }
        let mut parts = text.split('/').map(str::to_owned);
        let root = parts.next().unwrap_or_default();
        let parts: Vec<String> = parts.collect();
        if parts.iter().any(|part| part == ".." || part == ".") || root.starts_with('.') {
            return Err("holds `.` or `..`; write the path without them");
        }
        if root.is_empty() || parts.iter().any(String::is_empty) {
            return Err("has an empty part; write `root/name` without double or trailing slashes");
        }
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("holds a control character");
        }
        if parts.iter().any(|part| part.len() > 255) {
            return Err("has a part longer than 255 bytes");
        }
        Ok(Self { root, parts })
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The path below its root; `.` for the root itself.
    pub(crate) fn relative(&self) -> String {
        if self.parts.is_empty() { ".".to_owned() } else { self.parts.join("/") }
    }

    /// Opens what is there.
    pub(crate) fn open(&self, root: &Root, flags: OFlags) -> Result<OwnedFd, Error> {
        // Never block on a FIFO that someone put there; a descriptor that only names a file never does.
        let careful = if flags.contains(OFlags::PATH) { OFlags::NOFOLLOW } else { OFlags::NOFOLLOW | OFlags::NONBLOCK };
        let flags = flags | careful | OFlags::CLOEXEC;
        openat2(root.descriptor(), self.relative(), flags, Mode::empty(), RESOLVE).map_err(error_of)
    }

    /// The directory it is in and its name there. Without `make`, none when the directory is missing.
    pub(crate) fn parent(&self, root: &Root, make: bool) -> Result<Option<(OwnedFd, &str)>, Error> {
        let Some((name, directories)) = self.parts.split_last() else {
            return Err(Error::InvalidPath("names a root and no file in it".to_owned()));
        };
        // Without NOFOLLOW: RESOLVE refuses links too, and says that it was one.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let mut directory = openat2(root.descriptor(), ".", flags, Mode::empty(), RESOLVE).map_err(error_of)?;
        for part in directories {
            directory = match openat2(&directory, part.as_str(), flags, Mode::empty(), RESOLVE) {
                Ok(found) => found,
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(Errno::NOENT) => {
                    match mkdirat(&directory, part.as_str(), Mode::from_raw_mode(0o755)) {
                        // Another step of the same task may have made it meanwhile.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(error_of(errno)),
                    }
                    openat2(&directory, part.as_str(), flags, Mode::empty(), RESOLVE).map_err(error_of)?
                }
                Err(Errno::NOTDIR) if make => {
                    return Err(Error::InvalidPath(format!("leads through `{part}`, which is no directory")));
                }
                Err(errno) => return Err(error_of(errno)),
            };
        }
        Ok(Some((directory, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_form() {
        let path = NodePath::parse("models/a/b.bin").unwrap();
        assert_eq!((path.root(), path.relative().as_str()), ("models", "a/b.bin"));
        for (wrong, rule) in [
            ("/etc/passwd", "is absolute"),
            ("models/../etc", "`..`"),
            ("models/./a", "`.`"),
            ("../models", "`..`"),
            ("models//a", "empty part"),
            ("models/", "empty part"),
            ("", "empty part"),
            ("models/a\nb", "control character"),
        ] {
            let error = NodePath::parse(wrong).unwrap_err();
            assert!(error.contains(rule), "{wrong}: {error}");
        }
    }
}
