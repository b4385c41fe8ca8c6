//! The reference of the cassette format shows what is really written.

use std::path::Path;

use fettle_model::{
    cassette::{Cassette, Context, Function, Header, Outcome, Recording, VERSION},
    descriptor::Effect,
    digest::Digest,
    failure::{Failure, FailureClass},
};
use serde::Serialize;

/// As in `wit/deps/files`.
#[derive(Serialize)]
enum Error {
    AccessDenied,
    TooLarge(u64),
}

#[derive(Serialize)]
struct Metadata {
    kind: &'static str,
    size: u64,
    user_id: u32,
}

/// As a capability that hands out handles will have it.
#[derive(Serialize)]
struct Secret {
    handle: &'static str,
}

fn example() -> String {
    let header = Header {
        cassette: VERSION,
        component: Digest::of(b"component"),
        kind: "file.render@v1".parse().unwrap(),
        effect: Effect::Converge,
        limits: Digest::of(b"limits"),
        changed_limits: fettle_model::limits::AttemptLimits::default(),
        context: Context {
            operation_id: "01JOPERATION".to_owned(),
            task_id: "01JTASK".to_owned(),
            step_id: "render".to_owned(),
            attempt: 1,
            correlation_id: "01JCORRELATION".to_owned(),
        },
        input: r#"{"path":"config/app.conf"}"#.to_owned(),
    };
    let mut recording = Recording::new(&header, 8_000);
    recording.begin(Function::Probe, None);
    recording.call("files", "stat", &("config/app.conf",));
    recording.answer(&Ok::<_, Error>(Some(Metadata { kind: "regular", size: 5, user_id: 0 })));
    recording.call("files", "read", &("config/app.conf", 1_048_576_u64));
    recording.answer(&Ok::<_, Error>(b"x = 8".to_vec()));
    recording.call("files", "read", &("config/large", 10_u64));
    recording.answer(&Err::<Vec<u8>, _>(Error::TooLarge(10)));
    recording.end(&Outcome::Unsatisfied("would write config/app.conf".to_owned()));
    recording.begin(Function::Run, None);
    recording.call("report", "log", &("info", "writing"));
    recording.answer(&());
    recording.call("credentials", "use_handle", &(Secret { handle: "never written" },));
    recording.answer(&Ok::<_, Error>(()));
    recording.call("files", "write", &("config/app.conf", vec![0_u8; 5_000]));
    recording.answer(&Err::<bool, _>(Error::AccessDenied));
    let reason = "may not write `config/app.conf`";
    recording.end(&Outcome::Failed(Failure::new(FailureClass::Denied, "files.access-denied", reason)));
    recording.begin(Function::Undo, Some("{}"));
    recording.call("exec", "run", &("sleeper", Vec::<String>::new()));
    String::from_utf8(recording.finish()).unwrap()
}

#[test]
fn the_reference_shows_what_is_written() {
    let example = example();
    Cassette::read(example.as_bytes()).unwrap();
    assert!(!example.contains("never written"), "{example}");
    // The one long line is shown shortened.
    let bulk = "A".repeat(100);
    let shown: Vec<String> = example
        .lines()
        .map(|line| match line.find(&bulk) {
            Some(start) => format!("{}…\"}}", &line[..start + 20]),
            None => line.to_owned(),
        })
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/cassette.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("```jsonl\n").unwrap();
    let (_, after) = rest.split_once("```").unwrap();
    let written = format!("{before}```jsonl\n{}\n```{after}", shown.join("\n"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert_eq!(page, written, "run `UPDATE_DOCS=1 cargo test -p fettle-model --test it cassette`");
}

#[test]
fn the_reference_names_every_line_and_every_outcome() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/cassette.md"));
    let page = page.unwrap();
    for word in [
        "cassette",
        "function",
        "call",
        "outcome",
        "truncated",
        "blob",
        "end",
        "satisfied",
        "unsatisfied",
        "unknown",
        "answered",
        "undone",
        "failed",
        "interrupted",
        "trap",
        "answer",
        "secret",
    ] {
        assert!(page.contains(&format!("`{word}`")), "`{word}` is missing");
    }
}
