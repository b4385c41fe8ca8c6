//! Protections of what goes out; attacks on them are in `egress/tests/attacks.rs`.

fettle_mutation::protections! {
    /// Special addresses are refused.
    Ranges,
    /// IPv4 addresses inside IPv6 ones are looked at.
    Canonical,
    /// Hosts written as addresses are looked at too.
    Literals,
    /// What was vetted is what is connected to.
    ResolveOnce,
    /// No redirect is followed.
    Redirects,
    /// No proxy of the environment is used.
    Proxies,
}
