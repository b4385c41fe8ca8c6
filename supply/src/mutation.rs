//! Protections of what is fetched and believed; attacks on them are in `supply/tests`.

fettle_mutation::protections! {
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
