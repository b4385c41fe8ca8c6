//! Protections that a test can take out, to see that the attack they keep out gets through without them.
//!
//! Code that protects asks `off` first. Without the feature `mutations` that is the constant `false`,
//! and the question is compiled away. With it, a test can hold a `Without` for one protection of its
//! own process; nothing outside the process can, no variable and no file is read. The feature is on in
//! this crate's own tests only.

/// One check that stands between an attack and this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Protection {
    /// A component that imports what it is not granted is refused.
    ImportsAreGranted,
    /// A component is linked with what it is granted, and with nothing else.
    OnlyGrantsAreLinked,
    /// Compiled code is loaded only when its authentication code is right.
    CodeIsAuthenticated,
    /// Compiled code is loaded only for the component it was compiled from.
    CodeNamesItsComponent,
    /// Compiled code is loaded only by the engine it was compiled for, patch release included.
    CodeNamesItsEngine,
    /// Compiled code comes from plain files: no link, no pipe.
    CodeFilesArePlain,
    /// Compiled code comes from files that only this user can write.
    CodeFilesAreOurs,
    /// A key that others could read or write is not used.
    CodeKeyIsPrivate,
    /// A component makes no socket and looks no name up.
    ComponentsHaveNoNetwork,
    /// A step has no source of chance: what it does follows from what it is asked and answered.
    StepsHaveNoChance,
}

/// Whether a test took this protection out.
#[cfg(not(feature = "mutations"))]
#[inline]
pub(crate) const fn off(_protection: Protection) -> bool {
    false
}

#[cfg(feature = "mutations")]
pub use armed::{Without, without};

#[cfg(feature = "mutations")]
pub(crate) use armed::off;

#[cfg(feature = "mutations")]
mod armed {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Protection;

    static OFF: AtomicU64 = AtomicU64::new(0);

    const fn bit(protection: Protection) -> u64 {
        1 << protection as u32
    }

    pub(crate) fn off(protection: Protection) -> bool {
        OFF.load(Ordering::SeqCst) & bit(protection) != 0
    }

    /// As long as this lives, one protection is out, for the whole process.
    #[derive(Debug)]
    pub struct Without(Protection);

    /// Takes one protection out. Tests that do so must not run at the same time in one process.
    #[must_use]
    pub fn without(protection: Protection) -> Without {
        OFF.fetch_or(bit(protection), Ordering::SeqCst);
        Without(protection)
    }

    impl Drop for Without {
        fn drop(&mut self) {
            OFF.fetch_and(!bit(self.0), Ordering::SeqCst);
        }
    }
}
