use fettle_step::{
    FailureClass, Observation,
    fake::{Node, Trial, converges, digest_of},
    transfer,
};
use serde_json::{Value, json};

const REPOSITORY: &str = "registry.test:5000/models/a";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn node() -> Node {
    let node = Node::new();
    node.allow_host("registry.test:5000").allow_write("models");
    node
}

fn layer(node: &Node, title: Option<&str>, content: &str) -> Value {
    let digest = node.put_blob(REPOSITORY, content);
    let mut layer = json!({"mediaType": "text/plain", "digest": digest, "size": content.len()});
    if let Some(title) = title {
        layer["annotations"] = json!({"org.opencontainers.image.title": title});
    }
    layer
}

fn publish(node: &Node, layers: &[Value]) -> Value {
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": {}, "layers": layers});
    input(&node.put_manifest(REPOSITORY, MANIFEST, manifest.to_string()))
}

fn input(reference: &str) -> Value {
    json!({"reference": reference, "destination": "models/a"})
}

fn with(mut input: Value, field: &str, value: Value) -> Value {
    input[field] = value;
    input
}

fn two_files(node: &Node) -> Value {
    publish(node, &[layer(node, Some("weights/one.bin"), "11111"), layer(node, None, "22")])
}

fn fetches(node: &Node) -> usize {
    node.calls().iter().filter(|call| call.starts_with("transfer.pull-blobs")).count()
}

#[test]
fn a_pull_converges() {
    let node = node();
    let input = two_files(&node);
    let output = converges(&Trial::new(super::step()), &input);
    let second = format!("models/a/{}", digest_of(b"22").trim_start_matches("sha256:"));
    assert_eq!(
        output,
        json!({
            "path": "models/a",
            "digest": input["reference"].as_str().unwrap().split_once('@').unwrap().1,
            "size": 7,
            "files": [
                {"path": "models/a/weights/one.bin", "digest": digest_of(b"11111"), "size": 5},
                {"path": second, "digest": digest_of(b"22"), "size": 2},
            ],
        })
    );
    assert_eq!(node.file("models/a/weights/one.bin").as_deref(), Some(&b"11111"[..]));
}

#[test]
fn the_probe_names_what_is_missing_or_different_and_fetches_nothing() {
    let node = node();
    let input =
        publish(&node, &[layer(&node, Some("a"), "11"), layer(&node, Some("b"), "22"), layer(&node, Some("c"), "3")]);
    node.put_file("models/a/b", "2x").put_file("models/a/c", "33");
    let expected =
        "would fetch models/a/a (2 bytes)\nwould replace models/a/b (2 bytes)\nwould replace models/a/c (1 bytes)";
    assert_eq!(Trial::new(super::step()).probe(&input), Ok(Observation::Unsatisfied(expected.to_owned())));
    assert_eq!(fetches(&node), 0);
}

#[test]
fn undo_removes_what_was_pulled_and_nothing_else() {
    for knows_output in [true, false] {
        let node = node();
        node.put_file("models/a/other", "x");
        let input = publish(&node, &[layer(&node, Some("a"), "11"), layer(&node, Some("b"), "22")]);
        let trial = Trial::new(super::step());
        let output = trial.run(&input).unwrap();
        node.put_file("models/a/b", "changed since");
        trial.undo(&input, knows_output.then_some(&output)).unwrap();
        assert_eq!(node.paths(), ["models/a/b", "models/a/other"]);
        assert!(node.logs().iter().any(|(_, line)| line.contains("left models/a/b as it is")));
    }
}

/// Changes a good layer into a bad one.
type Spoil = fn(&mut Value);

#[test]
fn unsafe_artifacts_are_refused_before_anything_is_fetched() {
    let titled = |title: &str| json!({"org.opencontainers.image.title": title});
    let titles = [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a//b",
        "a/",
        "",
        ".",
        "a\\b",
        "a\0b",
        "a\nb",
        &"x".repeat(256),
        &"x/".repeat(600),
    ];
    for title in titles {
        let node = node();
        let mut bad = layer(&node, None, "1");
        bad["annotations"] = titled(title);
        let failure = Trial::new(super::step()).run(&publish(&node, &[bad])).unwrap_err();
        assert_eq!(failure.code, "artifact.unsafe-title", "{title:?}");
        assert_eq!(fetches(&node), 0);
    }
    let spoils: [(Spoil, &str); 4] = [
        (|layer| layer["urls"] = json!(["https://elsewhere.test/x"]), "artifact.foreign-layer"),
        (|layer| layer["digest"] = json!("md5:1"), "artifact.digest"),
        (|layer| layer["size"] = json!(-1), "manifest.malformed"),
        (|layer| layer["size"] = json!(u64::MAX), "artifact.size"),
    ];
    for (spoil, code) in spoils {
        let node = node();
        let mut bad = layer(&node, Some("b"), "1");
        spoil(&mut bad);
        let failure = Trial::new(super::step()).run(&publish(&node, &[layer(&node, Some("a"), "1"), bad])).unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, code), "{failure}");
        assert_eq!(fetches(&node), 0);
    }
}

#[test]
fn titles_that_collide_are_refused() {
    for (titles, code) in [(["a", "a"], "artifact.duplicate-title"), (["a/b/c", "a/b"], "artifact.nested-title")] {
        let node = node();
        let layers = titles.map(|title| layer(&node, Some(title), "1"));
        let failure = Trial::new(super::step()).run(&publish(&node, &layers)).unwrap_err();
        assert_eq!(failure.code, code);
    }
}

#[test]
fn limits_are_checked_before_anything_is_fetched() {
    let node = node();
    let good = two_files(&node);
    let many: Vec<Value> = (0..257).map(|index| layer(&node, Some(&format!("f{index}")), "1")).collect();
    for (input, code, part) in [
        (
            with(good.clone(), "max_size_bytes", json!(6)),
            "artifact.too-large",
            "7 bytes, more than the `max_size_bytes` of 6",
        ),
        (
            with(good.clone(), "media_types", json!(["image/png"])),
            "artifact.media-type",
            "`text/plain`; `media_types` allows image/png",
        ),
        (publish(&node, &many), "manifest.too-many-layers", "257 layers"),
        (publish(&node, &[]), "manifest.empty", "no layers"),
    ] {
        let failure = Trial::new(super::step()).run(&input).unwrap_err();
        assert_eq!(failure.code, code);
        assert!(failure.message.contains(part), "{failure}");
    }
    assert_eq!(fetches(&node), 0);
    let allowed = with(with(good, "max_size_bytes", json!(7)), "media_types", json!(["text/plain"]));
    assert!(Trial::new(super::step()).run(&allowed).is_ok());
}

#[test]
fn only_manifests_are_pulled() {
    let index = "application/vnd.oci.image.index.v1+json";
    for (media_type, body, code) in [
        (index, json!({"schemaVersion": 2, "manifests": []}), "manifest.index"),
        (MANIFEST, json!({"schemaVersion": 2, "mediaType": index, "manifests": []}), "manifest.index"),
        (MANIFEST, json!({"schemaVersion": 2, "manifests": []}), "manifest.index"),
        ("application/vnd.docker.distribution.manifest.list.v2+json", json!({}), "manifest.index"),
        ("text/html", json!({}), "manifest.media-type"),
        (MANIFEST, json!({"schemaVersion": 1, "layers": []}), "manifest.malformed"),
        (MANIFEST, json!("no manifest"), "manifest.malformed"),
    ] {
        let node = node();
        let reference = node.put_manifest(REPOSITORY, media_type, body.to_string());
        let failure = Trial::new(super::step()).probe(&input(&reference)).unwrap_err();
        assert_eq!(failure.code, code, "{body}");
    }
}

#[test]
fn what_the_host_refuses_is_explained() {
    let node = node();
    let good = two_files(&node);
    let trial = Trial::new(super::step());
    let tag = input("registry.test:5000/models/a:v1");
    assert_eq!(trial.run(&tag).unwrap_err().code, "reference.invalid");
    assert_eq!(trial.probe(&tag).unwrap_err().class, FailureClass::InvalidInput);
    let elsewhere = input(&good["reference"].as_str().unwrap().replace("registry.test", "other.test"));
    assert_eq!(trial.run(&elsewhere).unwrap_err().class, FailureClass::Denied);
    assert_eq!(trial.run(&with(good.clone(), "destination", json!("etc/a"))).unwrap_err().class, FailureClass::Denied);
    for (error, class) in [
        (transfer::Error::Unavailable("it is overloaded".to_owned()), FailureClass::Transient),
        (transfer::Error::Corrupt("the digest differs".to_owned()), FailureClass::Permanent),
        (transfer::Error::NoSpace("0 bytes free".to_owned()), FailureClass::Transient),
    ] {
        node.break_transfer(error);
        assert_eq!(trial.run(&good).unwrap_err().class, class);
    }
    node.put_directory("models/a/weights/one.bin");
    assert_eq!(trial.probe(&good).unwrap_err().code, "file.not-regular");
}
