//! The policy bundle: what an administrator decides for nodes.

mod check;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::check::starts_programs;

use crate::{
    credential::CredentialType,
    egress::Egress,
    grant::Grants,
    limits::AttemptLimits,
    name::{Label, StepKind},
};

/// Signed data that a host obeys: roots, command profiles, resolver rules, ceiling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// What one attempt of a step may use on its nodes; what is absent is the host's default.
    #[serde(default, skip_serializing_if = "AttemptLimits::is_empty")]
    pub limits: AttemptLimits,
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
    /// Local group to run as; none is the user's first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Where it starts; `/` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Exit codes that count as success.
    #[serde(default = "zero")]
    pub expected_exit_codes: BTreeSet<i32>,
    /// Then the whole process group is killed. 1 to 86,400.
    #[serde(default = "thirty")]
    pub timeout_seconds: u32,
    /// When it is started again after it failed; none never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// What it may use.
    #[serde(default)]
    pub limits: ResourceLimits,
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

/// When a program is started again. Only for ends that the profile names: whoever writes it knows that these
/// leave nothing half done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    /// Starts in all, the first included. 2 to 10.
    pub attempts: u32,
    /// Before the second start; doubled before each further one. At most 60,000.
    #[serde(default = "one_second")]
    pub backoff_milliseconds: u32,
    /// Exit codes that are worth another start.
    #[serde(default)]
    pub exit_codes: BTreeSet<i32>,
    /// Whether a program that did not end in time is.
    #[serde(default)]
    pub timed_out: bool,
    /// Whether one that was ended by a signal is.
    #[serde(default)]
    pub signaled: bool,
}

const fn one_second() -> u32 {
    1000
}

/// What a program may use, as setrlimit(2) knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceLimits {
    /// Descriptors.
    pub open_files: u32,
    /// Processes of its user, on the whole node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Size of a file that it writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
    /// Address space of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processor time of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_seconds: Option<u32>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self { open_files: 1024, processes: None, file_size_bytes: None, memory_bytes: None, processor_seconds: None }
    }
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
    /// `root/below/it`. It must exist, and no link is followed below the root.
    Path {
        /// Name of a files root.
        root: Label,
        /// What the program gets for it.
        #[serde(default)]
        pass: PathPassing,
    },
    /// A handle of a credential. What it stands for reaches the program in these variables of its environment, and is
    /// no argument.
    Credential {
        /// Of this type.
        #[serde(rename = "type")]
        credential_type: CredentialType,
        /// Which variable gets which part of the credential: `token`, `url`.
        variables: BTreeMap<String, String>,
    },
}

/// How a program is given a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathPassing {
    /// `/proc/self/fd/<n>`, where the file that was checked is open: whatever happens to its name.
    #[default]
    Descriptor,
    /// The absolute path, for programs that look at it. Whoever can write below the root can make it lead
    /// elsewhere between the check and the program.
    Name,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(profile: &str) -> String {
        let text = format!("revision: 1\nroots: {{ data: data }}\nprofiles: [{{ id: a, {profile} }}]\n");
        let bundle: PolicyBundle = crate::document::read(&text).unwrap();
        bundle.check().map_or_else(|violations| violations.to_string(), |()| String::new())
    }

    #[test]
    fn no_profile_is_a_way_to_run_anything() {
        for (profile, rule) in [
            ("command: /bin/sh", "is a shell"),
            ("command: /usr/local/bin/bash, allowed_args: [-c, ls]", "is a shell"),
            ("command: /usr/bin/env, allowed_args: [bash]", "starts other programs"),
            ("command: /usr/bin/sudo", "starts other programs"),
            ("command: sh", "is not absolute"),
            ("command: /usr/bin/python3, allowed_args: [-c, 'import os']", "run text of its command line"),
            ("command: /usr/bin/python3.11, allowed_args: [-Ic, 'import os']", "run text of its command line"),
            ("command: /usr/bin/perl, allowed_args: [-e, x]", "run text of its command line"),
            ("command: /usr/bin/node, allowed_args: ['--eval=x']", "run text of its command line"),
            ("command: /usr/bin/python3, allowed_args: ['-']", "run text of its command line"),
            ("command: /usr/bin/python3, arg_schema: [{ name: b, value: { pattern: '.*' } }]", "its script first"),
            ("command: /usr/bin/python3, allowed_args: [script.py]", "its script first"),
            (
                "command: /a, arg_schema: [{ name: b, value: { integer: { minimum: -3, maximum: 3 } } }]",
                "starts with `-`",
            ),
            ("command: /a, retries: { attempts: 1, exit_codes: [1] }", "write 2 to 10"),
            ("command: /a, retries: { attempts: 3 }", "worth another start"),
            ("command: /a, arg_schema: [{ name: b, value: { path: { root: other } } }]", "no root `other`"),
            (
                "command: /a, arg_schema: [{ name: b, option: -t, value: { credential: { type: hf_token, variables: { T: token } } } }]",
                "no argument",
            ),
            (
                "command: /a, arg_schema: [{ name: b, value: { credential: { type: hf_token, variables: {} } } }]",
                "name the variable",
            ),
            (
                "command: /a, arg_schema: [{ name: b, value: { credential: { type: hf_token, variables: { T: url } } } }]",
                "has no `url`; it has token",
            ),
            (
                "command: /a, arg_schema: [{ name: b, value: { credential: { type: hf_token, variables: { LD_PRELOAD: token } } } }]",
                "is no variable",
            ),
            (
                "command: /a, environment: { T: x }, arg_schema: [{ name: b, value: { credential: { type: hf_token, variables: { T: token } } } }]",
                "has a value already",
            ),
        ] {
            let found = wrong(profile);
            assert!(found.contains(rule), "{profile}: {found}");
        }
        for right in [
            "command: /usr/bin/nvidia-smi, allowed_args: [-q]",
            "command: /usr/bin/python3, allowed_args: [-I, /opt/check.py]",
            "command: /a, arg_schema: [{ name: b, option: -n, value: { integer: { minimum: -3, maximum: 3 } } }]",
            "command: /a, retries: { attempts: 3, exit_codes: [75] }",
            "command: /a, arg_schema: [{ name: b, value: { credential: { type: s3_read, variables: { URL: url } } } }]",
        ] {
            assert_eq!(wrong(right), "", "{right}");
        }
    }
}
