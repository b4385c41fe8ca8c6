//! `artifact.pull_oci@v1`: pulls the files of an OCI artifact, by digest.
//!
//! Each layer becomes the file that its title names, its content as it is: nothing is unpacked.

mod input;
mod manifest;
mod plan;
mod reference;

use fettle_step::{
    Failure, Observation,
    files::{self, Kind},
    report,
    transfer::{self, Blob},
};
use input::{File, Input, Output};
use reference::Reference;

fettle_step::step! {
    kind: "artifact.pull_oci@v1",
    summary: "Pulls the files of an OCI artifact, by digest.",
    effect: Converge,
    requests: {
        transfer: "fetches the manifest and the layers from the registry",
        files: "compares the files with the manifest, and removes them on undo",
    },
    run: run,
    probe: probe,
    undo: undo,
}

fn run(input: &Input) -> Result<Output, Failure> {
    let reference = Reference::parse(&input.reference)?;
    let output = resolve(input, &reference)?;
    let blobs: Vec<Blob> = output.files.iter().map(blob).collect();
    let transferred = transfer::pull_blobs(reference.repository, &blobs)?;
    let present = transferred.iter().filter(|blob| blob.present).count();
    let bytes: u64 = transferred.iter().map(|blob| blob.bytes).sum();
    let resumed: u64 = transferred.iter().map(|blob| blob.resumed).sum();
    report::info(&format!(
        "pulled {} files, {bytes} bytes over the network; {present} were there, {resumed} bytes were left by an earlier attempt",
        blobs.len()
    ));
    Ok(output)
}

fn probe(input: &Input) -> Result<Observation<Output>, Failure> {
    let reference = Reference::parse(&input.reference)?;
    let output = resolve(input, &reference)?;
    let mut changes = Vec::new();
    for file in &output.files {
        match state(file)? {
            State::Right => {}
            State::Missing => changes.push(format!("would fetch {} ({} bytes)", file.path, file.size)),
            State::Different => changes.push(format!("would replace {} ({} bytes)", file.path, file.size)),
        }
    }
    if changes.is_empty() {
        return Ok(Observation::Satisfied(output));
    }
    Ok(Observation::Unsatisfied(changes.join("\n")))
}

/// Removes the files that still hold what was pulled; one that was changed since belongs to somebody else.
fn undo(input: &Input, output: Option<&Output>) -> Result<(), Failure> {
    let files = match output {
        Some(output) => output.files.clone(),
        None => resolve(input, &Reference::parse(&input.reference)?)?.files,
    };
    for file in &files {
        match state(file)? {
            State::Right => drop(files::remove(&file.path)?),
            State::Missing => {}
            State::Different => {
                report::warn(&format!("left {} as it is: its content is not what was pulled", file.path))
            }
        }
    }
    Ok(())
}

/// What the artifact's manifest says there should be.
fn resolve(input: &Input, reference: &Reference<'_>) -> Result<Output, Failure> {
    if let Some(credential) = &input.credential {
        transfer::authorize(credential)?;
    }
    let manifest = transfer::pull_manifest(&input.reference)?;
    plan::of(input, reference.digest, &manifest::layers(&manifest)?)
}

fn blob(file: &File) -> Blob {
    Blob { digest: file.digest.clone(), size: file.size, destination: file.path.clone() }
}

enum State {
    Right,
    Missing,
    Different,
}

fn state(file: &File) -> Result<State, Failure> {
    let Some(metadata) = files::stat(&file.path)? else {
        return Ok(State::Missing);
    };
    if metadata.kind != Kind::Regular {
        let message =
            format!("`{}` is there and is no regular file; remove it or choose another destination", file.path);
        return Err(Failure::permanent("file.not-regular", message));
    }
    // Hashing a large file takes seconds; a wrong size is known at once.
    if metadata.size != file.size {
        return Ok(State::Different);
    }
    Ok(match files::digest(&file.path)? {
        Some(digest) if digest == file.digest => State::Right,
        Some(_) => State::Different,
        None => State::Missing,
    })
}

#[cfg(test)]
mod tests;
