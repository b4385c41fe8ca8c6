//! The `files` capability: nothing outside the granted roots, whatever a path says or a link points to.

use std::os::unix::fs::PermissionsExt as _;

use crate::common::{self, TestNode};
use fettle_host::sandbox::Observation;
use fettle_model::failure::FailureClass;
use serde_json::{Value, json};

const GRANT: &str = "{exec: {profiles: []}, files: {write: [data], read: [other]}, facts: {read: []}, gpu: {}}";

async fn act(node: &TestNode, mode: &str, path: &str) -> Result<Value, fettle_model::failure::Failure> {
    let answer = node.run("testing", GRANT, &json!({"mode": mode, "path": path, "text": "content"})).await?;
    Ok(answer["answer"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_whole_and_only_when_it_differs() {
    let node = TestNode::new();
    assert_eq!(act(&node, "write_file", "data/deep/er/a.txt").await, Ok(json!(true)));
    assert_eq!(act(&node, "write_file", "data/deep/er/a.txt").await, Ok(json!(false)));
    assert_eq!(act(&node, "read_file", "data/deep/er/a.txt").await, Ok(json!("content")));
    let path = node.directory.path().join("data/deep/er");
    assert_eq!(std::fs::metadata(path.join("a.txt")).unwrap().permissions().mode() & 0o777, 0o644);
    let names: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.txt"], "a temporary file was left");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_outside_the_grant_are_refused_without_a_hint() {
    let node = TestNode::new();
    std::fs::create_dir_all(node.directory.path().join("other")).unwrap();
    std::fs::write(node.directory.path().join("other/there"), "x").unwrap();
    assert_eq!(act(&node, "read_file", "other/there").await, Ok(json!("x")));
    for path in ["other/there", "other/not-there", "nothing/a"] {
        let failure = act(&node, "write_file", path).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::Denied, "{path}: {failure}");
    }
    let there = act(&node, "write_file", "other/there").await.unwrap_err().message;
    let not_there = act(&node, "write_file", "other/gone!").await.unwrap_err().message;
    assert_eq!(there.replace("other/there", "X"), not_there.replace("other/gone!", "X"));
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_the_wrong_form_are_refused_with_the_rule() {
    let node = TestNode::new();
    for (path, words) in [("data/../secret", "`..`"), ("/etc/passwd", "is absolute"), ("data//a", "empty part")] {
        for mode in ["read_file", "write_file", "stat"] {
            let failure = act(&node, mode, path).await.unwrap_err();
            assert!(failure.message.contains(words), "{mode} {path}: {failure}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_link_is_followed_at_any_level() {
    let node = TestNode::new();
    let secret = node.directory.path().join("secret");
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("key"), "secret").unwrap();
    let data = node.directory.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    std::os::unix::fs::symlink(&secret, data.join("directory")).unwrap();
    std::os::unix::fs::symlink(secret.join("key"), data.join("file")).unwrap();
    for path in ["data/directory/key", "data/file", "data/directory/new"] {
        for mode in ["read_file", "write_file"] {
            let failure = act(&node, mode, path).await;
            // Replacing a link itself is fine; following it is not.
            assert_eq!(std::fs::read_to_string(secret.join("key")).unwrap(), "secret", "{mode} {path}");
            assert!(!secret.join("new").exists(), "{mode} {path} wrote through a link");
            if mode == "read_file" {
                assert!(failure.is_err(), "{path} was read through a link");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rendered_file_converges() {
    let node = TestNode::new();
    let grant = "{files: {write: [data]}}";
    let input = json!({"template": "name = {{ name }}\n", "values": {"name": "fettle"}, "path": "data/app.conf", "mode": "0640"});
    let before = node.probe("file-render", grant, &input).await;
    assert!(matches!(before, Ok(Observation::Unsatisfied(_))), "{before:?}");
    node.run("file-render", grant, &input).await.unwrap();
    let path = node.directory.path().join("data/app.conf");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "name = fettle\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(matches!(node.probe("file-render", grant, &input).await, Ok(Observation::Satisfied(_))));
    std::fs::write(&path, "changed\n").unwrap();
    let Ok(Observation::Unsatisfied(difference)) = node.probe("file-render", grant, &input).await else {
        panic!("drift was not seen")
    };
    assert!(difference.contains("-changed") && difference.contains("+name = fettle"), "{difference}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_said_and_leaves_nothing() {
    let node = TestNode::new();
    let data = node.directory.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let Ok(_mounted) = common::TinyDisk::mount(&data, "64k") else {
        common::skip("a small file system cannot be mounted here: run as root");
        return;
    };
    let input = json!({"template": "{{ a }}", "values": {"a": "x".repeat(500_000)}, "path": "data/big"});
    let failure = node.run("file-render", "{files: {write: [data]}}", &input).await.unwrap_err();
    assert!(failure.message.contains("full"), "{failure}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "a temporary file was left");
}
