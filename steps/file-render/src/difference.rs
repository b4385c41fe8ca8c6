//! What a render would change, for a person to read.

use similar::TextDiff;

/// Beyond this many lines the difference is counted, not shown: finding it would take too long.
const LINES: usize = 4_000;

/// A unified diff from `old` (none: no file) to `new`.
pub(crate) fn of(path: &str, old: Option<&[u8]>, new: &str) -> String {
    let Some(old) = old else {
        return unified("/dev/null", path, "", new);
    };
    match std::str::from_utf8(old) {
        Ok(old) => unified(path, path, old, new),
        Err(_) => format!("would replace {path}: {} bytes that are no text", old.len()),
    }
}

fn unified(from: &str, to: &str, old: &str, new: &str) -> String {
    let (before, after) = (old.lines().count(), new.lines().count());
    if before > LINES || after > LINES {
        return format!(
            "would replace {to}: {before} lines ({} bytes) by {after} lines ({} bytes)",
            old.len(),
            new.len()
        );
    }
    TextDiff::from_lines(old, new).unified_diff().context_radius(3).header(from, to).to_string()
}
