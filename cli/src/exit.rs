//! Exit codes: what a script can tell without reading.

use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was asked.
    Success = 0,
    /// The operation failed, or something else went wrong that has no code of its own.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A document, a component or the inputs break a rule.
    Invalid = 3,
    /// What was named is not there.
    NotFound = 4,
    /// No token, too few rights, or no trusted signature.
    Denied = 5,
    /// The plane or a registry does not answer; worth another try.
    Unavailable = 6,
    /// The operation was canceled.
    Canceled = 7,
    /// The state does not allow it: a version that exists with other content, an operation that is over.
    Conflict = 8,
    /// Interrupted from the keyboard.
    Interrupted = 130,
}

impl Exit {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::Invalid,
        Self::NotFound,
        Self::Denied,
        Self::Unavailable,
        Self::Canceled,
        Self::Conflict,
        Self::Interrupted,
    ];

    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The number's meaning, as `fettle exit-codes` prints it.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "it did what it was asked; an operation that was watched succeeded",
            Self::Failed => "the operation failed, or something went wrong that has no code of its own",
            Self::Usage => "the command line is wrong",
            Self::Invalid => "a document, a component, an artifact or the inputs break a rule",
            Self::NotFound => "what was named is not there",
            Self::Denied => "no token, too few rights, or no trusted signature (UNSIGNED, UNTRUSTED)",
            Self::Unavailable => "the plane or a registry does not answer; worth another try",
            Self::Canceled => "the operation was canceled",
            Self::Conflict => "the state does not allow it: another content is registered, the operation is over",
            Self::Interrupted => "interrupted with ctrl-c; an operation that was watched goes on",
        }
    }

    /// The table of all codes.
    #[must_use]
    pub fn table() -> String {
        Self::ALL.iter().map(|exit| format!("{:>5}  {}\n", exit.code(), exit.meaning())).collect()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
