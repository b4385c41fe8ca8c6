//! `fettle step new`: what it makes builds, passes its tests, and asks for what it was told to.

use std::{fs, path::Path};

use super::{built_before, fail, fettle, json, make, program, root, run};

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
            "--capability",
            "credentials",
            "--capability",
            "policy",
        ],
        8,
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
        its_cases_cover_its_branches(&crate_directory, built["digest"].as_str().unwrap());
        assert_eq!(built["kind"], format!("acme.{}@v1", name.replace('-', "_")));
        let seen = json(fettle(&crate_directory, &["step", "inspect", component, "--json"]));
        assert_eq!(seen["digest"], built["digest"]);
        let requests = seen["descriptor"]["requests"].as_object().unwrap();
        let imported = seen["imports"]["capabilities"].as_array().unwrap();
        assert_eq!((requests.len(), imported.len()), (capabilities, capabilities), "{name}: {seen}");
        assert!(imported.iter().all(|capability| requests.contains_key(capability.as_str().unwrap())), "{seen}");
    }
}

/// Nothing that the step does is left out: each way to end but `unknown`, which the template never says, and
/// for each capability an answer and a refusal.
fn its_cases_cover_its_branches(crate_directory: &Path, digest: &str) {
    let tested = json(fettle(crate_directory, &["step", "test", "--json"]));
    assert_eq!(tested["passed"], true, "{tested:#}");
    for (function, missed) in tested["coverage"]["functions_missed"].as_object().unwrap() {
        assert_eq!((function.as_str(), missed), ("probe", &serde_json::json!(["unknown"])), "{tested:#}");
    }
    for (call, points) in tested["coverage"]["answers"].as_object().unwrap() {
        let points: Vec<&str> = points.as_array().unwrap().iter().map(|point| point.as_str().unwrap()).collect();
        assert!(points.iter().any(|point| point.starts_with("ok")), "{call}: {points:?}");
        assert!(points.contains(&"err access-denied"), "{call}: {points:?}");
    }
    // What was tested is what is built.
    let component = json(fettle(crate_directory, &["step", "build", "--json"]));
    assert_eq!(component["digest"], digest);
}

#[test]
fn a_case_that_is_not_as_expected_and_a_table_that_is_missing_have_their_exit_codes() {
    let parent = tempfile::tempdir().unwrap();
    let here = make(parent.path(), "keeps-a-file", &[]);
    std::os::unix::fs::symlink(built_before(), here.join("target")).unwrap();
    let cases = fs::read_to_string(here.join("cases.yaml")).unwrap();
    fs::write(here.join("cases.yaml"), cases.replace("code: files.no-space", "code: files.no-room")).unwrap();
    // From elsewhere too, by its directory.
    let mut test = fettle(parent.path(), &["step", "test", "keeps-a-file"]);
    let tested = test.output().unwrap();
    assert_eq!(tested.status.code(), Some(1));
    let told = String::from_utf8(tested.stdout).unwrap();
    assert!(told.contains("FAIL") && told.contains("files.no-space"), "{told}");
    assert!(told.lines().filter(|line| !line.starts_with("  it came")).all(|line| line.len() <= 80), "{told}");
    fs::remove_file(here.join("cases.yaml")).unwrap();
    let (code, error) = fail(fettle(parent.path(), &["step", "test", "keeps-a-file"]));
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("no table of cases keeps-a-file/cases.yaml") && error.contains("- name: "), "{error}");
    let (code, error) = fail(fettle(parent.path(), &["step", "test"]));
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("no Cargo.toml"), "{error}");
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
