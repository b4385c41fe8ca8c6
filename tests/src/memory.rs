//! What of a secret is in a process, on disk, and in what all processes show of themselves.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// A mapping of a process in which a secret was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// `from-to permissions … name`, as the kernel shows it.
    pub mapping: String,
    /// The kernel's flags: `lo` is locked, `dd` is not dumped, `dc` is not inherited.
    pub flags: Vec<String>,
    /// KiB of it that are in memory or swapped out; the rest was never written.
    written: u64,
}

impl Found {
    /// Whether it is memory that is neither written to disk nor into a dump, nor inherited.
    #[must_use]
    pub fn is_kept_safely(&self) -> bool {
        ["lo", "dd", "dc"].iter().all(|flag| self.flags.iter().any(|found| found == flag))
    }
}

/// Where in the memory of a process these bytes are: all of it that can be read, as a debugger or a core dump of everything
/// would see it.
///
/// # Panics
/// When the memory of the process cannot be read; that takes root, for a host keeps debuggers out.
#[must_use]
pub fn in_process(id: u32, needle: &[u8]) -> Vec<Found> {
    let memory = File::open(format!("/proc/{id}/mem")).expect("the memory of the process can be read");
    mappings(id).into_iter().filter(|found| holds(&memory, &found.mapping, needle)).collect()
}

/// Readable mappings that are not files.
fn mappings(id: u32) -> Vec<Found> {
    let text = fs::read_to_string(format!("/proc/{id}/smaps")).expect("the mappings of the process can be read");
    let mut all: Vec<Found> = Vec::new();
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if first.contains('-') && !first.ends_with(':') {
            all.push(Found { mapping: line.to_owned(), flags: Vec::new(), written: 0 });
        } else if let (true, Some(last)) = (matches!(first, "Rss:" | "Swap:"), all.last_mut()) {
            last.written +=
                line.split_whitespace().nth(1).and_then(|size| size.parse::<u64>().ok()).unwrap_or_default();
        } else if let (Some(flags), Some(last)) = (line.strip_prefix("VmFlags:"), all.last_mut()) {
            last.flags = flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    all.retain(|found| {
        let fields: Vec<&str> = found.mapping.split_whitespace().collect();
        found.written > 0
            && fields[1].starts_with('r')
            && !found.mapping.ends_with("[vvar]")
            && !found.mapping.contains("[vsyscall]")
    });
    all
}

fn holds(memory: &File, mapping: &str, needle: &[u8]) -> bool {
    let (from, to) = mapping.split_whitespace().next().unwrap().split_once('-').unwrap();
    let [mut at, end] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
    let mut piece = vec![0; 1 << 20];
    while at < end {
        let wanted = usize::try_from(end - at).unwrap().min(piece.len());
        // A page that nobody has touched, or a mapping that went meanwhile.
        let Ok(read @ 1..) = memory.read_at(&mut piece[..wanted], at) else {
            at += 4096;
            continue;
        };
        if contains(&piece[..read], needle) {
            return true;
        }
        // The needle may lie across two pieces.
        let overlap = if at + (read as u64) < end { needle.len().min(read - 1) } else { 0 };
        at += (read - overlap) as u64;
    }
    false
}

fn contains(content: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(content, needle).is_some()
}

/// Files below a directory that hold these bytes.
#[must_use]
pub fn in_files(directory: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()));
        } else if metadata.is_file() && fs::read(&path).is_ok_and(|content| contains(&content, needle)) {
            found.push(path);
        }
    }
    found
}

/// Processes that show these bytes to whoever looks: in their arguments or their environment, each with the name of what
/// shows it.
#[must_use]
pub fn shown_by_processes(needle: &[u8]) -> Vec<(u32, &'static str)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        for what in ["cmdline", "environ"] {
            if fs::read(entry.path().join(what)).is_ok_and(|content| contains(&content, needle)) {
                found.push((id, what));
            }
        }
    }
    found
}
