//! Where a webhook may be: what the text of its address says. Where its host leads is looked at with every request.

use fettle_model::{egress::Egress, violation::Violation};
use url::Url;

/// Characters of an address.
const LONGEST: usize = 2_000;

/// Everything that is wrong with an address. `private` are the hosts that an administrator named.
pub(crate) fn check_address(text: &str, private: &Egress, pointer: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut wrong = |message: String| found.push(Violation::new(pointer, message));
    if text.len() > LONGEST {
        wrong(format!("is longer than {LONGEST} characters"));
    }
    let Ok(url) = Url::parse(text) else {
        wrong("is no URL; write one like `https://receiver.example/fettle`".to_owned());
        return found;
    };
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let named = private.networks(&host).next().is_some();
    match url.scheme() {
        "https" => {}
        "http" if named => {}
        "http" => wrong(format!(
            "would send events in clear; use `https`, or ask an administrator of the platform to start the plane with \
             `--webhook-private {host}=<network>`"
        )),
        other => wrong(format!("has the scheme `{other}`; use `https`")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        wrong("holds a user or a password; receivers know a request by its signature".to_owned());
    }
    if url.fragment().is_some() {
        wrong("has a fragment, which is never sent; leave it out".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_all_that_is_wrong_with_it() {
        let private: Egress = fettle_model::document::read("private: { ci.internal: [10.0.0.0/8] }").unwrap();
        for (address, expected) in [
            ("https://receiver.example:8443/a?b=c", &[][..]),
            ("http://ci.internal/hook", &[]),
            ("http://receiver.example/", &["in clear"]),
            ("ftp://receiver.example/", &["the scheme `ftp`"]),
            ("receiver.example", &["is no URL"]),
            ("https://a:b@receiver.example/#x", &["a password", "a fragment"]),
        ] {
            let found = check_address(address, &private, "/url");
            assert_eq!(found.len(), expected.len(), "{address}: {found:?}");
            for (violation, part) in found.iter().zip(expected) {
                assert!(violation.message.contains(part), "{address}: {}", violation.message);
            }
        }
        assert_eq!(check_address(&format!("https://a.example/{}", "x".repeat(2_000)), &private, "/url").len(), 1);
    }
}
