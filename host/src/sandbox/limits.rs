//! What one attempt may use. Every limit is a number here, has a default, and is enforced.
//!
//! `docs/reference/limits.md` is written from [`Limit`]; so is the failure of whoever reaches one.

use std::time::Duration;

use fettle_model::{digest::Digest, limits::AttemptLimits};

/// Largest single linear memory the engines are laid out for, in bytes.
#[expect(clippy::cast_possible_truncation, reason = "1 GiB")]
pub const MAXIMUM_MEMORY: usize = fettle_model::limits::MOST_MEMORY as usize;

/// Largest single table the engines are laid out for.
pub const MAXIMUM_TABLE_ELEMENTS: usize = 1 << 20;

/// The code of the failure of an attempt that took too long.
pub const WALL_CLOCK: &str = "limit.wall-clock";

/// Bytes of a component's call stack. Part of the engines' layout.
pub const STACK: usize = 1 << 20;

/// Limits of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all linear memories together.
    pub memory: usize,
    /// Linear memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
    /// Elements of all tables together.
    pub table_elements: usize,
    /// Core instances.
    pub instances: u32,
    /// Handles of resources, both in the component's tables and in the host's.
    pub handles: usize,
    /// Time spent computing, of all calls of the attempt; waiting for the host does not count.
    pub cpu: Duration,
    /// Bytes of JSON that a call may answer.
    pub output: usize,
    /// Bytes that one host call may carry in either direction.
    pub host_call: usize,
    /// Bytes that all host calls of the attempt may carry, both directions together.
    pub host_bytes: u64,
    /// Host calls of the attempt.
    pub host_calls: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            memories: 16,
            tables: 128,
            table_elements: 200_000,
            instances: 128,
            handles: 1_000,
            cpu: Duration::from_secs(60),
            output: 1 << 20,
            host_call: 8 << 20,
            host_bytes: 256 << 20,
            host_calls: 100_000,
        }
    }
}

impl Limits {
    /// These limits, with what `changed` says in their place.
    #[must_use]
    pub fn with(&self, changed: &AttemptLimits) -> Self {
        let size = |own: usize, changed: Option<u64>| {
            changed.map_or(own, |changed| usize::try_from(changed).unwrap_or(usize::MAX))
        };
        Self {
            memory: size(self.memory, changed.memory_bytes),
            cpu: changed.processor_seconds.map_or(self.cpu, Duration::from_secs),
            output: size(self.output, changed.output_bytes),
            host_call: size(self.host_call, changed.host_call_bytes),
            host_bytes: changed.host_bytes.unwrap_or(self.host_bytes),
            host_calls: changed.host_calls.unwrap_or(self.host_calls),
            ..self.clone()
        }
    }

    /// These limits, lowered to what `lower` says; nothing is raised.
    #[must_use]
    pub fn under(&self, lower: &AttemptLimits) -> Self {
        let size = |own: usize, lower: Option<u64>| lower.filter(|lower| *lower < own as u64);
        let number = |own: u64, lower: Option<u64>| lower.filter(|lower| *lower < own);
        self.with(&AttemptLimits {
            memory_bytes: size(self.memory, lower.memory_bytes),
            processor_seconds: lower.processor_seconds.filter(|seconds| Duration::from_secs(*seconds) < self.cpu),
            output_bytes: size(self.output, lower.output_bytes),
            host_call_bytes: size(self.host_call, lower.host_call_bytes),
            host_bytes: number(self.host_bytes, lower.host_bytes),
            host_calls: number(self.host_calls, lower.host_calls),
        })
    }

    /// What would have to be said to make these limits out of `defaults`.
    #[must_use]
    pub fn changed_from(&self, defaults: &Self) -> AttemptLimits {
        let number = |own: u64, default: u64| (own != default).then_some(own);
        AttemptLimits {
            memory_bytes: number(self.memory as u64, defaults.memory as u64),
            processor_seconds: number(self.cpu.as_secs(), defaults.cpu.as_secs()),
            output_bytes: number(self.output as u64, defaults.output as u64),
            host_call_bytes: number(self.host_call as u64, defaults.host_call as u64),
            host_bytes: number(self.host_bytes, defaults.host_bytes),
            host_calls: number(self.host_calls, defaults.host_calls),
        }
    }

    /// Names these limits: a replay under others may end elsewhere.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(format!("{self:?}").as_bytes())
    }
}

/// A limit whose end ends the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of memory.
    Memory,
    /// Number of memories.
    Memories,
    /// Number of tables.
    Tables,
    /// Elements of tables.
    TableElements,
    /// Core instances.
    Instances,
    /// Call stack.
    Stack,
    /// Resource handles.
    Handles,
    /// Processor time.
    Cpu,
    /// The step's timeout.
    WallClock,
    /// Bytes of one host call.
    HostCall,
    /// Bytes of all host calls.
    HostBytes,
    /// Number of host calls.
    HostCalls,
    /// Bytes of the answer.
    Output,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Memory,
        Self::Memories,
        Self::Tables,
        Self::TableElements,
        Self::Instances,
        Self::Stack,
        Self::Handles,
        Self::Cpu,
        Self::WallClock,
        Self::HostCall,
        Self::HostBytes,
        Self::HostCalls,
        Self::Output,
    ];

    /// The failure's code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Memory => "limit.memory",
            Self::Memories => "limit.memories",
            Self::Tables => "limit.tables",
            Self::TableElements => "limit.table-elements",
            Self::Instances => "limit.instances",
            Self::Stack => "limit.stack",
            Self::Handles => "limit.handles",
            Self::Cpu => "limit.cpu",
            Self::WallClock => WALL_CLOCK,
            Self::HostCall => "limit.host-call-bytes",
            Self::HostBytes => "limit.host-bytes",
            Self::HostCalls => "limit.host-calls",
            Self::Output => "limit.output",
        }
    }

    /// How much `limits` allow, in words.
    #[must_use]
    pub fn amount(self, limits: &Limits) -> String {
        match self {
            Self::Memory => bytes(limits.memory as u64),
            Self::Memories => format!("{} memories", limits.memories),
            Self::Tables => format!("{} tables", limits.tables),
            Self::TableElements => format!("{} elements", limits.table_elements),
            Self::Instances => format!("{} core instances", limits.instances),
            Self::Stack => bytes(STACK as u64),
            Self::Handles => format!("{} handles", limits.handles),
            Self::Cpu => duration(limits.cpu),
            Self::WallClock => "the step's `timeout`".to_owned(),
            Self::HostCall => bytes(limits.host_call as u64),
            Self::HostBytes => bytes(limits.host_bytes),
            Self::HostCalls => format!("{} calls", limits.host_calls),
            Self::Output => bytes(limits.output as u64),
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Memory => "keep less in memory at once, or let `transfer` and `files` move bulk data",
            Self::Memories | Self::Tables | Self::Instances => "link fewer modules into the component",
            Self::TableElements => "link fewer functions into the component",
            Self::Stack => "recurse less deeply",
            Self::Handles => "drop streams and pollables that are no longer needed",
            Self::Cpu => "leave heavy work to a command profile, or split the step",
            Self::WallClock => "raise `timeout` in the definition if it needs longer",
            Self::HostCall => "pass less at once",
            Self::HostBytes => "let `transfer` and `files` move bulk data",
            Self::HostCalls => "ask for more at once instead of more often",
            Self::Output => "return less, or write a file",
        }
    }
}

impl Limit {
    /// Why the default is what it is.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Memory => {
                "an interpreted step needs some 100 MiB; 32 attempts at once must fit beside a node's real work"
            }
            Self::Memories => "a component of one language has one memory, one of several languages has a few",
            Self::Tables => "an interpreter that was linked from dozens of modules has one or two for each",
            Self::TableElements => "one for each function whose address is taken: a large interpreter has some 50,000",
            Self::Instances => {
                "an interpreter that was linked from dozens of modules has one for each, and their adapters"
            }
            Self::Stack => {
                "wasmtime's own default is 512 KiB; parsers of nested JSON go deep. Part of the engines' layout"
            }
            Self::Handles => "a step holds a few streams; wasmtime's own defaults are 100,000 and a million",
            Self::Cpu => {
                "rendering and parsing takes milliseconds; heavy work belongs to programs of a command profile"
            }
            Self::WallClock => {
                "the definition says how long its step takes; host calls count, and what cannot be canceled is left behind"
            }
            Self::HostCall => {
                "the largest thing the contract passes is a manifest of 4 MiB, with room for its envelope"
            }
            Self::HostBytes => "256 files of the largest size that `files` reads",
            Self::HostCalls => "a step asks for a few hundred things; a hundred thousand take seconds",
            Self::Output => "what the contract says: outputs travel to the plane and into inputs of later steps",
        }
    }
}

/// Bytes in the largest unit that needs no fraction.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}

/// A duration in the largest unit that needs no fraction.
pub(crate) fn duration(duration: Duration) -> String {
    if duration.subsec_millis() == 0 && duration.as_secs() > 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> AttemptLimits {
        fettle_model::document::read(text).unwrap()
    }

    #[test]
    fn a_bundle_replaces_and_a_step_only_lowers() {
        let defaults = Limits::default();
        let node = defaults.with(&said("{memory_bytes: 536870912, processor_seconds: 5}"));
        assert_eq!((node.memory, node.cpu, node.output), (512 << 20, Duration::from_secs(5), defaults.output));
        let step = node.under(&said("{memory_bytes: 1073741824, processor_seconds: 2, host_calls: 10}"));
        assert_eq!((step.memory, step.cpu, step.host_calls), (512 << 20, Duration::from_secs(2), 10));
        assert_eq!(defaults.under(&AttemptLimits::default()), defaults);
    }

    #[test]
    fn what_was_changed_makes_the_same_limits_again() {
        let defaults = Limits::default();
        assert!(defaults.changed_from(&defaults).is_empty());
        let all = "{memory_bytes: 1048576, processor_seconds: 1, output_bytes: 2, host_call_bytes: 1024, host_bytes: 2048, host_calls: 3}";
        let changed = defaults.with(&said(all));
        assert_eq!(changed.changed_from(&defaults), said(all));
        assert_ne!(changed.digest(), defaults.digest());
    }
}
