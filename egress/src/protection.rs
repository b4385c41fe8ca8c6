//! What keeps attacks out, by name. All of it is always there, except in a test that takes one out.

/// One protection.
#[cfg_attr(not(feature = "mutations"), expect(unreachable_pub, reason = "tests that take one out see it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
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

/// The protections that hold.
#[derive(Clone, Debug)]
pub(crate) struct Protections {
    #[cfg(feature = "mutations")]
    removed: Vec<Protection>,
}

impl Protections {
    pub(crate) const fn all() -> Self {
        Self {
            #[cfg(feature = "mutations")]
            removed: Vec::new(),
        }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn remove(&mut self, protection: Protection) {
        self.removed.push(protection);
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn has(&self, protection: Protection) -> bool {
        !self.removed.contains(&protection)
    }

    #[cfg(not(feature = "mutations"))]
    #[expect(clippy::unused_self, reason = "with the feature, it has something to look at")]
    pub(crate) const fn has(&self, _: Protection) -> bool {
        true
    }
}
