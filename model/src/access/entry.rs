//! A grant, entry by entry.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use crate::grant::{ANY, Capability, Fact, Grants};

/// One thing that a grant or a ceiling names: `files.write: models`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// Of which capability.
    pub capability: Capability,
    /// The field of the capability's grant.
    pub field: String,
    /// The value, as a document writes it.
    pub value: String,
}

impl Entry {
    fn new(capability: Capability, field: &str, value: impl ToString) -> Self {
        Self { capability, field: field.to_owned(), value: value.to_string() }
    }

    /// Whether the field is a switch and not a list.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        matches!(self.capability, Capability::Gpu | Capability::Policy)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}: {}", self.capability, self.field, self.value)
    }
}

impl Grants {
    /// All that is named, by capability.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let texts = |capability, field: &'static str, values: Option<&BTreeSet<String>>| {
            let values: Vec<String> = values.into_iter().flatten().cloned().collect();
            values.into_iter().map(move |value| Entry::new(capability, field, value))
        };
        let (files, exec) = (self.files.as_ref(), self.exec.as_ref());
        let facts = self.facts.iter().flat_map(|grant| &grant.read);
        let requests = self.http.iter().flat_map(crate::grant::HttpGrant::entries);
        let carried = self.transfer.iter().flat_map(|grant| &grant.credentials);
        let minted = self.credentials.iter().flat_map(|grant| &grant.mint);
        let activates = self.policy.iter().filter(|grant| grant.activate);
        texts(Capability::Exec, "profiles", exec.map(|grant| &grant.profiles))
            .chain(texts(Capability::Files, "read", files.map(|grant| &grant.read)))
            .chain(texts(Capability::Files, "write", files.map(|grant| &grant.write)))
            .chain(texts(Capability::Transfer, "hosts", self.transfer.as_ref().map(|grant| &grant.hosts)))
            .chain(carried.map(|carried| Entry::new(Capability::Transfer, "credentials", carried)))
            .chain(facts.map(|fact| Entry::new(Capability::Facts, "read", fact)))
            .chain(self.gpu.iter().filter(|grant| grant.read).map(|_| Entry::new(Capability::Gpu, "read", true)))
            .chain(requests.map(|request| Entry::new(Capability::Http, "requests", request)))
            .chain(minted.map(|rule| Entry::new(Capability::Credentials, "mint", rule)))
            .chain(activates.map(|_| Entry::new(Capability::Policy, "activate", true)))
            .collect()
    }

    /// Whether this ceiling allows an entry.
    #[must_use]
    pub fn allows(&self, entry: &Entry) -> bool {
        let value = entry.value.as_str();
        let named = |limits: &BTreeSet<String>| limits.iter().any(|limit| limit == ANY || limit == value);
        match (entry.capability, entry.field.as_str()) {
            (Capability::Exec, _) => self.exec.as_ref().is_some_and(|grant| named(&grant.profiles)),
            (Capability::Transfer, "credentials") => self
                .transfer
                .as_ref()
                .is_some_and(|grant| grant.credentials.iter().any(|carried| carried.name() == value)),
            (Capability::Transfer, _) => self.transfer.as_ref().is_some_and(|grant| named(&grant.hosts)),
            (Capability::Files, "write") => {
                self.files.as_ref().is_some_and(|grant| named(&grant.write) || grant.may_write(value))
            }
            (Capability::Files, _) => {
                let all = |grant: &crate::grant::FilesGrant| named(&grant.read) || named(&grant.write);
                self.files.as_ref().is_some_and(|grant| all(grant) || grant.may_read(value))
            }
            (Capability::Facts, _) => {
                self.facts.as_ref().is_some_and(|grant| grant.read.iter().any(|fact: &Fact| fact.to_string() == value))
            }
            (Capability::Gpu, _) => self.gpu.as_ref().is_some_and(|grant| grant.read),
            (Capability::Http, _) => self.http.as_ref().is_some_and(|grant| grant.covers(value)),
            (Capability::Credentials, _) => self.credentials.as_ref().is_some_and(|grant| grant.covers(value)),
            (Capability::Policy, _) => self.policy.as_ref().is_some_and(|grant| grant.activate),
        }
    }

    /// What of this grant a node's ceiling does not allow; empty when all is allowed.
    #[must_use]
    pub fn beyond(&self, ceiling: &Self) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| !ceiling.allows(entry)).collect()
    }

    /// The same without some entries, and without the capabilities that `keep` does not name.
    #[must_use]
    pub fn narrowed(&self, keep: &BTreeSet<Capability>, without: &BTreeSet<Entry>) -> Self {
        let mut grants = self.clone();
        let has = |capability| keep.contains(&capability);
        let stays = |capability, field: &str, value: &dyn ToString| {
            !without.contains(&Entry::new(capability, field, value.to_string()))
        };
        grants.exec = grants.exec.filter(|_| has(Capability::Exec));
        grants.files = grants.files.filter(|_| has(Capability::Files));
        grants.transfer = grants.transfer.filter(|_| has(Capability::Transfer));
        grants.facts = grants.facts.filter(|_| has(Capability::Facts));
        grants.gpu = grants.gpu.filter(|_| has(Capability::Gpu));
        grants.http = grants.http.filter(|_| has(Capability::Http));
        grants.credentials = grants.credentials.filter(|_| has(Capability::Credentials));
        grants.policy = grants.policy.filter(|_| has(Capability::Policy));
        if let Some(exec) = &mut grants.exec {
            exec.profiles.retain(|value| stays(Capability::Exec, "profiles", value));
        }
        if let Some(files) = &mut grants.files {
            files.read.retain(|value| stays(Capability::Files, "read", value));
            files.write.retain(|value| stays(Capability::Files, "write", value));
        }
        if let Some(transfer) = &mut grants.transfer {
            transfer.hosts.retain(|value| stays(Capability::Transfer, "hosts", value));
            transfer.credentials.retain(|value| stays(Capability::Transfer, "credentials", value));
        }
        if let Some(facts) = &mut grants.facts {
            facts.read.retain(|value| stays(Capability::Facts, "read", value));
        }
        if let Some(http) = &mut grants.http {
            http.retain(|value| stays(Capability::Http, "requests", &value));
        }
        if let Some(credentials) = &mut grants.credentials {
            credentials.mint.retain(|value| stays(Capability::Credentials, "mint", value));
        }
        if let Some(gpu) = &mut grants.gpu {
            gpu.read &= stays(Capability::Gpu, "read", &true);
        }
        if let Some(policy) = &mut grants.policy {
            policy.activate &= stays(Capability::Policy, "activate", &true);
        }
        grants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> Grants {
        crate::document::read(text).unwrap()
    }

    #[test]
    fn what_is_over_the_ceiling_is_named() {
        let ceiling = grants("{files: {write: [models]}, transfer: {hosts: ['*']}, exec: {profiles: [a]}}");
        let asked = grants(
            "{files: {write: [models/x, etc], read: [models]}, transfer: {hosts: ['r:1']}, exec: {profiles: [a, b]},
              gpu: {read: true}, facts: {read: [kernel-log]}}",
        );
        let beyond: Vec<String> = asked.beyond(&ceiling).iter().map(Entry::to_string).collect();
        assert_eq!(beyond, ["exec.profiles: b", "files.write: etc", "facts.read: kernel-log", "gpu.read: true"]);
        assert!(Grants::default().beyond(&Grants::default()).is_empty());
    }

    #[test]
    fn every_entry_of_every_capability_is_denied_by_default_and_allowed_by_itself() {
        let all = grants(
            "{files: {write: [a], read: [b]}, transfer: {hosts: ['r:1'], credentials: [oci_pull]}, exec: {profiles: [p]},
              gpu: {read: true}, facts: {read: [system, kernel-log]},
              credentials: {mint: [{type: oci_pull, scope: 'r:1/models/*'}]}, policy: {activate: true},
              http: {requests: [{url: 'https://a.example/v1/', methods: [GET, POST]}]}}",
        );
        assert_eq!(all.capabilities().len(), Capability::ALL.len(), "the test knows every capability");
        let entries = all.entries();
        for capability in Capability::ALL {
            assert!(entries.iter().any(|entry| entry.capability == capability), "{capability} has no entries");
        }
        for entry in &entries {
            assert!(!Grants::default().allows(entry) && all.allows(entry), "{entry}");
            let rest = all.narrowed(&all.capabilities(), &BTreeSet::from([entry.clone()]));
            assert!(!rest.allows(entry), "{entry}");
            assert_eq!(rest.entries().len(), entries.len() - 1, "{entry}");
            let others = Capability::ALL.into_iter().filter(|one| *one != entry.capability).collect();
            assert!(!all.narrowed(&others, &BTreeSet::new()).has(entry.capability), "{entry}");
        }
    }

    #[test]
    fn requests_stay_below_the_ceiling_by_place_and_method() {
        let ceiling = grants(
            "{http: {requests: [{url: 'https://a.example/v1/', methods: [GET, POST]}, {url: '*', methods: [HEAD]}]}}",
        );
        let asked = grants(
            "{http: {requests: [{url: 'https://a.example/v1/x/', methods: [GET, DELETE, HEAD]},
              {url: 'https://a.example/', methods: [GET]}]}}",
        );
        let beyond = asked.beyond(&ceiling);
        let named: Vec<String> = beyond.iter().map(Entry::to_string).collect();
        assert_eq!(named, ["http.requests: DELETE https://a.example/v1/x/", "http.requests: GET https://a.example/"]);
        assert_eq!(asked.beyond(&Grants::default()).len(), 4);
        // The line that would allow it is one that can be written.
        let fix = super::super::fix::adding(
            super::super::Document::PolicyBundle,
            &["ceiling".to_owned()],
            &ceiling,
            &beyond[0],
        );
        let wider = grants(&format!("{{http: {{{}}}}}", fix.line));
        assert!(wider.allows(&beyond[0]) && !wider.allows(&beyond[1]), "{}", fix.line);
        let wrong = "{http: {requests: [{url: 'https://a/', methods: [TRACE]}]}}";
        assert!(crate::document::read::<Grants>(wrong).is_err());
    }

    #[test]
    fn credentials_stay_below_the_ceiling_by_type_and_scope() {
        let ceiling = grants("{credentials: {mint: [{type: oci_pull, scope: 'r:1/models/*'}]}}");
        let asked = grants(
            "{credentials: {mint: [{type: oci_pull, scope: 'r:1/models/a/*'}, {type: oci_pull, scope: 'r:1/*'},
              {type: s3_read, scope: 'r:1/models/a'}]}, transfer: {credentials: [oci_pull]}}",
        );
        let beyond = asked.beyond(&ceiling);
        let named: Vec<String> = beyond.iter().map(Entry::to_string).collect();
        let expected = [
            "transfer.credentials: oci_pull",
            "credentials.mint: oci_pull r:1/*",
            "credentials.mint: s3_read r:1/models/a",
        ];
        assert_eq!(named, expected);
        for entry in &beyond {
            let at = &["ceiling".to_owned()];
            let fix = super::super::fix::adding(super::super::Document::PolicyBundle, at, &ceiling, entry);
            let line = match entry.capability {
                Capability::Credentials => format!("{{credentials: {{{}}}}}", fix.line),
                _ => format!("{{{}}}", fix.line),
            };
            assert!(grants(&line).allows(entry), "{line}");
        }
        assert!(crate::document::read::<Grants>("{credentials: {mint: [{type: ssh_key, scope: a}]}}").is_err());
    }

    #[test]
    fn reading_is_allowed_where_writing_is() {
        let ceiling = grants("{files: {write: [models]}}");
        let entry = |field: &str, value: &str| Entry::new(Capability::Files, field, value);
        assert!(ceiling.allows(&entry("read", "models/a")) && ceiling.allows(&entry("write", "models/a")));
        assert!(!ceiling.allows(&entry("read", "models-old")));
        let ceiling = grants("{files: {read: [models]}}");
        assert!(ceiling.allows(&entry("read", "models")) && !ceiling.allows(&entry("write", "models")));
    }
}
