//! Space, inodes and read-only file systems.

use std::collections::BTreeSet;

use fettle_step::{
    check::{Action, Finding, Severity},
    facts::Filesystem,
};

use crate::{input::Thresholds, percent};

const CHECK: &str = "filesystems";

/// Made read-only and full; not signs of anything.
const IMAGES: [&str; 7] = ["squashfs", "iso9660", "udf", "erofs", "cramfs", "romfs", "efivarfs"];

/// On local disks: the kernel turns these read-only when the disk fails.
const LOCAL: [&str; 8] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "bcachefs"];

/// Whether the file systems have room and can be written.
pub(crate) fn judge(filesystems: &[Filesystem], thresholds: &Thresholds) -> Vec<Finding> {
    let mut findings: Vec<Finding> = room(filesystems, thresholds);
    findings.extend(filesystems.iter().filter_map(|filesystem| read_only(filesystem, filesystems, thresholds)));
    if findings.is_empty() {
        let rule = format!(
            "less than {} % of space and inodes used, and no local disk read-only",
            thresholds.filesystem_used_warning_percent
        );
        findings.push(match filesystems.len() {
            0 => Finding::unknown(CHECK, "the node names no file system"),
            count => Finding::ok(CHECK, format!("{count} file systems"), rule),
        });
    }
    findings
}

/// What is full, once for each file system however often it is mounted.
fn room(filesystems: &[Filesystem], thresholds: &Thresholds) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    filesystems
        .iter()
        .filter(|filesystem| fills_up(filesystem))
        .filter(|filesystem| seen.insert((&filesystem.source, filesystem.total, filesystem.available)))
        .flat_map(|filesystem| {
            let inodes = filesystem.inodes.saturating_sub(filesystem.inodes_free);
            let space = filesystem.total.saturating_sub(filesystem.available);
            [
                full(filesystem, "space", space, filesystem.total, thresholds),
                full(filesystem, "inodes", inodes, filesystem.inodes, thresholds),
            ]
        })
        .flatten()
        .collect()
}

/// Whether use can fill it. What is read-only stays as it is, a file system in user space answers what
/// it likes, and the overlays of containers repeat what lies below them; only that at `/` is judged.
fn fills_up(filesystem: &Filesystem) -> bool {
    let kind = filesystem.kind.as_str();
    let repeated = kind == "overlay" && filesystem.mount_point != "/";
    !filesystem.read_only && !repeated && !IMAGES.contains(&kind) && !kind.starts_with("fuse")
}

fn full(filesystem: &Filesystem, what: &str, used: u64, total: u64, thresholds: &Thresholds) -> Option<Finding> {
    let percent = percent::of(used, total)?;
    let (warning, critical) = (thresholds.filesystem_used_warning_percent, thresholds.filesystem_used_critical_percent);
    let observed = format!("{percent} % of the {what} of {} ({}) used", filesystem.mount_point, filesystem.kind);
    if percent >= critical {
        let rule = format!("{critical} % used is critical");
        return Some(Finding::new(CHECK, Severity::Critical, observed, rule, Action::Drain));
    }
    (percent >= warning).then(|| {
        Finding::new(CHECK, Severity::Warning, observed, format!("{warning} % used is a warning"), Action::Investigate)
    })
}

/// A local disk that nobody can write. A warning, because a mount may be meant so; that the kernel did
/// it is what the kernel log says.
fn read_only(filesystem: &Filesystem, all: &[Filesystem], thresholds: &Thresholds) -> Option<Finding> {
    let writable_elsewhere = all.iter().any(|other| other.source == filesystem.source && !other.read_only);
    let suspicious = filesystem.read_only
        && LOCAL.contains(&filesystem.kind.as_str())
        && !writable_elsewhere
        && !thresholds.read_only_mount_points.contains(&filesystem.mount_point);
    suspicious.then(|| {
        let Filesystem { mount_point, kind, source, .. } = filesystem;
        let observed = format!("{mount_point} ({kind} on {source}) is read-only");
        let rule =
            "a local disk that is mounted nowhere writable is a warning, unless `read_only_mount_points` names it";
        Finding::new(CHECK, Severity::Warning, observed, rule, Action::Investigate)
    })
}
