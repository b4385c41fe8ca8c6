//! `http.check@v1` in the real host, against real servers on loopback, with and without TLS.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{Heard, TestNode};
use axum::{Router, http::HeaderMap, response::Redirect, routing::get};
use fettle_egress::{ClientOptions, Found, Guard, Lookup};
use fettle_host::capabilities::http::Web;
use fettle_model::failure::{Failure, FailureClass};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, rustls, server::TlsStream};

/// Every name is this machine.
struct Everything;

impl Lookup for Everything {
    fn lookup(&self, _: &str) -> Found {
        Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
    }
}

/// A service, and how often it was asked.
struct Service {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

fn routes(requests: Arc<AtomicUsize>) -> Router {
    Router::new()
        .route("/v1/health", get(|| async { "all is ready" }))
        .route("/v1/host", get(|headers: HeaderMap| async move { headers["host"].to_str().unwrap().to_owned() }))
        .route("/v1/large", get(|| async { vec![b'x'; (1 << 20) + 1] }))
        .route("/v1/whole", get(|| async { vec![b'x'; 1 << 20] }))
        .route("/v1/never", get(std::future::pending::<&str>))
        .route("/v1/elsewhere", get(|| async { Redirect::temporary("/secret") }))
        .route("/secret", get(|| async { "secret" }))
        .layer(axum::middleware::from_fn(move |request, next: axum::middleware::Next| {
            requests.fetch_add(1, Ordering::SeqCst);
            next.run(request)
        }))
}

async fn service() -> Service {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let routes = routes(Arc::clone(&requests));
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    Service { address, requests }
}

/// Accepts TLS connections.
struct TlsListener(TcpListener, TlsAcceptor);

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, address) = self.0.accept().await.unwrap();
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A service with a certificate for `api.example.com`, and the authority that signed it, in PEM.
async fn tls_service() -> (Service, Vec<u8>) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["api.example.com".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let routes = routes(Arc::clone(&requests));
    let listener = TlsListener(listener, TlsAcceptor::from(Arc::new(config)));
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    (Service { address, requests }, authority.pem().into_bytes())
}

/// A node for which `api.example.com` and 127.0.0.1 may be this machine.
fn node(authorities: Vec<Vec<u8>>) -> TestNode {
    let mut node = TestNode::new();
    let guard = Guard::of_configuration().with_lookup(Arc::new(Everything));
    node.node.web = Web::new(guard, ClientOptions { authorities, ..ClientOptions::default() });
    let mut policy = (*node.policy).clone();
    policy.egress =
        fettle_model::document::read("private: { api.example.com: [127.0.0.1/32], 127.0.0.1: [127.0.0.1/32] }")
            .unwrap();
    policy.ceiling.http = fettle_model::document::read("requests: [{ url: '*', methods: [GET, HEAD] }]").unwrap();
    node.policy = Arc::new(policy);
    node
}

async fn check(node: &TestNode, prefix: &str, input: &Value) -> Result<Value, Failure> {
    node.run("http-check", &format!("{{http: {{requests: [{{url: '{prefix}', methods: [GET]}}]}}}}"), input).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_is_sent_and_answered_and_nothing_else_is_sent() {
    let service = service().await;
    let (node, place) = (node(Vec::new()), format!("http://{}", service.address));
    let prefix = format!("{place}/v1/");
    let answer = check(&node, &prefix, &json!({"url": format!("{place}/v1/health"), "contains": "ready"})).await;
    assert_eq!(answer.unwrap(), json!({"status": 200, "body": "all is ready", "body_truncated": false}));
    assert_eq!(service.requests.load(Ordering::SeqCst), 1);
    let port = service.address.port();
    for (input, class) in [
        (json!({"url": format!("{place}/secret")}), FailureClass::Denied),
        (json!({"url": format!("{place}/v10/")}), FailureClass::Denied),
        (json!({"url": format!("{place}/v1/health"), "method": "HEAD"}), FailureClass::Denied),
        (json!({"url": format!("http://localhost:{port}/v1/health")}), FailureClass::Denied),
        (json!({"url": format!("https://127.0.0.1:{port}/v1/health")}), FailureClass::Denied),
        (json!({"url": format!("{place}/v1/../secret")}), FailureClass::InvalidInput),
        (json!({"url": format!("{place}/v1/%2e%2e/secret")}), FailureClass::InvalidInput),
        (json!({"url": format!("{place}/v1/..%2fsecret")}), FailureClass::InvalidInput),
        (json!({"url": format!("http://2130706433:{port}/v1/health")}), FailureClass::InvalidInput),
        (json!({"url": format!("http://127.0.0.1:{port}@evil.example/v1/")}), FailureClass::InvalidInput),
        (json!({"url": format!("{place}/v1/health"), "headers": {"Host": "evil.example"}}), FailureClass::InvalidInput),
        (json!({"url": format!("{place}/v1/health"), "headers": {"x": "a\r\nHost: evil"}}), FailureClass::InvalidInput),
    ] {
        let failure = check(&node, &prefix, &input).await.unwrap_err();
        assert_eq!(failure.class, class, "{input}: {failure}");
    }
    assert_eq!(service.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_bounded_in_size_and_time_and_redirects_are_not_followed() {
    let service = service().await;
    let (node, place) = (node(Vec::new()), format!("http://{}", service.address));
    let prefix = format!("{place}/v1/");
    let whole = check(&node, &prefix, &json!({"url": format!("{place}/v1/whole")})).await.unwrap();
    assert_eq!(whole["body_truncated"], true);
    let failure = check(&node, &prefix, &json!({"url": format!("{place}/v1/large")})).await.unwrap_err();
    assert_eq!(failure.code, "http.too-large", "{failure}");
    let never = json!({"url": format!("{place}/v1/never"), "timeout_ms": 200});
    let failure = check(&node, &prefix, &never).await.unwrap_err();
    assert!(failure.message.contains("did not end within 200 ms"), "{failure}");
    let elsewhere = json!({"url": format!("{place}/v1/elsewhere"), "expected_statuses": [307]});
    let answer = check(&node, &prefix, &elsewhere).await.unwrap();
    assert_eq!((&answer["status"], &answer["body"]), (&json!(307), &json!("")));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_asks_for_the_name_at_the_vetted_address() {
    let (service, authority) = tls_service().await;
    let port = service.address.port();
    let node = node(vec![authority]);
    let prefix = format!("https://api.example.com:{port}/");
    let answer = check(&node, &prefix, &json!({"url": format!("{prefix}v1/host")})).await.unwrap();
    assert_eq!(answer["body"], format!("api.example.com:{port}"));
    // The same server under another name has a certificate for somebody else.
    let address = format!("https://127.0.0.1:{port}/");
    let failure = check(&node, &address, &json!({"url": format!("{address}v1/host")})).await.unwrap_err();
    assert_eq!(failure.code, "http.unreachable", "{failure}");
    let stranger = self::node(Vec::new());
    let failure = check(&stranger, &prefix, &json!({"url": format!("{prefix}v1/host")})).await.unwrap_err();
    assert_eq!(failure.code, "http.unreachable", "{failure}");
    assert_eq!(service.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_address_that_the_policy_does_not_name_is_denied_and_the_log_says_where_it_leads() {
    let service = service().await;
    let node = node(Vec::new());
    let place = format!("http://other.example.com:{}/", service.address.port());
    let grants = format!("{{http: {{requests: [{{url: '{place}', methods: [GET]}}]}}}}");
    let grants = fettle_model::document::read(&grants).unwrap();
    let step = node.link("http-check", &grants).await;
    let heard = Arc::new(Heard::default());
    let call = node.call(&grants, &heard, Duration::from_secs(20));
    let failure = step.run(call, &json!({"url": place}).to_string()).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Denied, "{failure}");
    assert!(!failure.message.contains("127.0.0.1"), "{failure}");
    let said = heard.lines.lock().unwrap().iter().map(|line| line.text.clone()).collect::<String>();
    assert!(
        said.contains("`other.example.com` is at 127.0.0.1, a loopback address; an administrator can allow it"),
        "{said}"
    );
    assert_eq!(service.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn an_address_that_the_policy_does_not_name_is_refused_before_anything_runs() {
    let node = node(Vec::new());
    for grant in [
        "{http: {requests: [{url: 'http://169.254.169.254/', methods: [GET]}]}}",
        "{http: {requests: [{url: 'http://[::1]/', methods: [GET]}]}}",
        "{transfer: {hosts: ['10.0.0.1:5000']}}",
        "{transfer: {hosts: ['169.254.169.254']}}",
    ] {
        let grants = fettle_model::document::read(grant).unwrap();
        let failure =
            fettle_host::capabilities::Configured::new(&node.node, &grants, &node.policy, None).err().unwrap();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Denied, "egress.private-address"), "{grant}");
    }
}
