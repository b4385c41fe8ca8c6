use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::*;
use crate::failure::FailureClass;

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
enum Error {
    AccessDenied,
    TooLarge(u64),
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
struct Metadata {
    user_id: u32,
    content: Vec<u8>,
    state: char,
    version: (u32, u32),
    load: f64,
    note: Option<String>,
    pairs: Vec<(u8, u8)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
struct Secret {
    value: String,
}

fn header() -> Header {
    Header {
        cassette: VERSION,
        component: Digest::of(b"component"),
        kind: "file.render@v1".parse().unwrap(),
        effect: Effect::Converge,
        limits: Digest::of(b"limits"),
        changed_limits: crate::limits::AttemptLimits::default(),
        context: Context { operation_id: "o".to_owned(), attempt: 1, ..Context::default() },
        input: r#"{"path": "data/x"}"#.to_owned(),
    }
}

/// What is recorded of a value, and the value that is read back.
fn recorded<T: Serialize + DeserializeOwned>(value: &T) -> (Value, T) {
    let mut recording = Recording::new(&header(), 1 << 20);
    recording.begin(Function::Run, None);
    recording.call("a", "b", &());
    recording.answer(value);
    recording.end(&Outcome::Answered("{}".to_owned()));
    let cassette = Cassette::read(&recording.finish()).unwrap();
    let Answer::Given(text) = &cassette.functions[0].calls[0].answer else { panic!("no answer") };
    (serde_json::from_str(text).unwrap(), Call::decode(text, &cassette.blobs).unwrap())
}

fn metadata(content: Vec<u8>) -> Metadata {
    Metadata {
        user_id: 7,
        content,
        state: 'é',
        version: (1, 2),
        load: f64::NEG_INFINITY,
        note: None,
        pairs: vec![(1, 2), (3, 4)],
    }
}

#[test]
fn values_are_named_as_in_wit_and_come_back_as_they_were() {
    let value: Result<Metadata, Error> = Ok(metadata(b"hello".to_vec()));
    let (json, back) = recorded(&value);
    assert_eq!(
        json,
        json!({"ok": {"user-id": 7, "content": {"bytes": "aGVsbG8="}, "state": "é", "version": [1, 2],
            "load": "-inf", "note": null, "pairs": [[1, 2], [3, 4]]}})
    );
    assert_eq!(back, value);
    for value in [Err(Error::AccessDenied), Err(Error::TooLarge(u64::MAX)), Err(Error::Failed("a\nb".to_owned()))] {
        let value: Result<(), Error> = value;
        assert_eq!(recorded(&value).1, value);
    }
    assert_eq!(recorded(&Err::<(), _>(Error::AccessDenied)).0, json!({"err": "access-denied"}));
    assert_eq!(recorded(&Ok::<_, Error>(())).0, json!({"ok": null}));
    assert_eq!(recorded(&Ok::<Vec<u8>, Error>(Vec::new())).1, Ok(Vec::new()));
}

#[test]
fn bulk_bytes_are_kept_once_beside_the_calls() {
    let bulk: Vec<u8> = (0..20_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let value = (metadata(bulk.clone()), metadata(bulk.clone()));
    let (json, back) = recorded(&value);
    assert_eq!(json[0]["content"], json!({"blob": Digest::of(&bulk), "size": 20_000}));
    assert_eq!(back, value);
    let mut recording = Recording::new(&header(), 1 << 20);
    recording.begin(Function::Probe, None);
    for _ in 0..3 {
        recording.call("files", "read", &("data/x", 10_u64));
        recording.answer(&Ok::<_, Error>(bulk.clone()));
    }
    recording.end(&Outcome::Undone);
    assert!(recording.finish().len() < 2 * bulk.len());
}

#[test]
fn a_secret_is_a_number_and_what_is_replayed_is_the_same_number() {
    let secret = |value: &str| Secret { value: value.to_owned() };
    let value = vec![secret("hunter2"), secret("other"), secret("hunter2")];
    let (json, back) = recorded(&value);
    assert_eq!(json, json!([{"secret": 1}, {"secret": 2}, {"secret": 1}]));
    assert_eq!(back, [secret("secret-1"), secret("secret-2"), secret("secret-1")]);
    assert_eq!(recorded(&back).0, json, "a replay would record something else");
}

#[test]
fn a_secret_without_fields_is_a_number_too() {
    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    struct Secret(String);

    let (json, back) = recorded(&vec![Secret("hunter2".to_owned()), Secret("hunter2".to_owned())]);
    assert_eq!(json, json!([{"secret": 1}, {"secret": 1}]));
    assert_eq!(back, ["secret-1", "secret-1"].map(|text| Secret(text.to_owned())));
}

#[test]
fn the_same_behaviour_gives_the_same_bytes_and_reading_loses_nothing() {
    let record = || {
        let mut recording = Recording::new(&header(), 1 << 20);
        recording.begin(Function::Probe, None);
        recording.call("files", "stat", &("data/x",));
        recording.answer(&Err::<Metadata, _>(Error::AccessDenied));
        recording.call("report", "log", &("info", "x"));
        recording.answer(&());
        recording.call("exec", "run", &("p",));
        recording.trap("a limit");
        recording.end(&Outcome::Failed(crate::failure::Failure::new(
            FailureClass::Denied,
            "files.denied",
            "not granted",
        )));
        recording.begin(Function::Undo, Some("{}"));
        recording.call("files", "remove", &("data/x",));
        recording.finish()
    };
    assert_eq!(record(), record());
    let cassette = Cassette::read(&record()).unwrap();
    assert_eq!(cassette.header, header());
    let answers: Vec<_> = cassette.calls().map(|call| (call.name.as_str(), call.answer.clone())).collect();
    assert_eq!(
        answers,
        [
            ("files.stat", Answer::Given(r#"{"err":"access-denied"}"#.to_owned())),
            ("report.log", Answer::Given("null".to_owned())),
            ("exec.run", Answer::Trapped("a limit".to_owned())),
            ("files.remove", Answer::Missing),
        ]
    );
    assert_eq!(cassette.functions[1].output.as_deref(), Some("{}"));
    assert_eq!(cassette.outcome(), Some(&Outcome::Interrupted));
}

#[test]
fn a_recording_that_grows_too_large_says_so_and_keeps_its_outcomes() {
    let mut recording = Recording::new(&header(), 2_000);
    recording.begin(Function::Run, None);
    for _ in 0..100 {
        recording.call("report", "log", &("info", "x".repeat(100)));
        recording.answer(&());
    }
    recording.end(&Outcome::Answered("{}".to_owned()));
    let content = recording.finish();
    assert!(content.len() < 2_400, "{}", content.len());
    let cassette = Cassette::read(&content).unwrap();
    let truncated = cassette.truncated.clone().unwrap();
    assert_eq!(usize::try_from(truncated.after_calls).unwrap(), cassette.calls().count());
    assert!(truncated.after_calls > 5 && truncated.reason.contains("2000 bytes"), "{truncated:?}");
    assert_eq!(cassette.outcome(), Some(&Outcome::Answered("{}".to_owned())));
    // A call whose answer is too much is not there at all.
    let mut recording = Recording::new(&header(), 2_000);
    recording.begin(Function::Run, None);
    recording.call("files", "read", &("data/x",));
    recording.answer(&vec![0_u8; 3_000]);
    assert_eq!(Cassette::read(&recording.finish()).unwrap().calls().count(), 0);
}

#[test]
fn what_was_changed_or_cut_off_is_no_cassette() {
    let mut recording = Recording::new(&header(), 1 << 20);
    recording.begin(Function::Run, None);
    recording.call("files", "read", &("data/x",));
    recording.answer(&vec![1_u8; 5_000]);
    recording.end(&Outcome::Answered("{}".to_owned()));
    let content = String::from_utf8(recording.finish()).unwrap();
    let cut = content.lines().take(4).collect::<Vec<_>>().join("\n");
    for (changed, words) in [
        (cut, "cut off"),
        (String::new(), "cut off"),
        (content.replace("\"cassette\":1", "\"cassette\":9"), "format 9"),
        (content.replace("AQEB", "AgEB"), "other content than its digest says"),
        (content.replace("{\"outcome\"", "{\"result\""), "unknown field `result`"),
        (content.replace("\"calls\":1", "\"calls\":2"), "it promises 2 calls"),
        (format!("{content}{{\"function\":\"run\"}}\n"), "after the end"),
    ] {
        let error = Cassette::read(changed.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn what_is_written_by_hand_is_checked_against_the_contract() {
    let read = |value: Value| decode::<Result<Metadata, Error>>(value, &Blobs::new()).unwrap_err().to_string();
    let error = read(json!({"err": "denied"}));
    assert!(error.contains("no case `denied`; there is `access-denied`, `too-large`, `failed`"), "{error}");
    let error = read(json!({"ok": {"user": 1}}));
    assert!(error.contains("no field `user`; there is `user-id`, `content`"), "{error}");
    let error = read(json!({"ok": {"user-id": "x"}}));
    assert!(error.contains("Ok.user_id: invalid type"), "{error}");
    assert!(read(json!({"err": "too-large"})).contains("case `too-large` has a value"));
    assert_eq!(decode::<Result<(), Error>>(json!("ok"), &Blobs::new()), Ok(Ok(())));
    assert_eq!(decode::<Vec<u8>>(json!({"text": "hi"}), &Blobs::new()), Ok(b"hi".to_vec()));
}
