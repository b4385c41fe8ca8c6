//! From a command profile to a program that can be started.

use std::{collections::BTreeMap, io::Read as _, path::PathBuf, time::Duration};

use fettle_model::{command::Argument, policy::CommandProfile};
use sha2::{Digest as _, Sha256};

use super::{Program, absolute, leftovers, users};

/// Looks up users, resolves paths and checks the executable.
pub(super) fn build(
    profile: &CommandProfile,
    vector: Vec<Argument>,
    roots: &BTreeMap<String, PathBuf>,
    attempt: &str,
) -> Result<Program, String> {
    if let Some(expected) = &profile.sha256 {
        check_executable(&profile.command, expected)?;
    }
    let mut arguments = Vec::with_capacity(vector.len());
    for argument in vector {
        arguments.push(match argument {
            Argument::Literal(text) => text,
            Argument::Path(path) => absolute(&path, roots)?,
        });
    }
    let mut environment = profile.environment.clone();
    for name in &profile.env_passthrough {
        if let Ok(value) = std::env::var(name) {
            environment.insert(name.clone(), value);
        }
    }
    environment.insert(leftovers::MARK.to_owned(), attempt.to_owned());
    let user = match &profile.user {
        Some(name) => Some(users::user(name).ok_or_else(|| {
            format!("profile `{}` runs as user `{name}`, and this node has none of that name", profile.id)
        })?),
        None => None,
    };
    Ok(Program {
        executable: profile.command.clone(),
        arguments,
        environment,
        user,
        directory: profile.working_directory.clone().unwrap_or_else(|| "/".to_owned()),
        timeout: Duration::from_secs(profile.timeout_seconds.into()),
        capture_stdout: if profile.capture_stdout { profile.capture_limit_bytes as usize } else { 0 },
        capture_stderr: if profile.capture_stderr { profile.capture_limit_bytes as usize } else { 0 },
    })
}

fn check_executable(path: &str, expected: &str) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("{path} cannot be read to check its SHA-256: {error}");
    let mut file = std::fs::File::open(path).map_err(cannot)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = file.read(&mut buffer).map_err(cannot)?;
        match buffer.get(..count) {
            Some(chunk) if count > 0 => hasher.update(chunk),
            _ => break,
        }
    }
    let found = hex::encode(hasher.finalize());
    if found == expected.to_lowercase() {
        Ok(())
    } else {
        Err(format!(
            "{path} has SHA-256 {found}, and its profile demands {expected}; the executable was changed, or the profile is out of date"
        ))
    }
}
