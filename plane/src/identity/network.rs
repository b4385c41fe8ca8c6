//! Where somebody asks from.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use axum::{
    extract::ConnectInfo,
    http::{HeaderMap, request::Parts},
};
use ipnet::IpNet;

/// Written by each proxy on the way: who connected to it, behind those before.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// One customer of a provider, at least: an address of IPv4, and of IPv6 the first 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network(IpAddr);

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

impl Network {
    /// Of this address.
    pub(crate) const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
            }
            IpAddr::V4(_) => Self(address),
        }
    }

    /// Of those who come by none.
    pub(crate) const NONE: Self = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// Whose fault it is when something comes from there: nobody's where it is this machine, on which a proxy may speak
    /// for everybody.
    pub(crate) fn at_fault(address: IpAddr) -> Option<Self> {
        (!address.is_loopback()).then(|| Self::of(address))
    }

    /// Where a REST request comes from; none where nobody can tell.
    pub(crate) fn of_request(parts: &Parts, proxies: &[IpNet]) -> Option<Self> {
        let ConnectInfo(peer) = parts.extensions.get::<ConnectInfo<SocketAddr>>()?;
        Self::at_fault(client(peer.ip(), &parts.headers, proxies))
    }
}

/// Who is behind proxies that are trusted: the last one whom such a proxy names and who is none of them. What stands
/// before that was written by whoever asks.
fn client(peer: IpAddr, headers: &HeaderMap, proxies: &[IpNet]) -> IpAddr {
    let is_proxy = |address: &IpAddr| proxies.iter().any(|network| network.contains(address));
    if !is_proxy(&peer) {
        return peer;
    }
    let values = headers.get_all(FORWARDED_FOR).into_iter().filter_map(|value| value.to_str().ok());
    let named: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    let mut nearest = peer;
    for name in named.into_iter().rev() {
        let Ok(address) = name.parse::<IpAddr>() else { return nearest };
        nearest = address.to_canonical();
        if !is_proxy(&nearest) {
            return nearest;
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(peer: &str, forwarded: &[&str], proxies: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        let proxies: Vec<IpNet> = proxies.iter().map(|network| network.parse().unwrap()).collect();
        client(peer.parse().unwrap(), &headers, &proxies).to_string()
    }

    #[test]
    fn only_what_a_trusted_proxy_wrote_counts() {
        let proxies = ["10.0.0.0/8", "127.0.0.1/32"];
        for (peer, forwarded, expected) in [
            ("203.0.113.7", &["198.51.100.1"][..], "203.0.113.7"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["1.2.3.4", "198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("127.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["198.51.100.1, nonsense, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[], "10.0.0.1"),
        ] {
            assert_eq!(found(peer, forwarded, &proxies), expected, "{peer} {forwarded:?}");
        }
        assert_eq!(found("127.0.0.1", &["198.51.100.1"], &[]), "127.0.0.1", "nobody is trusted unless said");
    }

    #[test]
    fn a_customer_is_one_and_this_machine_is_nobody() {
        let of = |address: &str| Network::of(address.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::2"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("203.0.113.7"), of("203.0.113.8"));
        assert_eq!(Network::at_fault("127.0.0.1".parse().unwrap()), None);
        assert_eq!(Network::at_fault("::1".parse().unwrap()), None);
    }
}
