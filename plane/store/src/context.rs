//! Who does something, when, and under which correlation id: what every audit row says.

use std::fmt;

use jiff::Timestamp;

use crate::id::{NodeId, TokenId};

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The holder of a bearer token.
    Token {
        /// The token.
        id: TokenId,
        /// Its name.
        name: String,
    },
    /// Somebody whom an OpenID provider vouches for.
    User {
        /// Which provider.
        issuer: String,
        /// What that one knows the person or program by.
        subject: String,
        /// What people call it by.
        name: String,
    },
    /// A node.
    Node(NodeId),
    /// Somebody who registers a node with a join token.
    Joining,
    /// Somebody who has not shown who it is.
    Stranger,
    /// Somebody with access to the data directory.
    CommandLine,
    /// The plane itself: a timer, a start.
    Plane,
}

/// What accompanies every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Who.
    pub actor: Actor,
    /// Follows the request through every log and event.
    pub correlation_id: String,
    /// When.
    pub at: Timestamp,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { id, name } => write!(f, "token:{id}:{name}"),
            Self::User { issuer, subject, name } => write!(f, "user:{issuer}#{subject}:{name}"),
            Self::Node(id) => write!(f, "node:{id}"),
            Self::Joining => f.write_str("joining-node"),
            Self::Stranger => f.write_str("stranger"),
            Self::CommandLine => f.write_str("command-line"),
            Self::Plane => f.write_str("plane"),
        }
    }
}
