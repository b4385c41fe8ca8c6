//! What interrupted transfers left below the roots of a task that did not succeed.

use std::path::Path;

use super::preflight::Prepared;
use crate::capabilities::Node;

/// Depth below a granted path that is looked at.
const DEPTH: usize = 16;

/// Removes unfinished files below everything that the task was allowed to write, except where another
/// task is fetching right now.
pub(super) async fn partial_files(node: &Node, prepared: &Prepared) {
    let mut directories = Vec::new();
    for grant in prepared.plan.steps.iter().filter_map(|step| step.grants.files.as_ref()) {
        for entry in &grant.write {
            let (root, below) = entry.split_once('/').unwrap_or((entry, ""));
            let found = prepared.policy.roots.iter().find(|(name, _)| name.as_str() == root);
            directories.extend(found.map(|(_, directory)| node.files_directory.join(directory).join(below)));
        }
    }
    let unfinished = node.transfers.unfinished.clone();
    let sweep = move || {
        for directory in directories {
            remove_below(&directory, DEPTH, &|directory| unfinished.is_busy(directory));
        }
    };
    let _ = tokio::task::spawn_blocking(sweep).await;
}

fn remove_below(directory: &Path, depth: usize, is_busy: &dyn Fn(&Path) -> bool) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            remove_below(&entry.path(), depth - 1, is_busy);
        } else if kind.is_file()
            && entry.file_name().to_string_lossy().ends_with(".fettle-partial")
            && !is_busy(directory)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
