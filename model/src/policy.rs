//! The policy bundle: what an administrator decides for nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    egress::Egress,
    grant::Grants,
    name::{Label, StepKind},
    violation::{Violation, Violations},
};

/// Signed data that a host obeys: roots, command profiles, resolver rules, ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyBundle {
    /// Grows with every change.
    pub revision: u64,
    /// Named directories that `files` grants speak of. Absolute, or relative to the host's own files
    /// directory.
    #[serde(default)]
    pub roots: BTreeMap<Label, String>,
    /// The only programs that steps can run.
    #[serde(default)]
    pub profiles: Vec<CommandProfile>,
    /// Hardware facts to command profiles, first match wins.
    #[serde(default)]
    pub hardware_profiles: Vec<HardwareProfile>,
    /// What this node ever allows, whatever a definition grants; `"*"` allows every entry.
    #[serde(default)]
    pub ceiling: Grants,
    /// Private networks that its steps may reach; none when absent.
    #[serde(default, skip_serializing_if = "Egress::is_empty")]
    pub egress: Egress,
}

/// A fixed program with typed arguments (seed 001, 4.4 and 4.7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandProfile {
    /// Its name.
    pub id: Label,
    /// Absolute path of the executable.
    pub command: String,
    /// SHA-256 of the executable as 64 hexadecimal digits; none takes whatever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Fixed arguments, before the dynamic ones.
    #[serde(default)]
    pub allowed_args: Vec<String>,
    /// Dynamic arguments, in the order of the command line; none allows none.
    #[serde(default)]
    pub arg_schema: Option<Vec<ArgumentRule>>,
    /// Variables taken over from the host's environment. Everything else is cleared.
    #[serde(default)]
    pub env_passthrough: BTreeSet<String>,
    /// Variables with fixed values.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Local user to run as; none is the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where it starts; `/` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Exit codes that count as success.
    #[serde(default = "zero")]
    pub expected_exit_codes: BTreeSet<i32>,
    /// Then the whole process group is killed. 1 to 86,400.
    #[serde(default = "thirty")]
    pub timeout_seconds: u32,
    /// Whether standard output is kept.
    #[serde(default = "yes")]
    pub capture_stdout: bool,
    /// Whether standard error is kept.
    #[serde(default = "yes")]
    pub capture_stderr: bool,
    /// Most bytes kept of each; the rest is read and dropped, and marked.
    #[serde(default = "sixty_four_kib")]
    pub capture_limit_bytes: u32,
}

fn zero() -> BTreeSet<i32> {
    BTreeSet::from([0])
}
const fn thirty() -> u32 {
    30
}
const fn yes() -> bool {
    true
}
const fn sixty_four_kib() -> u32 {
    65_536
}

/// One dynamic argument of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentRule {
    /// Its name in the step's input.
    pub name: Label,
    /// An option put before the value, like `--count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// Whether it must be given.
    #[serde(default = "yes")]
    pub required: bool,
    /// What values it takes.
    pub value: ValueRule,
}

/// What values a dynamic argument takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ValueRule {
    /// One of these.
    Enumeration(BTreeSet<String>),
    /// A decimal integer, both ends included.
    Integer {
        /// Smallest.
        minimum: i64,
        /// Largest.
        maximum: i64,
    },
    /// A regular expression that the whole value must match. May not start with `-`.
    Pattern(String),
    /// `root/below/it`; becomes the absolute path.
    Path {
        /// Name of a files root.
        root: Label,
    },
}

/// Which command profile stands for an abstract step kind on which hardware (seed 001, 4.7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareProfile {
    /// Capability facts that must hold; empty is the fallback.
    #[serde(rename = "match")]
    pub matches: BTreeMap<String, String>,
    /// Profile ids by abstract step kind, without the version.
    pub overrides: BTreeMap<String, Label>,
}

impl PolicyBundle {
    /// The profile of this name.
    #[must_use]
    pub fn profile(&self, id: &str) -> Option<&CommandProfile> {
        self.profiles.iter().find(|profile| profile.id.as_str() == id)
    }

    /// The profile that stands for an abstract step kind on a node with these facts: first match wins.
    #[must_use]
    pub fn resolve(&self, kind: &StepKind, facts: &BTreeMap<String, String>) -> Option<&CommandProfile> {
        let holds = |rule: &&HardwareProfile| rule.matches.iter().all(|(key, value)| facts.get(key) == Some(value));
        let id = self.hardware_profiles.iter().filter(holds).find_map(|rule| rule.overrides.get(kind.name()))?;
        self.profile(id.as_str())
    }

    /// Checks what the form alone cannot say.
    ///
    /// # Errors
    /// All broken rules, each with its place.
    pub fn check(&self) -> Result<(), Violations> {
        let mut found = Vec::new();
        for (index, profile) in self.profiles.iter().enumerate() {
            self.check_profile(&format!("/profiles/{index}"), profile, &mut found);
            if self.profiles.iter().take(index).any(|earlier| earlier.id == profile.id) {
                found.push(Violation::new(
                    format!("/profiles/{index}/id"),
                    format!("a profile `{}` exists already; ids are unique", profile.id),
                ));
            }
        }
        for (index, rule) in self.hardware_profiles.iter().enumerate() {
            for (kind, id) in &rule.overrides {
                if self.profile(id.as_str()).is_none() {
                    found.push(Violation::new(
                        format!("/hardware_profiles/{index}/overrides/{kind}"),
                        format!("there is no profile `{id}` in this bundle"),
                    ));
                }
            }
        }
        for (name, path) in &self.roots {
            if path.split('/').any(|part| part == "..") || path.is_empty() {
                found.push(Violation::new(
                    format!("/roots/{name}"),
                    "a root is an absolute path or one below the host's files directory, without `..`",
                ));
            }
        }
        self.egress.check("/egress", &mut found);
        Violations::check(found)
    }

    fn check_profile(&self, pointer: &str, profile: &CommandProfile, found: &mut Vec<Violation>) {
        let mut wrong =
            |field: &str, message: String| found.push(Violation::new(format!("{pointer}/{field}"), message));
        if !profile.command.starts_with('/') {
            wrong("command", format!("`{}` is not absolute; a profile names one fixed executable", profile.command));
        }
        let shells = ["sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "env"];
        if profile.command.rsplit('/').next().is_some_and(|name| shells.contains(&name)) {
            wrong(
                "command",
                format!("`{}` is a shell or starts other programs; name the program itself", profile.command),
            );
        }
        if profile.sha256.as_ref().is_some_and(|text| text.len() != 64 || hex::decode(text).is_err()) {
            wrong("sha256", "write 64 hexadecimal digits".to_owned());
        }
        if !(1..=86_400).contains(&profile.timeout_seconds) {
            wrong("timeout_seconds", "write 1 to 86400".to_owned());
        }
        if profile.capture_limit_bytes > 1_048_576 {
            wrong("capture_limit_bytes", "at most 1048576".to_owned());
        }
        for (index, rule) in profile.arg_schema.iter().flatten().enumerate() {
            match &rule.value {
                ValueRule::Enumeration(values) if values.is_empty() => {
                    wrong(&format!("arg_schema/{index}/value"), "an enumeration names at least one value".to_owned())
                }
                ValueRule::Integer { minimum, maximum } if minimum > maximum => {
                    wrong(&format!("arg_schema/{index}/value"), "minimum is above maximum".to_owned())
                }
                ValueRule::Pattern(pattern) => {
                    if let Err(error) = crate::command::compile(pattern) {
                        wrong(&format!("arg_schema/{index}/value"), error);
                    }
                }
                ValueRule::Path { root } if !self.roots.contains_key(root) => wrong(
                    &format!("arg_schema/{index}/value/path/root"),
                    format!("there is no root `{root}` in this bundle"),
                ),
                ValueRule::Enumeration(_) | ValueRule::Integer { .. } | ValueRule::Path { .. } => {}
            }
        }
    }
}
