//! Which private networks the steps of a node may reach, and under which name.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::violation::Violation;

/// What an administrator adds to the public Internet. By default nothing: loopback, private, link-local
/// and all other special addresses are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Egress {
    /// Host, exactly as references and URLs write it, without a port: networks (`10.0.0.0/8`) in which its
    /// addresses may be. Metadata services need their exact address (`169.254.169.254/32`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub private: BTreeMap<String, BTreeSet<IpNet>>,
}

impl Egress {
    /// The networks that are allowed for a host.
    pub fn networks(&self, host: &str) -> impl Iterator<Item = &IpNet> {
        self.private.get(host).into_iter().flatten()
    }

    /// Whether nothing is added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.private.is_empty()
    }

    /// What the form alone cannot say.
    pub(crate) fn check(&self, pointer: &str, found: &mut Vec<Violation>) {
        for (host, networks) in &self.private {
            let mut wrong = |message: String| found.push(Violation::new(format!("{pointer}/private/{host}"), message));
            match url::Host::parse(&bracketed(host)) {
                Ok(read) if unbracketed(&read) == *host && !host.ends_with('.') => {}
                Ok(read) => {
                    wrong(format!("write the host as it is read: `{}`", unbracketed(&read).trim_end_matches('.')))
                }
                Err(error) => wrong(format!("`{host}` is not a host: {error}")),
            }
            if networks.is_empty() {
                wrong("name at least one network, like 10.0.0.0/8".to_owned());
            }
            for network in networks.iter().filter(|network| network.trunc() != **network) {
                wrong(format!("`{network}` has bits beyond its prefix; write `{}`", network.trunc()));
            }
        }
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn unbracketed(host: &url::Host) -> String {
    host.to_string().trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_networks_have_one_spelling() {
        for (text, expected) in [
            ("private: { registry.internal: [10.0.0.0/8], '127.0.0.1': [127.0.0.1/32], '::1': ['::1/128'] }", &[][..]),
            ("private: { Registry.internal: [10.0.0.0/8] }", &["as it is read: `registry.internal`"]),
            ("private: { registry.internal.: [10.0.0.0/8] }", &["as it is read: `registry.internal`"]),
            ("private: { '0x7f.1': [127.0.0.0/8] }", &["as it is read: `127.0.0.1`"]),
            ("private: { 'a b': [10.0.0.0/8] }", &["is not a host"]),
            ("private: { a: [] }", &["at least one network"]),
            ("private: { a: [10.0.0.1/8] }", &["write `10.0.0.0/8`"]),
        ] {
            let egress: Egress = crate::document::read(text).unwrap();
            let mut found = Vec::new();
            egress.check("/egress", &mut found);
            assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
            for (violation, words) in found.iter().zip(expected) {
                assert!(violation.to_string().contains(words), "{violation}");
            }
        }
        for wrong in ["private: { a: [10.0.0.1] }", "private: { a: ['*'] }", "public: {}"] {
            assert!(crate::document::read::<Egress>(wrong).is_err(), "{wrong}");
        }
    }
}
