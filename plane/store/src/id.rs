//! Identifiers: ULIDs, so that they sort by the time they were made.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

/// Why a text is not an identifier.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not {what} id; write the 26 characters that the plane answered when it was made")]
pub struct ParseIdError {
    text: String,
    what: &'static str,
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Ulid);

        impl $name {
            /// Wraps a new ULID.
            #[must_use]
            pub const fn new(ulid: Ulid) -> Self {
                Self(ulid)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ulid::from_string(text)
                    .map(Self)
                    .map_err(|_| ParseIdError { text: text.chars().take(60).collect(), what: $what })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

identifier!(
    /// One bearer token.
    TokenId,
    "a token"
);
identifier!(
    /// One join token.
    JoinTokenId,
    "a join token"
);
identifier!(
    /// One version of an operation definition.
    DefinitionVersionId,
    "a definition"
);
identifier!(
    /// One operation.
    OperationId,
    "an operation"
);
identifier!(
    /// One task.
    TaskId,
    "a task"
);
identifier!(
    /// One node.
    NodeId,
    "a node"
);
identifier!(
    /// One webhook.
    WebhookId,
    "a webhook"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_anything_else_is_refused() {
        let id = OperationId::new(Ulid::from_parts(1, 2));
        assert_eq!(id.to_string().parse(), Ok(id));
        let error = "last".parse::<OperationId>().unwrap_err().to_string();
        assert!(error.starts_with("`last` is not an operation id;"), "{error}");
    }
}
