//! Everything a command can fail with, and what each means to a script.

use std::{io, path::PathBuf};

use fettle_host::{executor::journal::JournalError, replay::ReplayError, sandbox::LoadError};
use fettle_model::{
    cassette::CassetteError, document::DocumentError, failure::FailureClass, operation::OperationStatus,
    violation::Violations,
};
use fettle_supply::{
    ClientError as TlsError, KeyError, LayoutError, Outage, RotationError, SupplyError, TrustError, TrustPolicyError,
    Verdict,
};

use crate::{exit::Exit, login::LoginError, plane::PlaneError};

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// An option or a setting is missing.
    #[error("{problem}")]
    Missing {
        /// What is missing.
        problem: String,
        /// How to give it.
        fix: String,
    },
    /// What was named, or has to be there, is not.
    #[error("{problem}")]
    NotThere {
        /// What.
        problem: String,
        /// How to get it, or to name another.
        fix: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A directory cannot be used as an OCI image layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Standard output cannot be written.
    #[error("cannot write the result")]
    Output(#[source] io::Error),
    /// A document has the wrong form.
    #[error("{} is not a valid {what}", path.display())]
    Document {
        /// Which file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What is wrong.
        #[source]
        source: DocumentError,
    },
    /// A document, or the inputs, break rules.
    #[error("{subject} breaks {}", count(violations.0.len(), "rule"))]
    Broken {
        /// What.
        subject: String,
        /// All of the rules.
        violations: Violations,
    },
    /// A document that was signed has the wrong form.
    #[error("{subject} is signed and is not a valid {what}")]
    SignedDocument {
        /// Which artifact.
        subject: String,
        /// What it should be.
        what: &'static str,
        /// What is wrong.
        #[source]
        source: DocumentError,
    },
    /// A key cannot be used.
    #[error("cannot use the key {}", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: KeyError,
    },
    /// A trust policy cannot be used.
    #[error("cannot use the trust policy {}", path.display())]
    Trust {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: TrustPolicyError,
    },
    /// It is not known whose signatures count.
    #[error(transparent)]
    NoTrust(#[from] TrustError),
    /// A trust policy does not take effect.
    #[error(transparent)]
    Rotation(#[from] RotationError),
    /// An artifact cannot be pushed, fetched or trusted.
    #[error(transparent)]
    Supply(#[from] SupplyError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Something is no component, or one that cannot run.
    #[error("{} is no step that can be published", path.display())]
    Component {
        /// Which file, or the reference.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: LoadError,
    },
    /// A component is not what it says.
    #[error("{} is no step that can be published: {reason}", path.display())]
    Refused {
        /// Which file.
        path: PathBuf,
        /// Which rule it breaks, and the fix.
        reason: String,
    },
    /// A crate does not become a component.
    #[error("{problem}")]
    Build {
        /// What went wrong.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// This machine cannot run components.
    #[error("components cannot be run on this machine: {0}")]
    Sandbox(String),
    /// A file is no cassette.
    #[error("{} is no cassette that can be replayed", path.display())]
    Cassette {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: CassetteError,
    },
    /// A host's journal cannot be read.
    #[error(transparent)]
    Journal(JournalError),
    /// A component cannot be run against recorded or hand-written answers.
    #[error("{} cannot be run here", path.display())]
    Replay {
        /// Which component.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ReplayError,
    },
    /// A component may not run on this machine.
    #[error("{problem}")]
    NotGranted {
        /// What is missing.
        problem: String,
    },
    /// A replay differs, or a case is not as expected; what there is to say was shown already.
    #[error("{0}")]
    Differs(&'static str),
    /// A step that was run here failed; what there is to say was shown already.
    #[error("the step failed")]
    StepFailed {
        /// What may be done about it.
        class: FailureClass,
    },
    /// The plane refused, or does not answer.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// Nobody is logged in.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// A step lacks statements that it must have.
    #[error("{reference} has no {missing} by somebody whom the trust policy names, about this component")]
    Unattested {
        /// Which.
        reference: String,
        /// Types of what is missing.
        missing: String,
    },
    /// Whoever read standard output has seen enough (`| head`).
    #[error("nobody reads the result any more")]
    EnoughRead,
    /// A submission whose fate is not known.
    #[error("nobody knows whether the operation was submitted; its idempotency key is `{key}`")]
    Unconfirmed {
        /// With it, sending the request again makes no second operation.
        key: String,
        /// What happened.
        #[source]
        source: PlaneError,
    },
    /// `fettle dev` cannot run.
    #[error("the development system cannot run")]
    Development(#[source] anyhow::Error),
    /// An operation ended otherwise than well; what there is to say was shown already.
    #[error("operation {id} {status}")]
    Ended {
        /// Which.
        id: String,
        /// How.
        status: OperationStatus,
    },
    /// A negative verdict; what there is to say was shown already.
    #[error("{verdict}")]
    Verdict {
        /// Which.
        verdict: Verdict,
    },
    /// The verdict UNAVAILABLE, because the registry says that it has no such thing.
    #[error("UNAVAILABLE")]
    VerdictMissing,
    /// Ctrl-c.
    #[error("interrupted")]
    Interrupted,
}

/// `1 rule`, `2 rules`.
pub(crate) fn count(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}

impl CommandError {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Missing { .. } => Exit::Usage,
            Self::NotThere { .. } => Exit::NotFound,
            Self::EnoughRead => Exit::Success,
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Exit::NotFound,
            Self::NoTrust(TrustError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            Self::Key { source: KeyError::Read { source, .. }, .. } if source.kind() == io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Output(_)
            | Self::Tls(_)
            | Self::Layout(_)
            | Self::Build { .. }
            | Self::Sandbox(_)
            | Self::Journal(_)
            | Self::Key { .. }
            | Self::Development(_) => Exit::Failed,
            Self::Document { .. }
            | Self::Broken { .. }
            | Self::SignedDocument { .. }
            | Self::Trust { .. }
            | Self::NoTrust(_)
            | Self::Component { .. }
            | Self::Refused { .. } => Exit::Invalid,
            Self::Rotation(error) => of_rotation(error),
            Self::Supply(error) => of_supply(error),
            Self::VerdictMissing => Exit::NotFound,
            Self::Cassette { .. } | Self::Replay { .. } => Exit::Invalid,
            Self::NotGranted { .. } | Self::StepFailed { class: FailureClass::Denied } => Exit::Denied,
            Self::StepFailed { class: FailureClass::InvalidInput } => Exit::Invalid,
            Self::StepFailed { .. } | Self::Differs(_) => Exit::Failed,
            Self::Unattested { .. } | Self::Login(LoginError::Refused { .. }) => Exit::Denied,
            Self::Login(LoginError::Unavailable { .. }) => Exit::Unavailable,
            Self::Login(LoginError::Issuer(_) | LoginError::NoDevices(_)) => Exit::Usage,
            Self::Verdict { verdict } => of_verdict(*verdict),
            Self::Plane(error) | Self::Unconfirmed { source: error, .. } => error.exit(),
            Self::Ended { status: OperationStatus::Canceled, .. } => Exit::Canceled,
            Self::Ended { .. } => Exit::Failed,
            Self::Interrupted => Exit::Interrupted,
        }
    }

    /// Whether everything was shown already.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        matches!(
            self,
            Self::Ended { .. }
                | Self::Verdict { .. }
                | Self::VerdictMissing
                | Self::Differs(_)
                | Self::StepFailed { .. }
                | Self::Interrupted
                | Self::EnoughRead
        )
    }

    /// Why standard output cannot be written.
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::EnoughRead } else { Self::Output(error) }
    }

    /// What went wrong between this program and a plane, if that is what went wrong.
    pub(crate) const fn plane(&self) -> Option<&PlaneError> {
        if let Self::Plane(source) | Self::Unconfirmed { source, .. } = self { Some(source) } else { None }
    }

    /// What to do about it, where the sentence does not say.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        if let Self::Missing { fix, .. } | Self::NotThere { fix, .. } | Self::Build { fix, .. } = self {
            return Some(fix.clone());
        }
        if let Self::Unconfirmed { key, .. } = self {
            return Some(format!(
                "send the same command again with `--idempotency-key {key}`: it makes the operation, or finds it"
            ));
        }
        if let Self::Plane(error) = self {
            return error.help();
        }
        if matches!(self, Self::Unattested { .. }) {
            let help = "build it with `fettle step build`, and attach what that wrote with `fettle step attest`";
            return Some(help.to_owned());
        }
        let Self::Key { source, .. } = self else { return None };
        let help = match source {
            KeyError::Private(_) => "put the password that the key was made with into FETTLE_KEY_PASSWORD",
            KeyError::Read { .. } => "make a key with `fettle key generate`, or name another one with --key",
            KeyError::Generate(_) | KeyError::Public(_) | KeyError::Write { .. } | KeyError::Sign(_) => return None,
        };
        Some(help.to_owned())
    }
}

fn of_supply(error: &SupplyError) -> Exit {
    match error {
        SupplyError::Unavailable { reason: Outage::Missing(_), .. } => Exit::NotFound,
        error => error.verdict().map_or(Exit::Failed, of_verdict),
    }
}

fn of_rotation(error: &RotationError) -> Exit {
    match error {
        RotationError::NotAccepted { source, .. } | RotationError::Fetch(source) => of_supply(source),
        RotationError::NotNewer { .. } => Exit::Conflict,
        RotationError::NotAPolicy { .. } | RotationError::Changed { .. } | RotationError::NoCurrent(_) => Exit::Invalid,
        RotationError::Store(_) | RotationError::NoDirectory => Exit::Failed,
    }
}

const fn of_verdict(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Unsigned | Verdict::Untrusted => Exit::Denied,
        Verdict::Unavailable => Exit::Unavailable,
        Verdict::Malformed => Exit::Invalid,
    }
}
