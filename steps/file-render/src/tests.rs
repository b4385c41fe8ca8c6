use fettle_step::{
    FailureClass, Observation,
    fake::{Node, Trial, converges},
    files,
};
use serde_json::{Value, json};

fn input() -> Value {
    json!({"template": "port = {{ port }}\nname = a\n", "values": {"port": 80}, "path": "site/app.conf"})
}

fn with(field: &str, value: Value) -> Value {
    let mut changed = input();
    changed[field] = value;
    changed
}

fn difference(input: &Value) -> String {
    match Trial::new(super::step()).probe(input) {
        Ok(Observation::Unsatisfied(difference)) => difference,
        other => panic!("not unsatisfied: {other:?}"),
    }
}

#[test]
fn a_render_converges_from_every_start() {
    let right = "port = 80\nname = a\n";
    for (content, mode) in [(None, 0), (Some("port = 22\n"), 0o644), (Some(right), 0o600), (Some(""), 0o644)] {
        let node = Node::new();
        node.allow_write("site");
        if let Some(content) = content {
            node.put_file_with_mode("site/app.conf", content, mode);
        }
        let output = converges(&Trial::new(super::step()), &input());
        assert_eq!(output["path"], "site/app.conf");
        assert_eq!(output["size"], 19);
        assert_eq!(output["digest"], fettle_step::fake::digest_of(right.as_bytes()));
        assert_eq!(node.file("site/app.conf").as_deref(), Some(right.as_bytes()));
    }
}

#[test]
fn mode_owner_and_group_are_part_of_the_state() {
    let node = Node::new();
    node.allow_write("site").put_file("site/app.conf", "port = 80\nname = a\n");
    for (field, value, expected) in [
        ("mode", json!("0600"), "mode 0644 -> 0600"),
        ("mode", json!("755"), "mode 0644 -> 0755"),
        ("owner", json!(33), "owner 0 -> 33"),
        ("group", json!(7), "group 0 -> 7"),
    ] {
        node.put_file("site/app.conf", "port = 80\nname = a\n");
        assert_eq!(difference(&with(field, value.clone())), expected);
        converges(&Trial::new(super::step()), &with(field, value));
    }
}

#[test]
fn the_probe_shows_what_would_change_and_changes_nothing() {
    let node = Node::new();
    node.allow_write("site");
    assert_eq!(difference(&input()), "--- /dev/null\n+++ site/app.conf\n@@ -0,0 +1,2 @@\n+port = 80\n+name = a\n");
    node.put_file("site/app.conf", "port = 22\nname = a\n");
    assert_eq!(
        difference(&input()),
        "--- site/app.conf\n+++ site/app.conf\n@@ -1,2 +1,2 @@\n-port = 22\n+port = 80\n name = a\n"
    );
    node.put_file("site/app.conf", vec![0xff, 0xfe]);
    assert_eq!(difference(&input()), "would replace site/app.conf: 2 bytes that are no text");
    node.put_file("site/app.conf", "x\n".repeat(5_000));
    assert!(difference(&input()).contains("5000 lines"));
    node.put_file("site/app.conf", "x\n".repeat(1024 * 1024));
    assert!(difference(&input()).contains("larger than 1048576 bytes"));
    assert!(!node.calls().iter().any(|call| call.starts_with("files.write")));
}

#[test]
fn a_difference_keeps_its_limit() {
    let node = Node::new();
    node.allow_write("site").put_file("site/app.conf", format!("{}\n", "y".repeat(100)).repeat(3_000));
    let difference = difference(&input());
    assert!(difference.len() <= 64 * 1024 && difference.ends_with('…'), "{}", difference.len());
}

#[test]
fn what_does_not_work_is_explained() {
    let node = Node::new();
    node.allow_write("site").put_directory("site/there");
    let trial = Trial::new(super::step());
    for (input, class, code, part) in [
        (with("mode", json!("4755")), FailureClass::InvalidInput, "input.invalid", "at `/mode`: `4755` is not a mode"),
        (with("mode", json!("999")), FailureClass::InvalidInput, "input.invalid", "three octal digits"),
        (with("port", json!(1)), FailureClass::InvalidInput, "input.invalid", "unknown field `port`"),
        (with("values", json!({})), FailureClass::InvalidInput, "template.undefined-variable", "`port`"),
        (with("path", json!("site/../x")), FailureClass::InvalidInput, "files.invalid-path", "`..`"),
        (with("path", json!("/etc/passwd")), FailureClass::InvalidInput, "files.invalid-path", "root/relative/path"),
        (with("path", json!("other/x")), FailureClass::Denied, "files.access-denied", "add it to"),
        (with("path", json!("site/there")), FailureClass::Permanent, "file.not-regular", "no regular file"),
    ] {
        let failure = trial.probe(&input).unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure}");
        assert!(failure.message.contains(part), "{failure}");
    }
    node.break_files(files::Error::NoSpace("4 KiB free".to_owned()));
    assert_eq!(trial.run(&input()).unwrap_err().class, FailureClass::Transient);
    assert_eq!(trial.undo(&input(), None).unwrap_err().code, "undo.unsupported");
}
