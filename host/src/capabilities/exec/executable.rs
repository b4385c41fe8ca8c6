//! The file that a profile names: opened, looked at, and executed as what was looked at.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
};

use fettle_model::policy::{CommandProfile, starts_programs};
use sha2::{Digest as _, Sha256};

/// Opens the executable and checks it. Answers the very file to execute when the profile demands a SHA-256.
pub(super) fn check(profile: &CommandProfile) -> Result<Option<OwnedFd>, String> {
    let path = &profile.command;
    let opened = File::options().read(true).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(path);
    let mut file = match (opened, &profile.sha256) {
        (Ok(file), _) => file,
        // What may be executed but not read is started by its path.
        (Err(error), None) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        (Err(error), _) => return Err(format!("{path} cannot be used: {error}")),
    };
    check_name(path, &file)?;
    let Some(expected) = &profile.sha256 else { return Ok(None) };
    check_unchanging(path, &file)?;
    let found = hash(&mut file).map_err(|error| format!("{path} cannot be read to check its SHA-256: {error}"))?;
    if found != expected.to_lowercase() {
        return Err(format!(
            "{path} has SHA-256 {found}, and its profile demands {expected}; the executable was changed, or the \
             profile is out of date"
        ));
    }
    Ok(Some(file.into()))
}

/// A link can lead to what a profile may not name.
fn check_name(path: &str, file: &File) -> Result<(), String> {
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|error| format!("where {path} leads cannot be seen: {error}"))?;
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if starts_programs(&name) && !path.ends_with(&format!("/{name}")) {
        return Err(format!(
            "{path} leads to {}, which is a shell or starts other programs; name the program itself",
            real.display()
        ));
    }
    Ok(())
}

/// A hash says something only about a file that nobody else can write, and that the kernel itself runs.
fn check_unchanging(path: &str, file: &File) -> Result<(), String> {
    let metadata = file.metadata().map_err(|error| format!("{path} cannot be looked at: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("{path} is not a regular file"));
    }
    let own = rustix::process::geteuid().as_raw();
    if metadata.mode() & 0o022 != 0 || (metadata.uid() != 0 && metadata.uid() != own) {
        return Err(format!(
            "{path} can be changed by others while it is checked: its owner is {}, its mode {:o}; make it root's, mode 755",
            metadata.uid(),
            metadata.mode() & 0o7777
        ));
    }
    Ok(())
}

fn hash(file: &mut File) -> Result<String, String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut start = [0; 2];
    file.read_exact(&mut start).map_err(|error| error.to_string())?;
    if start == *b"#!" {
        return Err("it is a script, and its SHA-256 says nothing of the interpreter that would run it; name a \
                    program, or leave the SHA-256 out"
            .to_owned());
    }
    file.rewind().map_err(|error| error.to_string())?;
    loop {
        let count = file.read(&mut buffer).map_err(|error| error.to_string())?;
        match buffer.get(..count) {
            Some(chunk) if count > 0 => hasher.update(chunk),
            _ => return Ok(hex::encode(hasher.finalize())),
        }
    }
}
