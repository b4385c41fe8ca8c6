//! Protections that a test can take out, to see that the attack they keep out gets through without them.
//!
//! A crate that protects lists what it does with [`protections!`] in a module of its own, and asks `off`
//! at each place. Without that crate's feature `mutations` the answer is the constant `false`, and the
//! question is compiled away. With it, a test can hold a `Without` for one protection of its own process;
//! nothing outside the process can, no variable and no file is read. The feature is on in the crate's own
//! tests only, which `tests/invariants` keeps.

use std::sync::atomic::{AtomicU64, Ordering};

/// Which of at most 64 protections are out now, in the whole process.
#[derive(Debug)]
pub struct Switches(AtomicU64);

impl Switches {
    /// Every protection holds.
    #[expect(clippy::new_without_default, reason = "it is made in a static, where no default can be")]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether this one is out.
    #[must_use]
    pub fn is_off(&self, number: u32) -> bool {
        self.0.load(Ordering::SeqCst) & (1 << number) != 0
    }

    /// Takes this one out, until what is answered is dropped.
    #[must_use]
    pub fn take_out(&'static self, number: u32) -> Without {
        self.0.fetch_or(1 << number, Ordering::SeqCst);
        Without { switches: self, number }
    }
}

/// As long as this lives, one protection is out, for the whole process.
#[derive(Debug)]
pub struct Without {
    switches: &'static Switches,
    number: u32,
}

impl Drop for Without {
    fn drop(&mut self) {
        self.switches.0.fetch_and(!(1 << self.number), Ordering::SeqCst);
    }
}

/// Declares the protections of a crate: an enumeration `Protection`, `off` to ask for one and, with the
/// crate's feature `mutations`, `without` to take one out and `Protection::ALL`.
///
/// To add a protection: a variant, `off(Protection::..)` at its place, and a test that runs the attack with
/// and without it.
#[macro_export]
macro_rules! protections {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One check that stands between an attack and a node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(
            not(feature = "mutations"),
            allow(dead_code, unreachable_pub, reason = "tests have more use for it")
        )]
        pub enum Protection {
            $($(#[$doc])* $name,)*
        }

        const _: () = assert!([$(Protection::$name),*].len() <= 64, "there are only 64 switches");

        #[cfg(feature = "mutations")]
        impl Protection {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        #[cfg(feature = "mutations")]
        static SWITCHES: $crate::Switches = $crate::Switches::new();

        /// Whether a test took this protection out.
        #[cfg(not(feature = "mutations"))]
        #[inline]
        pub(crate) const fn off(_protection: Protection) -> bool {
            false
        }

        /// Whether a test took this protection out.
        #[cfg(feature = "mutations")]
        pub(crate) fn off(protection: Protection) -> bool {
            SWITCHES.is_off(protection as u32)
        }

        /// Takes one protection out. Tests that do so must not run at the same time in one process.
        #[cfg(feature = "mutations")]
        #[must_use]
        pub fn without(protection: Protection) -> $crate::Without {
            SWITCHES.take_out(protection as u32)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::Switches;

    #[test]
    fn a_protection_is_out_only_as_long_as_a_test_holds_it_out() {
        static SWITCHES: Switches = Switches::new();
        let state = || [0, 7, 63].map(|number| SWITCHES.is_off(number));
        assert_eq!(state(), [false, false, false]);
        let first = SWITCHES.take_out(7);
        let second = SWITCHES.take_out(63);
        assert_eq!(state(), [false, true, true]);
        drop(first);
        assert_eq!(state(), [false, false, true]);
        drop(second);
        assert_eq!(state(), [false, false, false]);
    }
}
