//! What happens when the plane, or the reader of standard output, is gone in the middle.

use std::{
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

/// Nothing here takes longer.
const LIMIT: Duration = Duration::from_secs(30);

/// Serves on a free port.
async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

#[expect(clippy::disallowed_methods, reason = "tests start the program under test")]
fn fettle(plane: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fettle"));
    command.args(arguments).env_clear().env("FETTLE_PLANE", plane).env("FETTLE_TOKEN", "token");
    command.env("FETTLE_CONTEXT", "/nonexistent/context.json").stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = tokio::time::timeout(LIMIT, command.output()).await.unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

#[tokio::test]
async fn a_submission_that_times_out_names_the_key_that_was_sent() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let keys = Arc::clone(&sent);
    let refuse = move |Json(body): Json<Value>| {
        keys.lock().unwrap().push(body["idempotency_key"].as_str().unwrap().to_owned());
        std::future::ready((StatusCode::GATEWAY_TIMEOUT, "upstream timed out"))
    };
    let plane = serve(Router::new().route("/api/v1/projects/default/operations", post(refuse))).await;
    let submit = ["operation", "submit", "a.b@v1", "--node", "n"];
    let (code, _, error) = run(fettle(&plane, &submit)).await;
    assert_eq!(code, Some(6), "{error}");
    let key = sent.lock().unwrap().pop().unwrap();
    assert!(error.contains(&format!("--idempotency-key {key}`")), "{key} is not in: {error}");

    let (_, _, error) =
        run(fettle(&plane, &[&submit[..], &["--idempotency-key", "release-7", "--json"]].concat())).await;
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["idempotency_key"], "release-7");
    assert_eq!(sent.lock().unwrap().pop().unwrap(), "release-7");
}

/// A stream of a log: `lines` lines, and then nothing more, for ever.
fn log(lines: usize) -> Response {
    let line = |number: usize| {
        let line =
            json!({"cursor": "", "step_id": "s", "attempt": 1, "level": "info", "text": format!("line {number}")});
        Ok::<_, std::convert::Infallible>(format!("id: {number}\ndata: {line}\n\n"))
    };
    let body = Body::from_stream(stream::iter((0..lines).map(line)).chain(stream::pending()));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// Reads one line, then closes standard output, and waits for the end: code and standard error.
async fn after_one_line(mut child: Child) -> (String, Option<i32>, String) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
    drop(lines);
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    (first, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn following_a_log_ends_quietly_when_its_reader_has_seen_enough() {
    // Once while lines are coming, once while the step is silent.
    for lines in [100_000, 1] {
        let serve_log = move || std::future::ready(log(lines));
        let plane = serve(Router::new().route("/api/v1/projects/default/operations/x/logs", get(serve_log))).await;
        let mut command = fettle(&plane, &["operation", "logs", "x", "--follow"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (first, code, error) = after_one_line(child).await;
        assert!(first.ends_with("s  | line 0"), "{first}");
        assert_eq!((code, error.as_str()), (Some(0), ""), "{lines} lines");
    }
}

#[tokio::test]
async fn a_key_file_that_is_missing_has_the_exit_code_of_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = directory.path().join("catalog.yaml");
    std::fs::write(&catalog, format!("steps: {{ a@v1: '127.0.0.1:1/a@sha256:{}' }}", "0".repeat(64))).unwrap();
    let missing = directory.path().join("no.key");
    let (catalog, missing) = (catalog.to_str().unwrap(), missing.to_str().unwrap());
    let publish = ["catalog", "publish", catalog, "--repository", "127.0.0.1:1/a", "--key", missing];
    let (code, _, error) = run(fettle("http://127.0.0.1:1", &publish)).await;
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("no.key") && error.contains("fettle key generate"), "{error}");
}
