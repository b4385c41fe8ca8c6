//! Where a secret may be sent.

use url::{Host, Url};

/// Whether nobody in between reads what is sent to an address, or answers in its place: it is reached over TLS, or it is
/// this machine. `localhost` is taken by its name (RFC 6761, 6.3).
#[must_use]
pub fn is_confidential(url: &Url) -> bool {
    let is_this_machine = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || url.scheme() == "http" && is_this_machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_leave_this_machine_over_tls_only() {
        for (url, expected) in [
            ("https://login.example", true),
            ("https://10.0.0.1", true),
            ("http://127.0.0.1:8080/a", true),
            ("http://127.8.9.1", true),
            ("http://localhost:1", true),
            ("http://LOCALHOST", true),
            ("http://[::1]:1", true),
            ("http://login.example", false),
            ("http://localhost.example", false),
            ("http://127.0.0.1.example", false),
            ("http://localhost@login.example", false),
            ("http://10.0.0.1:5000", false),
            ("http://0.0.0.0", false),
            ("http://[::2]", false),
            ("http://[::ffff:10.0.0.1]", false),
            ("ftp://127.0.0.1", false),
            ("unix:/run/a", false),
        ] {
            assert_eq!(is_confidential(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
