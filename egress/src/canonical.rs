//! Where an address leads, however it is dressed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every address that packets to this one may reach: itself, or the IPv4 addresses inside it when it is
/// IPv4-mapped, IPv4-compatible, IPv4-translated, NAT64, 6to4, Teredo or ISATAP. Never empty.
#[must_use]
pub fn canonical(address: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(dressed) = address else { return vec![address] };
    let found = match dressed.segments() {
        // ::ffff:a.b.c.d (mapped), ::a.b.c.d (compatible), ::ffff:0:a.b.c.d (translated), 64:ff9b::a.b.c.d (NAT64)
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            vec![last(dressed)]
        }
        [0, 0, 0, 0, 0, 0, ..] if !dressed.is_loopback() && !dressed.is_unspecified() => vec![last(dressed)],
        // 2002:aabb:ccdd:: (6to4)
        [0x2002, high, low, ..] => vec![pair(high, low)],
        // 2001:0:server:…:inverted client (Teredo)
        [0x2001, 0, server_high, server_low, _, _, high, low] => vec![pair(server_high, server_low), pair(!high, !low)],
        // …:0:5efe:a.b.c.d (ISATAP)
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => return vec![address, last(dressed).into()],
        _ => return vec![address],
    };
    found.into_iter().map(IpAddr::V4).collect()
}

fn pair(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

fn last(address: Ipv6Addr) -> Ipv4Addr {
    let [_, _, _, _, _, _, high, low] = address.segments();
    pair(high, low)
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn every_dress_of_an_address_comes_off() {
        for (dressed, expected) in [
            ("127.0.0.1", &["127.0.0.1"][..]),
            ("::ffff:169.254.169.254", &["169.254.169.254"]),
            ("::ffff:a9fe:a9fe", &["169.254.169.254"]),
            ("::10.0.0.1", &["10.0.0.1"]),
            ("::ffff:0:10.0.0.1", &["10.0.0.1"]),
            ("64:ff9b::10.0.0.1", &["10.0.0.1"]),
            ("2002:7f00:1::5", &["127.0.0.1"]),
            ("2001:0:0808:0808:0:0:80ff:fffe", &["8.8.8.8", "127.0.0.1"]),
            ("2606:4700::200:5efe:a00:1", &["2606:4700::200:5efe:a00:1", "10.0.0.1"]),
            ("::1", &["::1"]),
            ("::", &["::"]),
            ("2606:4700::1111", &["2606:4700::1111"]),
        ] {
            let found: Vec<String> = canonical(dressed.parse().unwrap()).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{dressed}");
        }
    }
}
