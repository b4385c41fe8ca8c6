//! What a definition lets a step reach, and what a node ever allows.
//!
//! The full list of capabilities is one struct, [`Grants`]. Its default denies everything, an unknown
//! name is an error that lists the valid ones, and an input can never widen a grant: grants are
//! literals.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    credential::{CredentialRule, CredentialType, Intent},
    web::{Method, WebPrefix, WebUrl},
};

/// The name of a capability; `report` is not one, every step has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    /// Run command profiles.
    Exec,
    /// Read and write below named roots.
    Files,
    /// Move bulk data between registries and files.
    Transfer,
    /// Read facts about the node.
    Facts,
    /// Read the state of the GPUs.
    Gpu,
    /// Send HTTP requests.
    Http,
    /// Have credentials minted.
    Credentials,
    /// Say which policy bundles count.
    Policy,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Exec, Self::Files, Self::Transfer, Self::Facts, Self::Gpu, Self::Http, Self::Credentials, Self::Policy];

    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Files => "files",
            Self::Transfer => "transfer",
            Self::Facts => "facts",
            Self::Gpu => "gpu",
            Self::Http => "http",
            Self::Credentials => "credentials",
            Self::Policy => "policy",
        }
    }

    /// The WIT interface that a component imports to use it, without the version.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Exec => "fettle:exec/exec",
            Self::Files => "fettle:files/files",
            Self::Transfer => "fettle:transfer/transfer",
            Self::Facts => "fettle:facts/facts",
            Self::Gpu => "fettle:gpu/gpu",
            Self::Http => "fettle:http/http",
            Self::Credentials => "fettle:credentials/credentials",
            Self::Policy => "fettle:policy/policy",
        }
    }

    /// A line of a definition that would grant it, to put into an error message.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::Exec => "grants: { exec: { profiles: [<profile>] } }",
            Self::Files => "grants: { files: { write: [<root>] } }",
            Self::Transfer => "grants: { transfer: { hosts: [\"<host>:<port>\"] } }",
            Self::Facts => "grants: { facts: { read: [system] } }",
            Self::Gpu => "grants: { gpu: { read: true } }",
            Self::Http => "grants: { http: { requests: [{ url: \"https://<host>/<path>/\", methods: [GET] }] } }",
            Self::Credentials => {
                "grants: { credentials: { mint: [{ type: oci_pull, scope: \"<host>:<port>/<repository>\" }] } }"
            }
            Self::Policy => "grants: { policy: { activate: true } }",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All that one step may reach. Nothing, unless said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grants {
    /// Command profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecGrant>,
    /// Files below named roots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesGrant>,
    /// Hosts to transfer from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferGrant>,
    /// Facts about the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<FactsGrant>,
    /// The state of the GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuGrant>,
    /// Requests that may be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpGrant>,
    /// Credentials that may be minted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<CredentialsGrant>,
    /// Whether it says which policy bundles count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyGrant>,
}

/// Which command profiles may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecGrant {
    /// Profile ids of the policy bundle.
    pub profiles: BTreeSet<String>,
}

/// Which paths may be read or written: `root` or `root/below/it`. Write includes read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilesGrant {
    /// Read only.
    pub read: BTreeSet<String>,
    /// Read and write.
    pub write: BTreeSet<String>,
}

/// Which hosts may be reached by transfers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransferGrant {
    /// `host:port`, exactly as the reference writes it.
    pub hosts: BTreeSet<String>,
    /// Types of credentials that transfers may carry, where a step before has had one minted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub credentials: BTreeSet<CredentialType>,
}

/// Which facts may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FactsGrant {
    /// Names of functions of the `facts` interface.
    pub read: BTreeSet<Fact>,
}

/// A group of facts about the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// Host name, operating system, kernel, boot.
    System,
    /// Memory and swap.
    Memory,
    /// Mounted file systems.
    Filesystems,
    /// Processes: name, state, age.
    Processes,
    /// The kernel log.
    KernelLog,
}

/// Whether the state of the GPUs may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuGrant {
    /// The snapshot.
    pub read: bool,
}

/// Which HTTP requests may be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpGrant {
    /// Each allows its methods at its place.
    pub requests: Vec<HttpRule>,
}

/// Some methods at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpRule {
    /// `https://host/path/`, and all below it.
    pub url: WebPrefix,
    /// The methods.
    pub methods: BTreeSet<Method>,
}

/// Which credentials may be minted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CredentialsGrant {
    /// Each allows one type at its scope.
    pub mint: BTreeSet<CredentialRule>,
}

/// Whether the node may be told which policy bundles count there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyGrant {
    /// By an activation that is signed.
    pub activate: bool,
}

impl CredentialsGrant {
    /// Whether this credential may be minted.
    #[must_use]
    pub fn allows(&self, intent: &Intent) -> bool {
        self.mint.iter().any(|rule| rule.covers(intent))
    }

    /// Whether this ceiling allows an entry: `oci_pull host:port/models/*`.
    #[must_use]
    pub fn covers(&self, entry: &str) -> bool {
        entry.parse().is_ok_and(|entry| self.mint.iter().any(|rule| rule.covers_all_of(&entry)))
    }
}

impl HttpGrant {
    /// Whether this request may be sent.
    #[must_use]
    pub fn allows(&self, method: Method, url: &WebUrl) -> bool {
        self.requests.iter().any(|rule| rule.methods.contains(&method) && rule.url.covers(url))
    }

    /// Every method and place, as `GET https://host/path/`.
    #[must_use]
    pub fn entries(&self) -> Vec<String> {
        let all = self.requests.iter().flat_map(|rule| rule.methods.iter().map(|method| (*method, &rule.url)));
        all.map(|(method, url)| format!("{method} {url}")).collect()
    }

    /// Whether this ceiling allows an entry of that form.
    #[must_use]
    pub fn covers(&self, entry: &str) -> bool {
        let read =
            entry.split_once(' ').and_then(|(method, url)| Some((method, WebPrefix::try_from(url.to_owned()).ok()?)));
        read.is_some_and(|(method, url)| {
            let has = |rule: &HttpRule| rule.methods.iter().any(|known| known.name() == method);
            self.requests.iter().any(|rule| has(rule) && rule.url.covers_all_of(&url))
        })
    }

    /// The same without the entries that `stays` refuses.
    pub(crate) fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        for rule in &mut self.requests {
            let url = rule.url.to_string();
            rule.methods.retain(|method| stays(&format!("{method} {url}")));
        }
        self.requests.retain(|rule| !rule.methods.is_empty());
    }
}

/// In a node's ceiling, an entry that allows every profile, root or host. Not valid in a grant.
pub const ANY: &str = "*";

impl Grants {
    /// The capabilities that are granted at all.
    #[must_use]
    pub fn capabilities(&self) -> BTreeSet<Capability> {
        Capability::ALL.into_iter().filter(|capability| self.has(*capability)).collect()
    }

    /// Whether the capability is granted at all.
    #[must_use]
    pub const fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Exec => self.exec.is_some(),
            Capability::Files => self.files.is_some(),
            Capability::Transfer => self.transfer.is_some(),
            Capability::Facts => self.facts.is_some(),
            Capability::Gpu => self.gpu.is_some(),
            Capability::Http => self.http.is_some(),
            Capability::Credentials => self.credentials.is_some(),
            Capability::Policy => self.policy.is_some(),
        }
    }
}

impl FilesGrant {
    /// Whether `path` (`root/below/it`) may be read.
    #[must_use]
    pub fn may_read(&self, path: &str) -> bool {
        self.may_write(path) || covers(&self.read, path)
    }

    /// Whether `path` may be written.
    #[must_use]
    pub fn may_write(&self, path: &str) -> bool {
        covers(&self.write, path)
    }
}

fn covers(prefixes: &BTreeSet<String>, path: &str) -> bool {
    prefixes.iter().any(|prefix| prefix == path || is_below(path, prefix))
}

/// Whether `path` is below `prefix`, by whole names: `models-old` is not below `models`.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "system",
            Self::Memory => "memory",
            Self::Filesystems => "filesystems",
            Self::Processes => "processes",
            Self::KernelLog => "kernel-log",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> Grants {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn nothing_is_granted_by_default() {
        assert!(Grants::default().capabilities().is_empty());
        assert!(!FilesGrant::default().may_read("models/a"));
    }

    #[test]
    fn an_unknown_capability_is_an_error_that_lists_the_valid_ones() {
        let error = serde_json::from_str::<Grants>(r#"{"shell": {}}"#).unwrap_err().to_string();
        assert!(
            error
                .contains("unknown field `shell`, expected one of `exec`, `files`, `transfer`, `facts`, `gpu`, `http`, `credentials`, `policy`"),
            "{error}"
        );
        assert!(serde_json::from_str::<Grants>(r#"{"exec": {"profile": ["a"]}}"#).is_err());
    }

    #[test]
    fn a_prefix_ends_at_a_whole_name() {
        let files = grants(r#"{"files": {"write": ["models"], "read": ["etc/app"]}}"#).files.unwrap();
        assert!(files.may_write("models/a") && files.may_read("models/a") && files.may_read("etc/app/x"));
        assert!(!files.may_write("models-old/a") && !files.may_write("etc/app/x") && !files.may_read("etc/apps"));
    }
}
