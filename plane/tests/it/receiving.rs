//! The receiver of docs/how-to/receive-events.md, as it is written there.

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::plane_with;

const PAGE: &str = include_str!("../../../docs/how-to/receive-events.md");

struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    lines.next().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receiver_of_the_how_to_takes_what_is_genuine_once() {
    let (_, script) = PAGE.split_once("```python\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (file, secrets) = (directory.path().join("receiver.py"), directory.path().join("secrets.txt"));
    std::fs::write(&file, script).unwrap();
    let mut python = Command::new("python3");
    let started = python.arg(&file).env("SECRETS", &secrets).env("PORT", "0").stdout(Stdio::piped()).spawn();
    // Where there is no Python there is nothing to try.
    let Ok(mut started) = started else { return };
    let mut lines = BufReader::new(started.stdout.take().unwrap()).lines();
    let _script = Script(started);
    let port: u16 = next(&mut lines).rsplit_once(' ').unwrap().1.parse().unwrap();

    let plane = plane_with(|config| {
        let networks = config.webhooks.private.private.entry("127.0.0.1".to_owned()).or_default();
        networks.insert("127.0.0.0/8".parse().unwrap());
        config.webhooks.first_delay = Duration::from_millis(20);
    })
    .await;
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let url = format!("http://127.0.0.1:{port}/");
    let path = "/api/v1/projects/demo/webhooks";
    let (status, made) = plane.call(&plane.admin, Method::POST, path, Some(json!({ "url": url }))).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    std::fs::write(&secrets, made["secret"].as_str().unwrap()).unwrap();
    let operation = plane.submitted("node-a").await;
    let id = operation.rsplit_once('/').unwrap().1;
    assert_eq!(next(&mut lines), format!("operation.requested {id}"));
    let forged = plane
        .http
        .post(&url)
        .header("webhook-id", "evt_1")
        .header("webhook-timestamp", "1800000000")
        .header("webhook-signature", "v1,AAAA")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(forged.status(), StatusCode::UNAUTHORIZED);
    plane.call(&plane.member, Method::POST, &format!("{operation}/cancel"), None).await;
    assert_eq!(next(&mut lines), format!("operation.canceled {id}"));
}
