//! Which addresses are not of the public Internet, and why. From IANA's registries of special-purpose
//! addresses; the metadata services from the documentation of the clouds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far an address can be allowed by a node's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Nobody can: it is no address of a single machine.
    Never,
    /// Only when the policy writes exactly this address: behind it are the credentials of the machine.
    Exact,
    /// When it is within a network that the policy names.
    Network,
}

/// Why an address is not reached without being allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// For an error message, with its article.
    pub name: &'static str,
    /// What it takes to allow it.
    pub consent: Consent,
}

const fn range(name: &'static str, consent: Consent) -> Range {
    Range { name, consent }
}

const METADATA: Range = range("an address of a metadata service", Consent::Exact);
const UNASSIGNED: Range = range("an address that is not assigned to the public Internet", Consent::Network);

/// Network, length of its prefix, what it is. The first match counts.
const VERSION_4: [([u8; 4], u8, Range); 20] = [
    ([169, 254, 169, 254], 32, METADATA),
    ([169, 254, 170, 2], 32, METADATA),
    ([100, 100, 100, 200], 32, METADATA),
    ([168, 63, 129, 16], 32, METADATA),
    ([192, 0, 0, 192], 32, METADATA),
    ([0, 0, 0, 0], 8, range("an unspecified address", Consent::Never)),
    ([255, 255, 255, 255], 32, range("the broadcast address", Consent::Never)),
    ([224, 0, 0, 0], 4, range("a multicast address", Consent::Never)),
    ([127, 0, 0, 0], 8, range("a loopback address", Consent::Network)),
    ([10, 0, 0, 0], 8, range("a private address", Consent::Network)),
    ([172, 16, 0, 0], 12, range("a private address", Consent::Network)),
    ([192, 168, 0, 0], 16, range("a private address", Consent::Network)),
    ([169, 254, 0, 0], 16, range("a link-local address", Consent::Exact)),
    ([100, 64, 0, 0], 10, range("an address of carrier-grade NAT", Consent::Network)),
    ([192, 0, 0, 0], 24, range("an address reserved for protocols", Consent::Network)),
    ([192, 88, 99, 0], 24, range("a relay of 6to4", Consent::Network)),
    ([198, 18, 0, 0], 15, range("an address for benchmarks", Consent::Network)),
    ([192, 0, 2, 0], 24, range("an address for documentation", Consent::Network)),
    ([198, 51, 100, 0], 24, range("an address for documentation", Consent::Network)),
    ([203, 0, 113, 0], 24, range("an address for documentation", Consent::Network)),
];

const RESERVED_4: Range = range("a reserved address", Consent::Network);

const VERSION_6: [([u16; 8], u8, Range); 13] = [
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0; 8], 128, range("the unspecified address", Consent::Never)),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, range("the loopback address", Consent::Network)),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, range("a multicast address", Consent::Never)),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, range("a link-local address", Consent::Exact)),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, range("a site-local address", Consent::Network)),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, range("a unique local address", Consent::Network)),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, range("an address of a local NAT64", Consent::Network)),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, range("an address reserved for protocols", Consent::Network)),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, range("an address for documentation", Consent::Network)),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, range("an address for documentation", Consent::Network)),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, range("an address that discards", Consent::Never)),
];

/// Why this address is not reached without being allowed; none for one of the public Internet. The
/// address is taken as it is: see [`canonical`](crate::canonical).
#[must_use]
pub fn special(address: IpAddr) -> Option<Range> {
    match address {
        IpAddr::V4(address) => special_4(address),
        IpAddr::V6(address) => special_6(address),
    }
}

fn special_4(address: Ipv4Addr) -> Option<Range> {
    let bits = u32::from(address);
    let is_in = |network: [u8; 4], length: u8| {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        bits & mask == u32::from_be_bytes(network) & mask
    };
    let found = VERSION_4.iter().find(|(network, length, _)| is_in(*network, *length));
    found.map(|(_, _, range)| *range).or_else(|| is_in([240, 0, 0, 0], 4).then_some(RESERVED_4))
}

fn special_6(address: Ipv6Addr) -> Option<Range> {
    let bits = u128::from(address);
    let is_in = |network: [u16; 8], length: u8| {
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        bits & mask == u128::from(Ipv6Addr::from(network)) & mask
    };
    let found = VERSION_6.iter().find(|(network, length, _)| is_in(*network, *length));
    // Of IPv6, only 2000::/3 is public at all.
    let public = is_in([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
    found.map(|(_, _, range)| *range).or_else(|| (!public).then_some(UNASSIGNED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_range_is_known_and_the_public_internet_is_not_one() {
        for special_one in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::2",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fdff::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "100::1",
            "64:ff9b:1::1",
            "5f00::1",
            "4000::1",
            "1::1",
        ] {
            assert!(special(special_one.parse().unwrap()).is_some(), "{special_one}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.255.255",
            "172.32.0.1",
            "192.167.255.255",
            "192.169.0.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "2001:4860::8888",
        ] {
            assert_eq!(special(public.parse().unwrap()), None, "{public}");
        }
    }

    #[test]
    fn credentials_of_the_machine_need_their_exact_address_and_crowds_are_never_reached() {
        let consent = |text: &str| special(text.parse().unwrap()).unwrap().consent;
        for exact in ["169.254.169.254", "169.254.0.7", "fd00:ec2::254", "100.100.100.200", "fe80::1"] {
            assert_eq!(consent(exact), Consent::Exact, "{exact}");
        }
        for never in ["0.0.0.0", "255.255.255.255", "224.0.0.251", "::", "ff02::fb"] {
            assert_eq!(consent(never), Consent::Never, "{never}");
        }
    }
}
