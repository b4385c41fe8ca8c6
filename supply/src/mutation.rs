//! Protections that a test can take out, to see that the attack they keep out gets through without them.
//!
//! Code that protects asks `off` first. Without the feature `mutations` that is the constant `false`,
//! and the question is compiled away. With it, a test can hold a `Without` for one protection of its
//! own process; nothing outside the process can, no variable and no file is read. The feature is on in
//! this crate's own tests only, which `tests/invariants` keeps.
//!
//! To add one: a variant here, `off(Protection::..)` at the place, and an attack in
//! `supply/tests/attacks` that runs with and without it.

macro_rules! protections {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One check that stands between an attack and a node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        #[cfg_attr(
            not(feature = "mutations"),
            allow(dead_code, unreachable_pub, reason = "tests have more use for it")
        )]
        pub enum Protection {
            $($(#[$doc])* $name,)*
        }

        #[cfg(feature = "mutations")]
        impl Protection {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

protections! {
    /// An empty `anyOf` or `allOf` is an error.
    NoEmptyLists,
    /// A threshold of zero is an error.
    NoZeroThreshold,
    /// An artifact without signatures is refused, whatever the policy asks of signatures.
    NoSignaturesNoTrust,
    /// A registry that fails is not one that says "no signature".
    OutageIsNoAnswer,
    /// All that a rule asks for is in one signature.
    OneSignaturePerRule,
    /// A prefix ends with its slash.
    PrefixEndsWithSlash,
    /// A prefix is compared from the first character.
    PrefixIsAnchored,
    /// Annotations are read from what was signed, never from beside it.
    AnnotationsAreSigned,
    /// A signer counts once, however many signatures it made.
    SignersAreDistinct,
    /// What is older than what was seen is refused.
    NoRollBack,
    /// A verdict is kept for one policy only.
    VerdictNamesPolicy,
    /// A signature counts for the digest that it names.
    SubjectIsTheArtifact,
    /// One manifest, never a list of them.
    NoIndex,
    /// One layer, never more.
    OneLayer,
    /// No `urls` field in a descriptor.
    NoUrls,
    /// The store hashes what it reads.
    StoreIsHashed,
    /// The store follows no link.
    StoreFollowsNoLink,
    /// A digest on the deny list is refused, whoever signed it.
    DeniedIsRefused,
    /// A new trust policy is signed as the current one demands.
    RotationIsSigned,
    /// A new trust policy is newer than the current one.
    RotationIsNewer,
    /// A bundle is of the version whose rules are known.
    BundleIsOfKnownVersion,
    /// A bundle that is looked at as a signature is small.
    BundleSizeIsBounded,
    /// No more signatures are looked at than a bound.
    SignatureCountIsBounded,
    /// Who a certificate names is proven before it is believed.
    IdentityIsProven,
    /// A certificate chains to an authority of the trusted root, in its time.
    CertificateChains,
    /// A certificate was in a certificate transparency log of the trusted root.
    CertificateIsLogged,
    /// A signature was in a transparency log of the trusted root.
    SignatureIsLogged,
    /// A statement is about one artifact only.
    OneSubject,
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
