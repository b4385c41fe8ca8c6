//! From layers to files, with every rule checked before a byte is fetched.

use std::collections::BTreeSet;

use fettle_step::Failure;

use crate::{
    input::{File, Input, Output},
    manifest::Layer,
    reference::is_digest,
};

const TITLE: &str = "org.opencontainers.image.title";

/// The files that `layers` become.
pub(crate) fn of(input: &Input, digest: &str, layers: &[Layer]) -> Result<Output, Failure> {
    let mut names = BTreeSet::new();
    let mut size = 0_u64;
    let mut files = Vec::with_capacity(layers.len());
    for layer in layers {
        check(input, layer)?;
        let name = name(layer)?;
        if !names.insert(name) {
            return Err(refuse(
                "duplicate-title",
                format!("two layers have the title `{name}`; each file needs its own"),
            ));
        }
        size = size
            .checked_add(layer.size)
            .ok_or_else(|| refuse("size", "the layers' sizes are no real sizes".to_owned()))?;
        let path = format!("{}/{name}", input.destination);
        files.push(File { path, digest: layer.digest.clone(), size: layer.size });
    }
    check_nesting(&names)?;
    if let Some(limit) = input.max_size_bytes.filter(|limit| size > *limit) {
        let message =
            format!("its files hold {size} bytes, more than the `max_size_bytes` of {limit}; nothing was fetched");
        return Err(refuse("too-large", message));
    }
    Ok(Output { path: input.destination.clone(), digest: digest.to_owned(), size, files })
}

fn check(input: &Input, layer: &Layer) -> Result<(), Failure> {
    if !is_digest(&layer.digest) {
        return Err(refuse("digest", format!("the layer digest `{}` is no SHA-256", layer.digest)));
    }
    if !layer.urls.is_empty() {
        let message =
            format!("the layer {} lies outside of the registry (`urls`); push it with its content", layer.digest);
        return Err(refuse("foreign-layer", message));
    }
    if let Some(allowed) = input.media_types.as_ref().filter(|allowed| !allowed.contains(&layer.media_type)) {
        let message = format!(
            "the layer {} is of type `{}`; `media_types` allows {}",
            layer.digest,
            layer.media_type,
            allowed.join(", ")
        );
        return Err(refuse("media-type", message));
    }
    Ok(())
}

/// The layer's title, else the hexadecimal part of its digest.
fn name(layer: &Layer) -> Result<&str, Failure> {
    let Some(title) = layer.annotations.get(TITLE) else {
        return Ok(layer.digest.trim_start_matches("sha256:"));
    };
    match broken_rule(title) {
        None => Ok(title),
        Some(rule) => {
            let shown: String = title.escape_debug().take(200).collect();
            Err(refuse("unsafe-title", format!("the layer {} has the title `{shown}`, which {rule}", layer.digest)))
        }
    }
}

/// The rule for paths that `title` breaks.
fn broken_rule(title: &str) -> Option<&'static str> {
    if title.starts_with('/') {
        return Some("is absolute");
    }
    if title.contains('\\') || title.chars().any(char::is_control) {
        return Some("holds a backslash or a control character");
    }
    if title.len() > 1024 || title.split('/').any(|part| part.len() > 255) {
        return Some("is too long");
    }
    title.split('/').any(|part| matches!(part, "" | "." | "..")).then_some("holds an empty name, `.` or `..`")
}

/// No layer's file may be another's directory.
fn check_nesting(names: &BTreeSet<&str>) -> Result<(), Failure> {
    for name in names {
        let mut parents = name.match_indices('/').map(|(end, _)| name.split_at(end).0);
        if let Some(parent) = parents.find(|parent| names.contains(parent)) {
            let message = format!("the title `{parent}` is a file and, for `{name}`, a directory; it cannot be both");
            return Err(refuse("nested-title", message));
        }
    }
    Ok(())
}

fn refuse(code: &str, message: String) -> Failure {
    Failure::permanent(format!("artifact.{code}"), format!("the artifact is refused: {message}"))
}
