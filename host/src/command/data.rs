//! The data directory of a host.

use std::path::Path;

use anyhow::Context as _;

/// Makes the directory, for this user only.
pub(super) fn make_private(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("the data directory {} cannot be made", directory.display()))?;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
        .with_context(|| format!("the data directory {} belongs to another user", directory.display()))
}

/// One host at a time: two would run the same tasks from the same journal.
pub(super) fn lock(data: &Path) -> anyhow::Result<std::fs::File> {
    let path = data.join("host.lock");
    let file = std::fs::File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).with_context(|| {
        format!("another host runs in {}; stop it, or give this one a data directory of its own", data.display())
    })?;
    Ok(file)
}

/// What marks the processes of this host, across restarts.
pub(super) fn host_id(data: &Path) -> anyhow::Result<String> {
    let path = data.join("host-id");
    if let Ok(known) = std::fs::read_to_string(&path)
        && known.len() == 32
    {
        return Ok(known);
    }
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    let id = hex::encode(bytes);
    std::fs::write(&path, &id).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(id)
}

/// The key in this file, which this user alone may read; a new one where there is none.
pub(super) fn kept_key(path: &Path) -> anyhow::Result<[u8; 32]> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    match std::fs::read(path) {
        Ok(known) => {
            return <[u8; 32]>::try_from(known)
                .map_err(|_| anyhow::anyhow!("{} is damaged; remove it", path.display()));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
    let key = fresh_key()?;
    let temporary = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&key)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(key)
}

/// A new key, for whoever has none yet.
pub(super) fn fresh_key() -> std::io::Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(key)
}
