//! What one attempt of a step may use, where it is not what a host gives by default.

use serde::{Deserialize, Serialize};

use crate::violation::Violation;

/// Limits of one attempt; what is absent is left as it is. In a policy bundle they replace the defaults of a
/// host, in a step of a definition they lower what the node allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttemptLimits {
    /// Bytes of all its linear memories together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Time that it computes, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_seconds: Option<u64>,
    /// Bytes of JSON that a call of it may answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Bytes that one host call may carry in either direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_call_bytes: Option<u64>,
    /// Bytes that all its host calls may carry, both directions together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_bytes: Option<u64>,
    /// Host calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u64>,
}

/// The most bytes of memory that a bundle can allow: what the engines of hosts are laid out for.
pub const MOST_MEMORY: u64 = 1 << 30;

impl AttemptLimits {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The numbers by name, with the least and the most that each can be. Below the least no step would
    /// start; above the most a node would not bear all of its slots.
    #[must_use]
    pub const fn entries(&self) -> [(&'static str, Option<u64>, u64, u64); 6] {
        [
            ("memory_bytes", self.memory_bytes, 1 << 20, MOST_MEMORY),
            ("processor_seconds", self.processor_seconds, 1, 3_600),
            ("output_bytes", self.output_bytes, 2, 1 << 20),
            ("host_call_bytes", self.host_call_bytes, 1 << 10, 64 << 20),
            ("host_bytes", self.host_bytes, 1 << 10, 16 << 30),
            ("host_calls", self.host_calls, 1, 10_000_000),
        ]
    }

    /// Adds what is wrong with the numbers.
    pub fn check(&self, pointer: &str, found: &mut Vec<Violation>) {
        for (name, value, least, most) in self.entries() {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                found.push(Violation::new(format!("{pointer}/{name}"), format!("write {least} to {most}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_range_are_named_with_it() {
        for (text, expected) in [
            ("{}", vec![]),
            ("{memory_bytes: 1048576, processor_seconds: 3600, host_calls: 1}", vec![]),
            ("{memory_bytes: 1073741825}", vec!["/limits/memory_bytes: write 1048576 to 1073741824"]),
            (
                "{processor_seconds: 0, output_bytes: 2000000}",
                vec!["/limits/processor_seconds: write 1 to 3600", "/limits/output_bytes: write 2 to 1048576"],
            ),
        ] {
            let limits: AttemptLimits = crate::document::read(text).unwrap();
            let mut found = Vec::new();
            limits.check("/limits", &mut found);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{text}");
        }
        let unknown = crate::document::read::<AttemptLimits>("{memory: 1}").unwrap_err().to_string();
        assert!(unknown.contains("`memory_bytes`"), "{unknown}");
    }
}
