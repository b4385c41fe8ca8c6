//! A development system, and commands beside it.

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use fettle_cli::dev::{self, Options, Running};
use serde_json::Value;

/// A development system, and commands beside it.
pub(crate) struct Workbench {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) running: Running,
}

/// A step that `cargo xtask steps` built.
pub(crate) fn component(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasm32-wasip2/step");
    let path = target.join(format!("fettle_step_{name}.wasm"));
    assert!(path.is_file(), "{} is missing; build the steps with `cargo xtask steps`", path.display());
    path
}

impl Workbench {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let running = dev::start(Options::new(directory.path().join("state"))).await.unwrap();
        Self { directory, running }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[expect(clippy::disallowed_methods, reason = "tests start the program under test")]
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        tokio::process::Command::new(env!("CARGO_BIN_EXE_fettle"))
            .args(arguments)
            .env_clear()
            .env("FETTLE_CONTEXT", &self.running.context_path)
            .current_dir(self.directory.path())
            .output()
            .await
            .unwrap()
    }

    /// The trimmed output of a command that must succeed.
    pub(crate) async fn say(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout).trim_end().to_owned()
    }

    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.say(&[arguments, &["--json"]].concat()).await).unwrap()
    }

    /// Code, output and error of a command that must fail.
    pub(crate) async fn fail(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.run(arguments).await;
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    /// Publishes everything, and registers `try.it@v1`: two steps, of which the second does as told.
    pub(crate) async fn register(&self) {
        let noop = self.say(&["step", "publish", component("noop").to_str().unwrap()]).await;
        let testing = self.say(&["step", "publish", component("testing").to_str().unwrap()]).await;
        let catalog =
            self.write("catalog.yaml", &format!("steps: {{noop@v1: '{noop}', testing.misbehave@v1: '{testing}'}}"));
        let policy = self.write("policy.yaml", POLICY);
        let definition = self.write("definition.yaml", DEFINITION);
        let sound = self.say(&["definition", "check", &definition, "--catalog", &catalog]).await;
        assert!(sound.ends_with("try.it@v1 is sound: 2 steps"), "{sound}");
        self.check_against_policies(&definition, &catalog, &policy).await;
        let catalog = self.say(&["catalog", "publish", &catalog]).await;
        let policy = self.say(&["policy", "publish", &policy]).await;
        let definition = self.say(&["definition", "publish", &definition]).await;
        self.say(&["definition", "apply", &definition, "--catalog", &catalog, "--policy", &policy]).await;
    }
}

impl Workbench {
    /// What a policy bundle would refuse on every node is told before anything is published.
    async fn check_against_policies(&self, definition: &str, catalog: &str, policy: &str) {
        let check = ["definition", "check", definition, "--catalog", catalog, "--policy"];
        self.say(&[&check[..], &[policy]].concat()).await;
        let narrow = POLICY.replace("id: hello", "id: other").replace("profiles: [hello]", "profiles: [other]");
        let narrow = self.write("narrow.yaml", &narrow.replace("write: [data]", "read: [data]"));
        let (code, _, error) = self.fail(&[&check[..], &[&narrow]].concat()).await;
        assert_eq!(code, 3, "{error}");
        assert!(error.contains("/steps/1/grants/exec") && error.contains("hello"), "{error}");
        assert!(error.contains("/steps/1/grants/files") && error.contains("data"), "{error}");
        let broken = self.write("broken.yaml", &POLICY.replace("/usr/bin/true", "bin/true"));
        let (code, _, error) = self.fail(&[&check[..], &[&broken]].concat()).await;
        assert_eq!(code, 3, "{error}");
        assert!(error.contains("broken.yaml breaks 1 rule") && error.contains("/profiles/0/command"), "{error}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const POLICY: &str = "
revision: 1
roots: {data: data}
profiles: [{id: hello, command: /usr/bin/true}]
ceiling: {exec: {profiles: [hello]}, files: {write: [data]}, facts: {read: [memory]}, gpu: {read: true}}
";

pub(crate) const DEFINITION: &str = "
operation_type: try.it
version: v1
backend_type: node_agent
input_schema: {type: object, additionalProperties: false, required: [mode], properties: {mode: {type: string}}}
steps:
  - {id: first, uses: noop@v1}
  - id: second
    uses: testing.misbehave@v1
    needs: [first]
    with: {mode: '${{ inputs.mode }}', count: 3, text: a line}
    grants: {exec: {profiles: [hello]}, files: {write: [data]}, facts: {read: [memory]}, gpu: {read: true}}
";
