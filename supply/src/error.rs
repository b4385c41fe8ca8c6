//! Verdicts on artifacts, and everything that leads to one.

use std::{error::Error, fmt, path::PathBuf, sync::Arc, time::Duration};

use fettle_egress::Refused;
use fettle_model::digest::Digest;

use crate::{
    kind::ArtifactKind,
    store::StoreError,
    trust::{Chain, TrustError},
};

/// A lower error, shared: requests that wait for one fetch all get its error.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Why an artifact may not be used. One is never reported for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody signed it.
    Unsigned,
    /// Nobody signed it whom the trust policy names.
    Untrusted,
    /// The registry did not answer, or not in time, or not to the end. Worth another try.
    Unavailable,
    /// It is not what its digest, its size or its kind promises.
    Malformed,
}

impl Verdict {
    /// The word in messages and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsigned => "UNSIGNED",
            Self::Untrusted => "UNTRUSTED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Malformed => "MALFORMED",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What went wrong with an artifact. `artifact` is the reference, or the repository while something
/// is pushed that has no reference yet.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SupplyError {
    /// Nobody signed it.
    #[error("UNSIGNED: {artifact} has no signature; the trust policy wants for the kind `{}`: {needed}", kind.name())]
    Unsigned {
        /// What.
        artifact: String,
        /// As what it was asked for.
        kind: ArtifactKind,
        /// What the trust policy wants.
        needed: String,
    },
    /// Nobody signed it whom the trust policy names.
    #[error("UNTRUSTED: {artifact} {reason}")]
    Untrusted {
        /// What.
        artifact: String,
        /// Why not.
        reason: Distrust,
    },
    /// The registry did not deliver.
    #[error("UNAVAILABLE: {artifact}: {reason}")]
    Unavailable {
        /// What.
        artifact: String,
        /// How it failed.
        reason: Outage,
        /// The error below, where there is one.
        #[source]
        source: Option<Cause>,
    },
    /// It is not what it should be.
    #[error("MALFORMED: {artifact}: {reason}")]
    Malformed {
        /// What.
        artifact: String,
        /// Which rule it broke.
        reason: Defect,
    },
    /// It is not known whose signatures count; this says nothing about the artifact.
    #[error("it cannot be decided whether {artifact} is trusted")]
    Trust {
        /// What.
        artifact: String,
        /// The error below.
        #[source]
        source: Arc<TrustError>,
    },
    /// The content store failed; this says nothing about the artifact.
    #[error("the content store could not keep or read {artifact}")]
    Store {
        /// What.
        artifact: String,
        /// The error below.
        #[source]
        source: StoreError,
    },
    /// A file to push cannot be read.
    #[error("cannot read {} to push it", path.display())]
    LocalFile {
        /// The file.
        path: PathBuf,
        /// The error below.
        #[source]
        source: Cause,
    },
    /// The signature could not be made.
    #[error("cannot sign {artifact}")]
    Signing {
        /// What.
        artifact: String,
        /// The error below.
        #[source]
        source: Cause,
    },
}

impl SupplyError {
    /// The verdict on the artifact; none for failures of this machine.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Unsigned { .. } => Some(Verdict::Unsigned),
            Self::Untrusted { .. } => Some(Verdict::Untrusted),
            Self::Unavailable { .. } => Some(Verdict::Unavailable),
            Self::Malformed { .. } => Some(Verdict::Malformed),
            Self::Trust { .. } | Self::Store { .. } | Self::LocalFile { .. } | Self::Signing { .. } => None,
        }
    }

    /// What each signature turned out to be, where the verdict rests on signatures.
    #[must_use]
    pub const fn chain(&self) -> Option<&Chain> {
        match self {
            Self::Untrusted { reason: Distrust::NotEnough(chain), .. }
            | Self::Malformed { reason: Defect::Signatures(chain), .. } => Some(chain),
            _ => None,
        }
    }

    /// Whether the same request may succeed later with nobody changing anything.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { reason, .. } => reason.is_transient(),
            Self::Unsigned { .. }
            | Self::Untrusted { .. }
            | Self::Malformed { .. }
            | Self::Trust { .. }
            | Self::Store { .. }
            | Self::LocalFile { .. }
            | Self::Signing { .. } => false,
        }
    }
}

/// Why signatures that exist do not suffice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// What is there does not meet what the policy wants.
    #[error(
        "has {} signature(s), which are not what the trust policy wants for the kind `{}` ({}): {_0}; have it signed \
         by whom the policy names, or change the policy", _0.findings.len(), _0.kind.name(), _0.needed
    )]
    NotEnough(Box<Chain>),
    /// An administrator refuses this very content.
    #[error("holds {digest}, which the trust policy denies ({reason}); use another version")]
    Denied {
        /// Of the manifest or of a part.
        digest: Digest,
        /// What the policy says.
        reason: String,
    },
    /// The policy names nobody at all for the kind.
    #[error("is of the kind `{}`, for which the trust policy names nobody; add a rule under `{}`", .0.name(), .0.name())]
    KindNotTrusted(ArtifactKind),
}

/// How a registry failed to deliver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Outage {
    /// No connection.
    #[error("cannot connect to the registry; check that it runs and that this machine may reach it")]
    Down,
    /// This machine does not connect there.
    #[error(transparent)]
    Refused(Refused),
    /// Nothing came for too long.
    #[error("the registry was silent for {0:?}; check its load and the network")]
    Silent(Duration),
    /// It came, but not in time.
    #[error("the transfer did not end within {0:?}; check the registry's load and the network")]
    Slow(Duration),
    /// The connection ended early.
    #[error("the connection broke off after {received} bytes; try again")]
    BrokeOff {
        /// Bytes of the body that came.
        received: u64,
    },
    /// It is not there.
    #[error("the registry does not have {0}; push it there, or correct the reference")]
    Missing(String),
    /// The registry wants to know who asks.
    #[error("the registry answered {0} to an anonymous request; allow anonymous reading, or use a mirror that does")]
    NotAllowed(u16),
    /// The registry points elsewhere.
    #[error("the registry redirects to {0}, and redirects are not followed; name the registry that holds the content")]
    Redirected(String),
    /// Some other answer.
    #[error("the registry answered {status}{detail}")]
    Status {
        /// HTTP status.
        status: u16,
        /// What it said, with a leading colon, or nothing.
        detail: String,
    },
    /// The answer makes no sense as an answer of a registry.
    #[error("the registry broke the distribution protocol: {0}")]
    Protocol(String),
    /// It is not in the layout that has the rest of it.
    #[error("the layout {} does not have {what}; copy the artifact there again, whole", layout.display())]
    NotInLayout {
        /// What is missing.
        what: String,
        /// The layout's directory.
        layout: PathBuf,
    },
    /// The file system below a layout failed.
    #[error("the layout {} cannot be used; check the directory and its permissions", .0.display())]
    LayoutUnreadable(PathBuf),
    /// The program ends.
    #[error("this program is shutting down; try again")]
    Stopped,
    /// Trusted signatures may exist, but the registry cannot be asked.
    #[error(
        "the signatures at hand do not suffice ({0}) and the registry could not be asked for newer ones; check that \
         it runs"
    )]
    NoFreshSignatures(String),
}

impl Outage {
    /// Whether the same request may succeed later with nobody changing anything.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Down
            | Self::Silent(_)
            | Self::Slow(_)
            | Self::BrokeOff { .. }
            | Self::Stopped
            | Self::NoFreshSignatures(_) => true,
            Self::Status { status, .. } => *status >= 500 || *status == 429 || *status == 408,
            Self::Refused(_)
            | Self::Missing(_)
            | Self::NotAllowed(_)
            | Self::Redirected(_)
            | Self::Protocol(_)
            | Self::NotInLayout { .. }
            | Self::LayoutUnreadable(_) => false,
        }
    }
}

/// Which rule an artifact broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The bytes are not those that the digest names.
    #[error(
        "its {what} has the digest {actual}, not {expected}: the bytes were changed; push the original again, and \
         find out who changed it"
    )]
    ChangedBytes {
        /// Which part.
        what: String,
        /// What was asked for.
        expected: Digest,
        /// What came.
        actual: Digest,
    },
    /// More than allowed, or more than promised.
    #[error("its {what} is larger than {limit} bytes, which is {rule}; make it smaller")]
    TooLarge {
        /// Which part.
        what: String,
        /// Bytes.
        limit: u64,
        /// Where the limit comes from.
        rule: &'static str,
    },
    /// The right bytes under a wrong size.
    #[error("its {what} has {actual} bytes instead of the {expected} that its manifest gives; push it again")]
    Size {
        /// Which part.
        what: String,
        /// Bytes, as the manifest says.
        expected: u64,
        /// Bytes.
        actual: u64,
    },
    /// A manifest list or image index.
    #[error(
        "it is an index of several manifests (`{0}`), and only one manifest can be signed for; reference one of its \
         manifests"
    )]
    Index(String),
    /// A manifest of another media type or version.
    #[error(
        "its manifest is `{media_type}` of version {version}; push it as `{expected}` of version 2",
        expected = crate::kind::MANIFEST_MEDIA_TYPE
    )]
    ManifestType {
        /// What it says it is.
        media_type: String,
        /// Its `schemaVersion`; 0 when it has none.
        version: u64,
    },
    /// Not an OCI manifest at all.
    #[error("its manifest cannot be read ({0}); push it again with `fettle`")]
    Manifest(String),
    /// A descriptor sends the reader to other places.
    #[error("its {0} has a `urls` field, which sends readers to other servers; push the content itself")]
    Urls(String),
    /// Not exactly one layer.
    #[error("it has {count} layers, and a {kind} has exactly one; push it again with `fettle`")]
    Layers {
        /// How many.
        count: usize,
        /// As what it was asked for.
        kind: ArtifactKind,
    },
    /// Another kind of content.
    #[error("its {what} is `{found}`, and that of a {kind} is `{expected}`; push it as a {kind}")]
    MediaType {
        /// Which part.
        what: &'static str,
        /// What it says it is.
        found: String,
        /// What it should be.
        expected: &'static str,
        /// As what it was asked for.
        kind: ArtifactKind,
    },
    /// The configuration is not that of a step.
    #[error("its configuration {0}; push it again with `fettle`")]
    Config(String),
    /// A document that is not canonical JSON.
    #[error("its content is not canonical JSON (RFC 8785): {0}; push it with `fettle`, which writes that form")]
    NotCanonical(String),
    /// Not one of its signatures can be read.
    #[error("none of its {} signature(s) can be read: {_0}; sign it again", _0.findings.len())]
    Signatures(Box<Chain>),
    /// A signature whose payload is unreadable.
    #[error("its signature cannot be read ({0}); sign it again")]
    Signature(String),
}
