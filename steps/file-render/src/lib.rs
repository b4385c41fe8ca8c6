//! `file.render@v1`: renders a template into a file.
//!
//! It has no undo: what the file held before is not kept anywhere, so nothing could be put back.

mod difference;
mod input;
mod template;

use fettle_step::{
    CallError, Failure, Observation,
    files::{self, Attributes, Kind, Metadata},
};
use input::{Input, Output};
use sha2::{Digest, Sha256};

fettle_step::step! {
    kind: "file.render@v1",
    summary: "Renders a template into a file.",
    effect: Converge,
    requests: { files: "compares the file with what the template renders to, and writes it" },
    run: run,
    probe: probe,
}

fn run(input: &Input) -> Result<Output, Failure> {
    let content = template::render(&input.template, &input.values)?;
    let number = |id: u32| id.to_string();
    let attributes = Attributes { mode: input.mode.0, owner: input.owner.map(number), group: input.group.map(number) };
    files::write(&input.path, content.as_bytes(), attributes)?;
    Ok(output(input, &content))
}

fn probe(input: &Input) -> Result<Observation<Output>, Failure> {
    let content = template::render(&input.template, &input.values)?;
    let Some(metadata) = files::stat(&input.path)? else {
        return Ok(Observation::Unsatisfied(difference::of(&input.path, None, &content)));
    };
    if metadata.kind != Kind::Regular {
        let message = format!("`{}` is there and is no regular file; remove it or choose another path", input.path);
        return Err(Failure::permanent("file.not-regular", message));
    }
    let mut changes = attribute_changes(input, &metadata);
    changes.extend(content_change(input, &content)?);
    if changes.is_empty() {
        return Ok(Observation::Satisfied(output(input, &content)));
    }
    Ok(Observation::Unsatisfied(changes.join("\n")))
}

fn output(input: &Input, content: &str) -> Output {
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(content)));
    Output { path: input.path.clone(), digest, size: content.len() as u64 }
}

/// One line for each attribute that is not as asked for.
fn attribute_changes(input: &Input, metadata: &Metadata) -> Vec<String> {
    let mut changes = Vec::new();
    let mode = metadata.mode & 0o7777;
    if mode != input.mode.0 {
        changes.push(format!("mode {mode:04o} -> {:04o}", input.mode.0));
    }
    for (name, now, asked) in [("owner", metadata.user_id, input.owner), ("group", metadata.group_id, input.group)] {
        if let Some(asked) = asked.filter(|asked| *asked != now) {
            changes.push(format!("{name} {now} -> {asked}"));
        }
    }
    changes
}

fn content_change(input: &Input, content: &str) -> Result<Option<String>, Failure> {
    match files::read(&input.path, files::CONTENT_LIMIT) {
        Ok(old) if old == content.as_bytes() => Ok(None),
        Ok(old) => Ok(Some(difference::of(&input.path, Some(&old), content))),
        Err(CallError { cause: files::Error::TooLarge(limit), .. }) => {
            Ok(Some(format!("would replace {}, which is larger than {limit} bytes", input.path)))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
