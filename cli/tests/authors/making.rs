//! `fettle step new`: what it makes builds, passes its tests, and asks for what it was told to.

use std::fs;

use crate::{built_before, fail, fettle, json, make, program, root, run};

/// Every effect and every capability, alone or together with others.
const STEPS: [(&str, &[&str], usize); 4] = [
    ("keeps-a-file", &[], 1),
    (
        "keeps-much",
        &["--capability", "gpu", "--capability", "exec", "--capability", "files", "--capability", "facts"],
        4,
    ),
    (
        "looks-at-all",
        &[
            "--effect",
            "observe",
            "--capability",
            "files",
            "--capability",
            "exec",
            "--capability",
            "facts",
            "--capability",
            "gpu",
            "--capability",
            "transfer",
            "--capability",
            "http",
        ],
        6,
    ),
    ("does-it-once", &["--effect", "consume", "--capability", "files", "--capability", "transfer"], 2),
];

#[test]
fn a_new_step_builds_and_its_tests_pass() {
    let parent = tempfile::tempdir().unwrap();
    for (name, options, capabilities) in STEPS {
        let crate_directory = make(parent.path(), name, options);
        std::os::unix::fs::symlink(built_before(), crate_directory.join("target")).unwrap();
        run(program("cargo", &crate_directory, &["fmt", "--check"]));
        let tested = run(program("cargo", &crate_directory, &["test", "--locked", "--quiet", "--lib"]));
        assert!(tested.contains("test result: ok"), "{tested}");
        let built = json(fettle(&crate_directory, &["step", "build", "--json"]));
        let component = built["path"].as_str().unwrap();
        assert_eq!(built["kind"], format!("acme.{}@v1", name.replace('-', "_")));
        let seen = json(fettle(&crate_directory, &["step", "inspect", component, "--json"]));
        assert_eq!(seen["digest"], built["digest"]);
        let requests = seen["descriptor"]["requests"].as_object().unwrap();
        let imported = seen["imports"]["capabilities"].as_array().unwrap();
        assert_eq!((requests.len(), imported.len()), (capabilities, capabilities), "{name}: {seen}");
        assert!(imported.iter().all(|capability| requests.contains_key(capability.as_str().unwrap())), "{seen}");
    }
}

#[test]
fn every_capability_is_in_a_template_that_is_tested() {
    for capability in fettle_model::grant::Capability::ALL {
        let is_tested = STEPS.iter().any(|(_, options, _)| options.contains(&capability.name()));
        assert!(is_tested, "add a step with `{capability}` to the table, and what it does to cli/templates/step");
    }
}

#[test]
fn a_new_step_takes_the_toolchain_of_the_sdk() {
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    assert!(toolchain.contains(&format!("channel = \"{}\"", fettle_cli::author::template::TOOLCHAIN)), "{toolchain}");
}

#[test]
fn what_cannot_be_made_is_refused_and_nothing_is_written() {
    let parent = tempfile::tempdir().unwrap();
    let sdk = root().join("steps/sdk");
    let sdk = ["--sdk-path", sdk.to_str().unwrap()];
    let new = |name: &str, more: &[&str]| fail(fettle(parent.path(), &[&["step", "new", name], more].concat()));
    let kind = ["--kind", "acme.thing@v1"];
    for (name, more, code, words) in [
        ("Thing", [&kind[..], &sdk].concat(), 2, "like `"),
        ("../thing", [&kind[..], &sdk].concat(), 2, "like `"),
        ("test", [&kind[..], &sdk].concat(), 2, "choose another"),
        ("thing", [&["--kind", "thing"][..], &sdk].concat(), 2, "file.render@v1"),
        ("thing", [&kind[..], &sdk, &["--capability", "shell"]].concat(), 2, "exec, files, transfer, facts, gpu"),
        ("thing", [&kind[..], &sdk, &["--capability", "facts"]].concat(), 2, "--capability files"),
        ("thing", kind.to_vec(), 2, "--sdk-git"),
        ("thing", [&kind[..], &["--sdk-path", "nowhere"]].concat(), 4, "nowhere"),
        ("thing", [&kind[..], &["--sdk-git", "nowhere"]].concat(), 2, "https://"),
    ] {
        let (found, error) = new(name, &more);
        assert_eq!(found, code, "{error}");
        assert!(error.contains(words), "no `{words}` in: {error}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "{name} {more:?} left something");
    }
    fs::create_dir(parent.path().join("mine")).unwrap();
    fs::write(parent.path().join("mine/notes"), "mine").unwrap();
    let (_, error) = new("mine", &[&kind[..], &sdk].concat());
    assert!(error.contains("it exists already"), "{error}");
    assert_eq!(fs::read_to_string(parent.path().join("mine/notes")).unwrap(), "mine");
    assert_eq!(fs::read_dir(parent.path().join("mine")).unwrap().count(), 1);
}
