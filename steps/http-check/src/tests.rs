use fettle_step::{
    FailureClass,
    fake::{Node, Trial, answered},
    http::Error,
};
use serde_json::{Value, json};

const URL: &str = "https://api.example.com/health";

fn check(input: &Value) -> Result<Value, fettle_step::Failure> {
    Trial::new(super::step()).run(input)
}

#[test]
fn an_expected_answer_is_put_out() {
    let node = Node::new();
    node.put_answer("GET", URL, Ok(answered(200, "all is ready"))).put_answer("HEAD", URL, Ok(answered(204, "")));
    assert_eq!(
        check(&json!({"url": URL, "contains": "ready"})),
        Ok(json!({"status": 200, "body": "all is ready", "body_truncated": false}))
    );
    let input = json!({"url": URL, "method": "HEAD", "expected_statuses": [200, 204]});
    assert_eq!(check(&input).unwrap()["status"], 204);
    assert_eq!(node.calls(), [format!("http.send GET {URL}"), format!("http.send HEAD {URL}")]);
}

#[test]
fn a_long_answer_is_cut_at_a_whole_character() {
    let node = Node::new();
    node.put_answer("GET", URL, Ok(answered(200, "ä".repeat(20_000))));
    let output = check(&json!({"url": URL})).unwrap();
    assert_eq!((output["body"].as_str().unwrap().len(), &output["body_truncated"]), (16_384, &json!(true)));
}

#[test]
fn every_other_answer_is_explained() {
    for (answer, class, code, part) in [
        (Ok(answered(404, "")), FailureClass::Permanent, "http-check.status", "answered 404, and 200 is expected"),
        (Ok(answered(503, "")), FailureClass::Transient, "http-check.status", "answered 503"),
        (Ok(answered(301, "")), FailureClass::Permanent, "http-check.status", "answered 301"),
        (Ok(answered(200, "starting")), FailureClass::Permanent, "http-check.content", "does not hold `ready`"),
        (Err(Error::AccessDenied), FailureClass::Denied, "http.access-denied", "`http.requests`"),
        (Err(Error::Unreachable("no route".to_owned())), FailureClass::Transient, "http.unreachable", "no route"),
        (Err(Error::BrokeOff("reset".to_owned())), FailureClass::Transient, "http.unreachable", "reset"),
        (Err(Error::TooLarge(9)), FailureClass::Permanent, "http.too-large", "9 bytes"),
        (Err(Error::InvalidRequest("rule".to_owned())), FailureClass::InvalidInput, "http.invalid-request", "rule"),
    ] {
        let node = Node::new();
        let url = format!("{URL}?token=secret");
        node.put_answer("GET", &url, answer);
        let failure = check(&json!({"url": url, "contains": "ready"})).unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure}");
        assert!(failure.message.contains(part) && !failure.message.contains("secret"), "{failure}");
    }
    let failure = check(&json!({"url": URL, "method": "POST"})).unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidInput, "{failure}");
}
