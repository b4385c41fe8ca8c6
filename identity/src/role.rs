//! What a certificate's holder is, as a URI in its subject alternative names (the form of SPIFFE IDs).

/// The trust domain of all certificates. The authority is what tells one installation from another.
const DOMAIN: &str = "spiffe://fettle/";

/// What the holder of a certificate is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A plane: it may stand at either end of a connection.
    Plane,
    /// The node with this id: it may only call.
    Node(String),
    /// A plane's key for tasks: it signs them, and opens no connection.
    TaskSigner,
}

impl Role {
    /// As it is written into a certificate.
    #[must_use]
    pub fn uri(&self) -> String {
        match self {
            Self::Plane => format!("{DOMAIN}plane"),
            Self::Node(id) => format!("{DOMAIN}node/{id}"),
            Self::TaskSigner => format!("{DOMAIN}plane/tasks"),
        }
    }

    /// Reads it back; none where it is not one of ours.
    #[must_use]
    pub fn from_uri(uri: &str) -> Option<Self> {
        match uri.strip_prefix(DOMAIN)?.split_once('/') {
            None if uri.ends_with("/plane") => Some(Self::Plane),
            Some(("plane", "tasks")) => Some(Self::TaskSigner),
            Some(("node", id)) if !id.is_empty() && !id.contains('/') => Some(Self::Node(id.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_back_as_it_was_written_and_nothing_else_is_a_role() {
        for role in [Role::Plane, Role::Node("01K0000000000000000000000A".to_owned()), Role::TaskSigner] {
            assert_eq!(Role::from_uri(&role.uri()), Some(role));
        }
        for other in ["spiffe://fettle/", "spiffe://fettle/node/", "spiffe://fettle/node/a/b", "spiffe://other/plane"] {
            assert_eq!(Role::from_uri(other), None, "{other}");
        }
        for other in [
            "spiffe://fettle/planes",
            "spiffe://fettle/plane/task",
            "spiffe://fettle/my/plane",
            "plane",
            "",
            "spiffe://fettle/node",
        ] {
            assert_eq!(Role::from_uri(other), None, "{other}");
        }
    }
}
