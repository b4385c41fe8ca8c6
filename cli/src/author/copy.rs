//! Sources in another directory, to see whether they build the same there.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ignore::WalkBuilder;
use tempfile::TempDir;

use crate::error::CommandError;

/// A copy of a directory: all that git would keep, and so all that the same commit has elsewhere. It goes
/// when it is dropped. It stands beside the original, so that `../sdk` is still found.
///
/// # Errors
/// When it cannot be read or written.
pub fn beside(original: &Path, target_directory: &Path) -> Result<TempDir, CommandError> {
    let parent = original.parent().unwrap_or(original);
    let named = |name: &'static str| {
        let mut builder = tempfile::Builder::new();
        builder.prefix(name);
        builder
    };
    let copy =
        named(".fettle-built-elsewhere-").tempdir_in(parent).or_else(|_| named("fettle-built-elsewhere-").tempdir());
    let copy = copy.map_err(|source| CommandError::Write { path: parent.to_owned(), source })?;
    copy_into(original, copy.path(), target_directory)?;
    Ok(copy)
}

fn copy_into(original: &Path, copy: &Path, left_out: &Path) -> Result<(), CommandError> {
    let left_out: PathBuf = left_out.to_owned();
    let mut walk = WalkBuilder::new(original);
    // A commit is the same whatever else one machine ignores.
    walk.hidden(false).ignore(false).git_global(false).git_exclude(false).parents(false).require_git(false);
    walk.filter_entry(move |entry| entry.path() != left_out && entry.file_name() != ".git");
    for entry in walk.build() {
        let read = |error: ignore::Error| CommandError::Read {
            path: original.to_owned(),
            source: error.into_io_error().unwrap_or_else(|| io::Error::other("a rule in .gitignore cannot be read")),
        };
        let entry = entry.map_err(read)?;
        let Ok(relative) = entry.path().strip_prefix(original) else { continue };
        let to = copy.join(relative);
        let kind = entry.file_type();
        let copied = if kind.is_some_and(|kind| kind.is_dir()) {
            fs::create_dir_all(&to)
        } else if kind.is_some_and(|kind| kind.is_symlink()) {
            fs::read_link(entry.path()).and_then(|link| std::os::unix::fs::symlink(link, &to))
        } else {
            fs::copy(entry.path(), &to).map(drop)
        };
        copied.map_err(|source| CommandError::Write { path: to, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_git_would_keep() {
        let parent = tempfile::tempdir().unwrap();
        let original = parent.path().join("step");
        for directory in [".git", ".cargo", "src", "built/deep", "target"] {
            fs::create_dir_all(original.join(directory)).unwrap();
        }
        for file in
            [".git/HEAD", ".cargo/config.toml", "src/lib.rs", "built/deep/a.wasm", "target/x", "kept", "notes.txt"]
        {
            fs::write(original.join(file), file).unwrap();
        }
        fs::write(original.join(".gitignore"), "*.wasm\nnotes.txt\n").unwrap();
        std::os::unix::fs::symlink("kept", original.join("link")).unwrap();
        let copy = beside(&original, &original.join("target")).unwrap();
        assert_eq!(copy.path().parent(), original.parent());
        for there in [".cargo/config.toml", "src/lib.rs", "kept", ".gitignore"] {
            assert_eq!(fs::read(copy.path().join(there)).unwrap(), fs::read(original.join(there)).unwrap());
        }
        assert_eq!(fs::read_link(copy.path().join("link")).unwrap(), Path::new("kept"));
        for absent in [".git", "target", "built/deep/a.wasm", "notes.txt"] {
            assert!(!copy.path().join(absent).exists(), "{absent}");
        }
    }
}
