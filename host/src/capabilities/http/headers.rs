//! Which headers a step may set and see.

use fettle_egress::http::{HeaderMap, HeaderName, HeaderValue};

use super::{Error, Header};

/// Most headers of a request, and of an answer.
const COUNT: usize = 64;
/// Most bytes of one header.
const LENGTH: usize = 8 << 10;

/// Those of one connection (RFC 9110, 7.6.1), and those that would let a step frame, address or sign a
/// request in the host's place.
const RESERVED: [&str; 14] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The headers of a request.
pub(super) fn of_request(wanted: &[Header]) -> Result<HeaderMap, Error> {
    if wanted.len() > COUNT {
        return Err(Error::InvalidRequest(format!("{} headers; at most {COUNT}", wanted.len())));
    }
    let mut headers = HeaderMap::new();
    for Header { name, value } in wanted {
        let shown: String = name.chars().filter(|letter| !letter.is_control()).take(100).collect();
        let wrong = |rule: &str| Error::InvalidRequest(format!("header `{shown}` {rule}"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("has a name that is none"))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(wrong("is set by the host; leave it out"));
        }
        if name.as_str().len() + value.len() > LENGTH {
            return Err(wrong("is longer than 8192 bytes"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| wrong("has a line break or a control character in it"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// The headers of an answer, as far as a step may see them.
pub(super) fn of_response(headers: &HeaderMap) -> Vec<Header> {
    let plain = headers.iter().filter(|(name, _)| {
        let name = name.as_str();
        name == "content-length" || !(RESERVED.contains(&name) || name == "set-cookie")
    });
    let readable = plain.filter_map(|(name, value)| Some((name, value.to_str().ok()?)));
    let short = readable.filter(|(name, value)| name.as_str().len() + value.len() <= LENGTH);
    short.take(COUNT).map(|(name, value)| Header { name: name.to_string(), value: value.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, value: &str) -> Option<String> {
        match of_request(&[Header { name: name.to_owned(), value: value.to_owned() }]) {
            Err(Error::InvalidRequest(rule)) => Some(rule),
            _ => None,
        }
    }

    #[test]
    fn no_header_smuggles_another_or_stands_in_for_the_host() {
        for (name, value, words) in [
            ("x-a", "b\r\nHost: evil.example", "line break"),
            ("x-a", "b\nc", "line break"),
            ("x-a", "b\0c", "line break"),
            ("x-a\r\nHost", "b", "a name that is none"),
            ("x a", "b", "a name that is none"),
            ("", "b", "a name that is none"),
            ("Host", "evil.example", "is set by the host"),
            ("HOST", "evil.example", "is set by the host"),
            ("Authorization", "Bearer x", "is set by the host"),
            ("Transfer-Encoding", "chunked", "is set by the host"),
            ("Content-Length", "0", "is set by the host"),
            ("Connection", "close", "is set by the host"),
            ("x-long", &"y".repeat(9000), "longer than"),
        ] {
            let rule = refused(name, value).unwrap_or_else(|| panic!("{name}: {value} was taken"));
            assert!(rule.contains(words), "{name}: {rule}");
        }
        assert_eq!(refused("Accept", "application/json"), None);
        let many = vec![Header { name: "a".to_owned(), value: "b".to_owned() }; COUNT + 1];
        assert!(of_request(&many).is_err());
    }
}
