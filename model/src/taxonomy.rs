//! The capabilities of nodes that a definition can require (seed 001, 9.1), and the values that they can have.

use crate::{definition::Requirements, violation::Violation};

/// A capability of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCapability {
    /// Its key.
    pub key: &'static str,
    /// The values that it can have; empty when they are as many as there are vendors.
    pub values: &'static [&'static str],
}

const fn of(key: &'static str, values: &'static [&'static str]) -> NodeCapability {
    NodeCapability { key, values }
}

/// All of them.
pub const NODE_CAPABILITIES: [NodeCapability; 9] = [
    of("compute.runtime", &["cuda", "rocm", "level_zero", "none"]),
    of("container.runtime", &["containerd", "docker", "other"]),
    of("fabric.type", &["infiniband", "roce", "nvlink", "ethernet", "none"]),
    of("gpu.architecture", &[]),
    of("gpu.driver_series", &[]),
    of("gpu.vendor", &["nvidia", "amd", "intel", "other"]),
    of("host.containment", &["cgroup", "process-group"]),
    of("host.user", &["root", "ordinary"]),
    of("policy.revision", &[]),
];

/// Requires of a definition what a node can have: what nobody has would wait for ever.
pub(crate) fn check(requires: &Requirements, found: &mut Vec<Violation>) {
    for (key, accepted) in &requires.capabilities {
        let pointer = format!("/requires/capabilities/{}", key.replace('~', "~0").replace('/', "~1"));
        let Some(known) = NODE_CAPABILITIES.iter().find(|known| known.key == key) else {
            let keys = NODE_CAPABILITIES.map(|known| known.key).join(", ");
            found.push(Violation::new(pointer, format!("nodes have no capability `{key}`; write one of {keys}")));
            continue;
        };
        if accepted.is_empty() {
            found.push(Violation::new(&pointer, "no value would do; name those that do, or leave the capability out"));
        }
        let foreign = |value: &&String| !known.values.is_empty() && !known.values.contains(&value.as_str());
        for value in accepted.iter().filter(foreign) {
            let values = known.values.join(", ");
            found.push(Violation::new(&pointer, format!("`{key}` is never `{value}`; write one of {values}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Vec<String> {
        let requires: Requirements = serde_json::from_str(text).unwrap();
        let mut found = Vec::new();
        check(&requires, &mut found);
        found.into_iter().map(|violation| violation.to_string()).collect()
    }

    #[test]
    fn a_definition_requires_what_nodes_can_have() {
        let sound = r#"{"capabilities": {"gpu.vendor": ["amd", "nvidia"], "gpu.driver_series": ["550.54"]}}"#;
        assert_eq!(wrong(sound), Vec::<String>::new());
        assert_eq!(wrong("{}"), Vec::<String>::new());
        for (text, words) in [
            (
                r#"{"capabilities": {"gpu.vender": ["amd"]}}"#,
                "nodes have no capability `gpu.vender`; write one of compute.runtime",
            ),
            (
                r#"{"capabilities": {"gpu.vendor": ["NVIDIA"]}}"#,
                "`gpu.vendor` is never `NVIDIA`; write one of nvidia, amd",
            ),
            (r#"{"capabilities": {"gpu.vendor": []}}"#, "no value would do"),
        ] {
            let found = wrong(text);
            assert!(found.len() == 1 && found[0].contains(words), "{found:?}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_says_nothing_twice() {
        assert!(NODE_CAPABILITIES.is_sorted_by(|one, other| one.key < other.key));
    }
}
