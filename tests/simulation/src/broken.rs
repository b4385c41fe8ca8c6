//! Planes and hosts that lack one protection, to see that the laws notice.

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The store believes whoever speaks for a task, whatever the epoch.
    EpochUnchecked,
    /// Leases that nobody extends, or that never arrived, are not ended.
    LeasesNeverEnd,
    /// The plane says that it has stored reports before it has.
    ReportsNotDurable,
    /// A host that is killed forgets what it had journaled.
    JournalForgets,
}

impl Broken {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::EpochUnchecked, Self::LeasesNeverEnd, Self::ReportsNotDurable, Self::JournalForgets];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EpochUnchecked => "epoch-unchecked",
            Self::LeasesNeverEnd => "leases-never-end",
            Self::ReportsNotDurable => "reports-not-durable",
            Self::JournalForgets => "journal-forgets",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|broken| broken.name() == name)
    }
}
