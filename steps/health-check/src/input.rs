//! What is checked, and against which thresholds.

use fettle_step::check::{FailOn, Finding, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is checked, and against which thresholds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The checks; all of them when left out. Each needs the fact of its name in the grant.
    #[serde(default = "every_check")]
    #[schemars(length(min = 1))]
    pub(crate) checks: Vec<Check>,
    /// Thresholds that differ from the defaults.
    #[serde(default)]
    pub(crate) thresholds: Thresholds,
    /// When the step fails instead of answering its findings. Never: it always answers them.
    #[serde(default)]
    pub(crate) fail_on: FailOn,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The worst severity of the findings.
    pub(crate) verdict: Severity,
    /// In the order of the checks.
    pub(crate) findings: Vec<Finding>,
}

/// One check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Check {
    /// Processors.
    System,
    /// Memory and swap.
    Memory,
    /// Space, inodes, read-only file systems.
    Filesystems,
    /// Out-of-memory kills, lockups, read-only remounts, NVMe and machine-check errors.
    KernelLog,
    /// Blocked and defunct processes.
    Processes,
}

fn every_check() -> Vec<Check> {
    vec![Check::System, Check::Memory, Check::Filesystems, Check::KernelLog, Check::Processes]
}

/// When something is too much. The defaults are practice on GPU nodes, no vendor's limits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Thresholds {
    /// Fewer online processors than this are critical.
    pub(crate) processors_minimum: u32,
    /// Less available memory than this percentage is a warning.
    #[schemars(range(max = 100))]
    pub(crate) memory_available_warning_percent: u8,
    /// Less available memory than this percentage is critical.
    #[schemars(range(max = 100))]
    pub(crate) memory_available_critical_percent: u8,
    /// More used swap than this percentage is a warning.
    #[schemars(range(max = 100))]
    pub(crate) swap_used_warning_percent: u8,
    /// A file system whose space or inodes are used to this percentage is a warning.
    #[schemars(range(max = 100))]
    pub(crate) filesystem_used_warning_percent: u8,
    /// A file system whose space or inodes are used to this percentage is critical.
    #[schemars(range(max = 100))]
    pub(crate) filesystem_used_critical_percent: u8,
    /// Mount points that are read-only on purpose.
    pub(crate) read_only_mount_points: Vec<String>,
    /// Only kernel messages of this many seconds before the newest fact count.
    pub(crate) kernel_log_window_seconds: u64,
    /// As many processes in uninterruptible sleep (state D) are a warning.
    #[schemars(range(min = 1))]
    pub(crate) blocked_processes_warning: u32,
    /// Only processes that started this many seconds ago count as blocked.
    pub(crate) blocked_process_age_seconds: u64,
    /// As many defunct processes (state Z) are a warning.
    #[schemars(range(min = 1))]
    pub(crate) defunct_processes_warning: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            processors_minimum: 1,
            memory_available_warning_percent: 10,
            memory_available_critical_percent: 5,
            swap_used_warning_percent: 80,
            filesystem_used_warning_percent: 90,
            filesystem_used_critical_percent: 97,
            read_only_mount_points: Vec::new(),
            kernel_log_window_seconds: 86_400,
            blocked_processes_warning: 5,
            blocked_process_age_seconds: 300,
            defunct_processes_warning: 100,
        }
    }
}
