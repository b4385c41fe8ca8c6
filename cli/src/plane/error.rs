//! What can go wrong between this program and a plane.

use crate::{exit::Exit, plane::Problem};

/// Why the plane did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// No connection, or it broke off.
    #[error("the plane at {address} does not answer")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// Whether the request may have arrived.
        may_have_arrived: bool,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It refused.
    #[error("{}", sentence(.0))]
    Refused(Problem),
    /// The answer makes no sense.
    #[error("the plane at {address} answered something that this version of fettle does not understand")]
    Answer {
        /// Where it is.
        address: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The address is no address.
    #[error("`{0}` is not the address of a plane; write `http://host:port`")]
    Address(String),
    /// The token cannot be sent.
    #[error("the token has characters that no token has; copy it again")]
    Token,
    /// The plane was away for too long while an operation was followed.
    #[error("the plane at {address} was away for {seconds} s; the operation goes on without this program")]
    Lost {
        /// Where it should be.
        address: String,
        /// How long.
        seconds: u64,
    },
    /// The plane answered again and again, and each answer broke off without anything new.
    #[error(
        "the plane at {address} broke off {times} times in a row without saying anything new; the operation goes on \
         without this program"
    )]
    Broken {
        /// Where it is.
        address: String,
        /// How often.
        times: u32,
    },
}

fn sentence(problem: &Problem) -> String {
    if problem.code.is_empty() {
        format!("the plane answered {} and says: {}", problem.status, problem.detail)
    } else if problem.violations.is_empty() {
        problem.detail.clone()
    } else {
        format!("the request breaks {}", crate::error::count(problem.violations.len(), "rule"))
    }
}

impl PlaneError {
    /// What happened to a request that got no answer. Of the chain that the HTTP client tells, only the
    /// system's own words help anybody.
    pub(super) fn unreachable(address: String, error: reqwest::Error) -> Self {
        let may_have_arrived = !error.is_connect();
        let mut number = None;
        let mut next: Option<&dyn std::error::Error> = Some(&error);
        while let Some(cause) = next {
            number = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error).or(number);
            next = cause.source();
        }
        match number {
            Some(number) => {
                let source = Box::new(std::io::Error::from_raw_os_error(number));
                Self::Unreachable { address, may_have_arrived, source }
            }
            // The address is in the sentence already.
            None => Self::Unreachable { address, may_have_arrived, source: Box::new(error.without_url()) },
        }
    }

    /// Whether the plane may have done what it was asked, all the same.
    #[must_use]
    pub const fn may_have_arrived(&self) -> bool {
        match self {
            Self::Unreachable { may_have_arrived, .. } => *may_have_arrived,
            Self::Refused(problem) => matches!(problem.status, 408 | 500..=599),
            Self::Answer { .. } => true,
            Self::Address(_) | Self::Token | Self::Lost { .. } | Self::Broken { .. } => false,
        }
    }

    /// The exit code.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Broken { .. } => Exit::Unavailable,
            Self::Refused(problem) => match problem.status {
                400 | 413 | 422 => Exit::Invalid,
                401 | 403 => Exit::Denied,
                404 => Exit::NotFound,
                409 | 412 | 428 => Exit::Conflict,
                408 | 429 | 500..=599 => Exit::Unavailable,
                _ => Exit::Failed,
            },
            Self::Answer { .. } => Exit::Failed,
            Self::Address(_) | Self::Token => Exit::Usage,
        }
    }

    /// The problem document, when there is one.
    #[must_use]
    pub const fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::Unreachable { .. }
            | Self::Answer { .. }
            | Self::Address(_)
            | Self::Token
            | Self::Lost { .. }
            | Self::Broken { .. } => None,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => Some(
                "start the plane (`fettle dev`, or `fettle-plane serve`), or name another one with --plane or FETTLE_PLANE"
                    .to_owned(),
            ),
            Self::Broken { .. } => Some(
                "read the plane's log, and that of what stands between; `fettle operation show` says where the operation is"
                    .to_owned(),
            ),
            Self::Answer { .. } => Some("use a fettle of the same version as the plane".to_owned()),
            Self::Refused(problem) => of_code(&problem.code, problem.status),
            Self::Address(_) | Self::Token => None,
        }
    }
}

fn of_code(code: &str, status: u16) -> Option<String> {
    let help = match code {
        "access.unauthenticated" => "give a valid token with FETTLE_TOKEN or --token-file",
        "operation.unknown" => "`fettle operation list` shows those of this project",
        "project.unknown" => "name another project with --project, or use a token of this one",
        "policy.denied" => "`fettle policy explain` with the same arguments shows every rule that takes part",
        "policy.unknown" => "`fettle operation-policy list` shows what is said",
        "policy.changed" => "look at it with `fettle operation-policy show`, then try again",
        "request.too_many" => "wait a little; `fettle-plane serve --rate` sets how often a token may ask",
        "definition.unknown" => "`fettle definition list` shows what is registered",
        "node.unknown" => "`fettle node list` shows the nodes that you may see",
        _ if status >= 500 => "try again; if it stays so, read the plane's log",
        _ => return None,
    };
    Some(help.to_owned())
}
