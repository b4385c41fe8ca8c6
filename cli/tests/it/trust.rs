//! `fettle trust` and `fettle artifact verify`, as people start them, beside a running `fettle dev`.

use fettle_cli::dev::{self, Options, Running};
use serde_json::Value;

struct Desk {
    directory: tempfile::TempDir,
    running: Running,
}

impl Desk {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let running = dev::start(Options::new(directory.path().join("state"))).await.unwrap();
        Self { directory, running }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Code and everything that was printed.
    #[expect(clippy::disallowed_methods, reason = "tests start the program under test")]
    async fn run(&self, arguments: &str) -> (i32, String) {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_fettle"))
            .args(arguments.split(' '))
            .env_clear()
            .env("FETTLE_CONTEXT", &self.running.context_path)
            .current_dir(self.directory.path())
            .output()
            .await
            .unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
    }

    async fn say(&self, arguments: &str) -> String {
        let (code, text) = self.run(arguments).await;
        assert_eq!(code, 0, "{arguments}: {text}");
        text.trim_end().to_owned()
    }

    async fn fail(&self, arguments: &str, expected: i32, sentence: &str) {
        let (code, text) = self.run(arguments).await;
        assert_eq!(code, expected, "{arguments}: {text}");
        assert!(text.contains(sentence), "{arguments}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trust_policy_is_checked_published_activated_and_shown() {
    let desk = Desk::new().await;
    let first = desk.read("state/trust.yaml");
    assert!(desk.say("trust check state/trust.yaml").await.contains("trust_policy: 1 of `dev` (the key sha256:"));
    desk.write("wrong.yaml", "step: { anyOf: [] }");
    desk.fail("trust check wrong.yaml", 3, "an empty `step/anyOf`; name a signer, or leave it out").await;
    desk.fail("trust publish state/trust.yaml", 2, "has no revision").await;

    desk.write("second.yaml", &format!("revision: 2\n{first}"));
    let second = desk.say("trust publish second.yaml").await;
    let activate = |reference: &str| format!("trust activate --directory state/host {reference}");
    let in_force = desk.say(&activate(&second)).await;
    assert!(in_force.starts_with("revision 2 is in force, signed by the key sha256:"), "{in_force}");
    let shown: Value = serde_json::from_str(&desk.say("trust show --directory state/host --json").await).unwrap();
    assert_eq!((&shown["revision"], &shown["activations"][0]["reference"]), (&2.into(), &second.clone().into()));
    desk.fail(&activate(&second), 8, "has revision 2, and the current trust policy has 2").await;

    desk.say("key generate --output other").await;
    desk.write("third.yaml", &format!("revision: 3\n{first}"));
    let third = desk.say("trust publish third.yaml --key other.key").await;
    desk.fail(&activate(&third), 5, "does not accept its successor").await;
    desk.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_tells_of_each_signature_and_what_it_counted_for() {
    let desk = Desk::new().await;
    desk.write("trusted.yaml", &format!("revision: 2\n{}", desk.read("state/trust.yaml")));
    desk.say("key generate --output other").await;
    let reference = desk.say("trust publish trusted.yaml --key other.key --annotation channel=beta").await;
    let verify = format!("artifact verify --kind trust-policy --json {reference}");
    let (code, text) = desk.run(&verify).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["verdict"]), (5, &"UNTRUSTED".into()), "{text}");
    assert!(answer["chain"][0]["reason"].is_string() && answer["needed"].as_str().unwrap().contains("`dev`"), "{text}");

    let wanting = desk.read("other.trust.yaml").replace("  - kind:", "  - annotations: { channel: stable }\n    kind:");
    desk.write("wanting.yaml", &wanting);
    desk.fail(
        &format!("{verify} --trust wanting.yaml"),
        5,
        "it says `channel=beta`, and the rule wants `channel=stable`",
    )
    .await;
    desk.say("trust publish trusted.yaml --key other.key --annotation channel=stable --release 2").await;
    let answer: Value = serde_json::from_str(&desk.say(&format!("{verify} --trust wanting.yaml")).await).unwrap();
    // Each was signed in both formats; one signature suffices, and a signer counts once.
    let chain = answer["chain"].as_array().unwrap();
    let counted: Vec<_> = chain.iter().filter_map(|one| one["counted_for"].as_str()).collect();
    assert_eq!((&answer["verdict"], chain.len(), counted), (&"TRUSTED".into(), 4, vec!["other"]), "{answer}");
    desk.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_made_from_keys_and_a_key_is_replaced_by_two_of_three_roots() {
    let desk = Desk::new().await;
    for name in ["root-1", "root-2", "root-3", "build", "build-2", "team"] {
        desk.say(&format!("key generate --output {name}")).await;
    }
    let init = "trust init --root root-1.pub --root root-2.pub --root root-3.pub --root-threshold 2 --step build.pub \
                --signer team.pub --output trust.yaml";
    let made = desk.say(init).await;
    assert!(made.contains("trust_policy: 2 of `root-1`") && made.contains("step: 1 of `build`"), "{made}");
    assert!(made.contains("catalog: 1 of `team`"), "{made}");
    desk.fail(init, 1, "cannot write trust.yaml").await;
    let both = "trust init --root root-1.pub --signer root-1.pub --output both.yaml";
    assert!(desk.say(both).await.contains("`root-1` is a root and signs `step` too"));
    desk.fail("trust init --root root-1.pub --root-threshold 2 --output no.yaml", 3, "cannot use the trust policy")
        .await;
    assert!(!desk.directory.path().join("no.yaml").exists());

    let rotate = "trust rotate trust.yaml --replace build.pub --with build-2.pub --output trust-2.yaml";
    let next = desk.say(rotate).await;
    assert!(next.contains("revision  2") && next.contains("changed   step") && next.contains("`build-2`"), "{next}");
    assert!(next.contains("fettle trust publish trust-2.yaml --key ROOT.key"), "{next}");
    desk.fail("trust rotate trust-2.yaml --remove build.pub --output no.yaml", 4, "does not name the key").await;
    desk.fail("trust rotate trust-2.yaml --remove team.pub --output no.yaml", 3, "cannot use the trust policy").await;

    // What it says follows is what has to be done: one root is not enough, and the second one is.
    let reference = desk.say("trust publish trust-2.yaml --key root-1.key").await;
    let activate = format!("trust activate --trust trust.yaml --directory state/host {reference}");
    desk.fail(&activate, 5, "does not accept its successor").await;
    assert_eq!(desk.say("trust publish trust-2.yaml --key root-3.key").await, reference);
    assert!(desk.say(&activate).await.starts_with("revision 2 is in force"));
    let shown = desk.say("trust show --trust trust.yaml --directory state/host").await;
    assert!(shown.contains("step: 1 of `build-2`"), "{shown}");
    desk.running.stop().await.unwrap();
}
