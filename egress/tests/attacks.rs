//! Ways round the guard, each against a real server on loopback that stands for a metadata service: with
//! every protection it is not reached, and with the one that is meant against it taken out, it is.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests start themselves again")]

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use axum::{Router, http::StatusCode, response::Redirect, routing::get};
use fettle_egress::{
    Client, ClientOptions, Found, Guard, Lookup,
    mutation::{Protection, without},
};
use fettle_model::egress::Egress;
use tokio::net::TcpListener;

const SECRET: &str = "credentials of the machine";

/// Answers what it was told to, call by call; the last answer stays.
struct Scripted(Mutex<VecDeque<Vec<IpAddr>>>);

impl Lookup for Scripted {
    fn lookup(&self, _: &str) -> Found {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no answer")) })
    }
}

fn lookup(answers: &[&[&str]]) -> Arc<dyn Lookup> {
    let parsed = answers.iter().map(|answer| answer.iter().map(|text| text.parse().unwrap()).collect());
    Arc::new(Scripted(Mutex::new(parsed.collect())))
}

/// The metadata service at 127.0.0.1, and a harmless service at 127.0.0.2 on the same port. `/redirect`
/// of the harmless one leads to the other.
async fn services() -> u16 {
    loop {
        let metadata = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = metadata.local_addr().unwrap().port();
        let Ok(harmless) = TcpListener::bind(SocketAddr::new("127.0.0.2".parse().unwrap(), port)).await else {
            continue;
        };
        let secret = Router::new().route("/", get(|| async { SECRET }));
        let to_metadata = format!("http://127.0.0.1:{port}/");
        let public = Router::new()
            .route("/", get(|| async { "harmless" }))
            .route("/redirect", get(move || async move { Redirect::temporary(&to_metadata) }));
        tokio::spawn(async { axum::serve(metadata, secret).await.unwrap() });
        tokio::spawn(async { axum::serve(harmless, public).await.unwrap() });
        return port;
    }
}

/// What `url` answers; the error when nothing does.
async fn ask(guard: &Guard, url: &str) -> Result<String, String> {
    let client = Client::new(guard.clone(), &ClientOptions::default()).unwrap();
    let request = client.request(reqwest::Method::GET, url.parse().unwrap()).map_err(|error| error.to_string())?;
    match request.send().await {
        Ok(answer) if answer.status() == StatusCode::OK => Ok(answer.text().await.unwrap()),
        Ok(answer) => Err(answer.status().to_string()),
        Err(error) => Err(fettle_egress::refusal(&error).map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// The policy of all attacks: `good.example` may be at 127.0.0.2, and nothing else may be private.
fn guard() -> Guard {
    let egress: Egress = fettle_model::document::read("private: { good.example: [127.0.0.2/32] }").unwrap();
    Guard::of_policy(&egress)
}

struct Attack {
    name: &'static str,
    url: &'static str,
    answers: &'static [&'static [&'static str]],
    against: Protection,
}

const ATTACKS: &[Attack] = &[
    Attack {
        name: "a name of the attacker that leads inside",
        url: "http://evil.example:PORT/",
        answers: &[&["127.0.0.1"]],
        against: Protection::Ranges,
    },
    Attack {
        name: "a second, private answer",
        url: "http://evil.example:PORT/",
        answers: &[&["127.0.0.1", "::1"]],
        against: Protection::Ranges,
    },
    Attack {
        name: "a private answer beside an allowed one",
        url: "http://good.example:PORT/",
        answers: &[&["127.0.0.1", "127.0.0.2"]],
        against: Protection::Ranges,
    },
    Attack {
        name: "an allowed name that moved elsewhere inside",
        url: "http://good.example:PORT/",
        answers: &[&["127.0.0.1"]],
        against: Protection::Ranges,
    },
    Attack {
        name: "the name of this machine",
        url: "http://localhost:PORT/",
        answers: &[&["127.0.0.1"]],
        against: Protection::Ranges,
    },
    Attack {
        name: "rebinding: another answer to the second question",
        url: "http://good.example:PORT/",
        answers: &[&["127.0.0.2"], &["127.0.0.1"]],
        against: Protection::ResolveOnce,
    },
    Attack { name: "an address", url: "http://127.0.0.1:PORT/", answers: &[], against: Protection::Literals },
    Attack { name: "a decimal address", url: "http://2130706433:PORT/", answers: &[], against: Protection::Literals },
    Attack { name: "an octal address", url: "http://0177.0.0.1:PORT/", answers: &[], against: Protection::Literals },
    Attack {
        name: "a hexadecimal address",
        url: "http://0x7f.0.0.1:PORT/",
        answers: &[],
        against: Protection::Literals,
    },
    Attack { name: "a short address", url: "http://127.1:PORT/", answers: &[], against: Protection::Literals },
    Attack {
        name: "an address with a trailing dot",
        url: "http://127.0.0.1.:PORT/",
        answers: &[],
        against: Protection::Literals,
    },
    Attack {
        name: "an address in full-width digits",
        url: "http://１２７.0.0.1:PORT/",
        answers: &[],
        against: Protection::Literals,
    },
    Attack {
        name: "an IPv4-mapped address",
        url: "http://[::ffff:127.0.0.1]:PORT/",
        answers: &[],
        against: Protection::Literals,
    },
    Attack {
        name: "something before an @",
        url: "http://good.example@127.0.0.1:PORT/",
        answers: &[],
        against: Protection::Literals,
    },
    Attack {
        name: "a redirect",
        url: "http://good.example:PORT/redirect",
        answers: &[&["127.0.0.2"]],
        against: Protection::Redirects,
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leads_inside_and_each_protection_is_what_keeps_it_out() {
    let port = services().await.to_string();
    for Attack { name, url, answers, against } in ATTACKS {
        let url = url.replace("PORT", &port);
        let answer = ask(&guard().with_lookup(lookup(answers)), &url).await;
        assert_ne!(answer.as_deref(), Ok(SECRET), "{name}: got through");
        let _out = without(*against);
        assert_eq!(
            ask(&guard().with_lookup(lookup(answers)), &url).await.as_deref(),
            Ok(SECRET),
            "{name}: is not kept out by {against:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_is_reached_by_its_name_and_by_no_other() {
    let port = services().await;
    let good = guard().with_lookup(lookup(&[&["127.0.0.2"]]));
    assert_eq!(ask(&good, &format!("http://good.example:{port}/")).await.as_deref(), Ok("harmless"));
    let refused = ask(&good, &format!("http://other.example:{port}/")).await.unwrap_err();
    assert_eq!(
        refused,
        "`other.example` is at 127.0.0.2, a loopback address; an administrator can allow it with `egress: { private: { \
         \"other.example\": [127.0.0.2/32] } }` in the policy bundle"
    );
}

#[test]
fn an_ipv4_address_inside_an_ipv6_one_is_looked_at() {
    for dressed in ["2002:a9fe:a9fe::1", "2002:7f00:1::", "2606:4700::5efe:a00:1", "2001:4860::200:5efe:7f00:1"] {
        let address: IpAddr = dressed.parse().unwrap();
        assert!(guard().vet("evil.example", vec![address]).is_err(), "{dressed}");
        let _out = without(Protection::Canonical);
        assert!(guard().vet("evil.example", vec![address]).is_ok(), "{dressed} is kept out by something else");
    }
}

#[test]
fn networks_are_allowed_in_every_dress_and_metadata_only_by_its_exact_address() {
    let guard = |text: &str| {
        let egress: Egress = fettle_model::document::read(&format!("private: {{ a: [{text}] }}")).unwrap();
        move |address: &str| Guard::of_policy(&egress).vet("a", vec![address.parse().unwrap()]).is_ok()
    };
    let ten = guard("10.0.0.0/8");
    assert!(ten("10.1.2.3") && ten("::ffff:10.1.2.3") && ten("64:ff9b::a01:203") && !ten("192.168.0.1"));
    let everything = guard("0.0.0.0/0, '::/0'");
    for address in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "169.254.1.1",
        "fd00:ec2::254",
        "fe80::1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
    ] {
        assert!(!everything(address), "{address}");
    }
    assert!(everything("192.168.1.1") && everything("fd12::1"));
    assert!(guard("169.254.169.254/32")("169.254.169.254") && !guard("169.254.169.254/32")("169.254.169.253"));
    assert!(!guard("0.0.0.0/32")("0.0.0.0"), "nobody can allow what is no machine");
    let own = |address: &str| Guard::of_configuration().vet("a", vec![address.parse().unwrap()]).is_ok();
    assert!(own("10.0.0.1") && own("127.0.0.1") && !own("169.254.169.254") && !own("::ffff:169.254.169.254"));
}

#[test]
fn a_proxy_of_the_environment_is_not_used_and_would_be_without_its_protection() {
    for (protection, expected) in [("", "no proxy"), ("removed", "proxy")] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "child_asks_with_a_proxy_in_its_environment", "--ignored", "--nocapture"])
            .env("FETTLE_TEST_PROTECTION", protection);
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(&format!("answer: {expected}\n")), "{text}");
    }
}

#[test]
#[ignore = "the other half of `a_proxy_of_the_environment_is_not_used_and_would_be_without_its_protection`"]
fn child_asks_with_a_proxy_in_its_environment() {
    let Ok(protection) = std::env::var("FETTLE_TEST_PROTECTION") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let port = runtime.block_on(services());
    let trap = runtime.block_on(async { TcpListener::bind("127.0.0.1:0").await.unwrap() });
    let address = trap.local_addr().unwrap();
    let routes = Router::new().fallback(|| async { "proxy" });
    runtime.spawn(async { axum::serve(trap, routes).await.unwrap() });
    // A second process, so that the variables are there before any thread is.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "grandchild_asks", "--ignored", "--nocapture"])
        .envs(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, format!("http://{address}"))))
        .env("FETTLE_TEST_PORT", port.to_string())
        .env("FETTLE_TEST_PROTECTION", protection);
    let output = child.output().unwrap();
    assert!(output.status.success());
    println!("{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
#[ignore = "asks for `child_asks_with_a_proxy_in_its_environment`"]
async fn grandchild_asks() {
    let Ok(port) = std::env::var("FETTLE_TEST_PORT") else { return };
    let removed = std::env::var("FETTLE_TEST_PROTECTION").unwrap() == "removed";
    let _out = removed.then(|| without(Protection::Proxies));
    let guard = guard().with_lookup(lookup(&[&["127.0.0.2"]]));
    let answer = ask(&guard, &format!("http://good.example:{port}/")).await.unwrap();
    println!("answer: {}", if answer == "proxy" { "proxy" } else { "no proxy" });
}
