//! Names are resolved here, and only vetted addresses leave.

use std::{
    collections::BTreeSet,
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use fettle_model::egress::Egress;
use url::Host;

use crate::{
    canonical,
    mutation::{Protection, off},
    range::{Consent, Range, special},
};

/// An address that a node does not connect to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{host}` is at {address}, {}; {}", range.name, fix(host, *address, *range))]
pub struct Refused {
    /// The host as it was asked for.
    pub host: String,
    /// Where it leads.
    pub address: IpAddr,
    /// What is there.
    pub range: Range,
}

fn fix(host: &str, address: IpAddr, range: Range) -> String {
    let length = if address.is_ipv4() { 32 } else { 128 };
    match range.consent {
        Consent::Never => "nothing can allow that".to_owned(),
        Consent::Exact | Consent::Network => format!(
            "an administrator can allow it with `egress: {{ private: {{ \"{host}\": [{address}/{length}] }} }}` in the \
             policy bundle"
        ),
    }
}

/// What a lookup answers.
pub type Found = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// All addresses of `name`, of either version.
    fn lookup(&self, name: &str) -> Found;
}

/// The system's own resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> Found {
        let name = name.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    }
}

/// Decides which addresses may be connected to. Cheap to clone.
#[derive(Clone)]
pub struct Guard {
    rules: Rules,
    lookup: Arc<dyn Lookup>,
}

#[derive(Clone, Debug)]
enum Rules {
    /// Public addresses, and what a policy allows.
    Policy(Arc<Egress>),
    /// What an administrator configured by hand: everything but link-local and metadata addresses.
    Configuration,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Guard {
    /// Lets through public addresses, and the private ones that `egress` names for a host.
    #[must_use]
    pub fn of_policy(egress: &Egress) -> Self {
        Self::of_configuration().under(egress)
    }

    /// The same resolver under a policy: public addresses, and the private ones that it names.
    #[must_use]
    pub fn under(&self, egress: &Egress) -> Self {
        Self { rules: Rules::Policy(Arc::new(egress.clone())), ..self.clone() }
    }

    /// For what a program fetches by its own configuration, not for a step: also private addresses, still
    /// neither link-local ones nor those of metadata services.
    #[must_use]
    pub fn of_configuration() -> Self {
        Self { rules: Rules::Configuration, lookup: Arc::new(SystemLookup) }
    }

    /// Asks another resolver than the system's.
    #[must_use]
    pub fn with_lookup(self, lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, ..self }
    }

    /// The addresses of `host` that may be connected to; the others of them are dropped.
    ///
    /// # Errors
    /// When none is left: the first one that was refused.
    pub fn vet(&self, host: &str, addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, Refused> {
        let mut first = None;
        let mut vetted = addresses;
        vetted.retain(|address| match self.judge(host, *address) {
            Ok(()) => true,
            Err(refused) => {
                first.get_or_insert(refused);
                false
            }
        });
        match first {
            Some(refused) if vetted.is_empty() => Err(refused),
            _ => Ok(vetted),
        }
    }

    /// Whether `host` may be connected to when it is written as an address, in brackets for IPv6. A name
    /// always may be tried: it is vetted when it is resolved.
    ///
    /// # Errors
    /// When it may not.
    pub fn check_host(&self, host: &str) -> Result<(), Refused> {
        // What is no host at all is never connected to.
        Host::parse(host).map_or(Ok(()), |read| match read {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => self.check_literal(&Host::Ipv4(address)),
            Host::Ipv6(address) => self.check_literal(&Host::Ipv6(address)),
        })
    }

    /// Whether a host that is written as an address may be connected to. A name always may be tried: it is
    /// vetted when it is resolved.
    ///
    /// # Errors
    /// When it may not.
    pub fn check_literal(&self, host: &Host<&str>) -> Result<(), Refused> {
        if off(Protection::Literals) {
            return Ok(());
        }
        match host {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => self.judge(&address.to_string(), (*address).into()),
            Host::Ipv6(address) => self.judge(&address.to_string(), (*address).into()),
        }
    }

    fn judge(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        if off(Protection::Ranges) {
            return Ok(());
        }
        let leads_to = if off(Protection::Canonical) { vec![address] } else { canonical(address) };
        for address in leads_to {
            if let Some(range) = special(address)
                && !self.allows(host, address, range)
            {
                return Err(Refused { host: host.to_owned(), address, range });
            }
        }
        Ok(())
    }

    fn allows(&self, host: &str, address: IpAddr, range: Range) -> bool {
        match &self.rules {
            Rules::Configuration => range.consent == Consent::Network,
            Rules::Policy(egress) => match range.consent {
                Consent::Never => false,
                Consent::Exact => {
                    egress.networks(host).any(|net| net.addr() == address && net.prefix_len() == net.max_prefix_len())
                }
                Consent::Network => egress.networks(host).any(|net| net.contains(&address)),
            },
        }
    }

    /// Resolves a name once and vets what was found.
    async fn resolve(self, name: String) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let found: BTreeSet<IpAddr> = self.lookup.lookup(&name).await?.into_iter().collect();
        let mut vetted = self.vet(&name, found.into_iter().collect())?;
        if off(Protection::ResolveOnce) {
            vetted = self.lookup.lookup(&name).await?;
        }
        // The port is set by whoever connects.
        Ok(vetted.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

impl reqwest::dns::Resolve for Guard {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let resolved = self.clone().resolve(name.as_str().to_owned());
        Box::pin(async move {
            let addresses: reqwest::dns::Addrs = Box::new(resolved.await?.into_iter());
            Ok(addresses)
        })
    }
}
