//! `cargo xtask demo`: a real operation on this machine, from source code to result.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::{
    steps,
    tools::{self, cargo, output, root, target},
};

/// How to run the demonstration.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Leave plane, host and registry running at the end, until ctrl-c.
    #[arg(long)]
    keep: bool,
    /// Size of the model's largest layer in MB.
    #[arg(long, default_value_t = 128)]
    megabytes: u32,
}

/// The step kinds that the operation uses, by the directory of their crate.
const STEPS: [(&str, &str); 5] = [
    ("health-check", "health.check@v1"),
    ("gpu-runtime-check", "gpu.runtime.check@v1"),
    ("artifact-pull-oci", "artifact.pull_oci@v1"),
    ("file-render", "file.render@v1"),
    ("command-exec-allowlisted", "command.exec_allowlisted@v1"),
];

/// How long plane, host and registry may take to start.
const PATIENCE: Duration = Duration::from_secs(90);

/// The command.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    say("building the step components and the programs; the first time takes some minutes");
    let built = steps::build()?;
    tools::run(cargo().args(["build", "-p", "fettle-cli"]))?;

    let data = target().join("demo");
    if data.exists() {
        fs::remove_dir_all(&data).with_context(|| format!("{} of an earlier run cannot be removed", data.display()))?;
    }
    fs::create_dir_all(&data)?;
    let mut demo = Demo::start(data)?;
    say("publishing and signing the steps, the catalog, the policy bundle and the definition");
    let sources = demo.publish(&built)?;
    say(&format!("pushing a model of {} MB to the registry", options.megabytes));
    let model = demo.push_model(options.megabytes)?;
    let apply =
        ["definition", "apply", &sources.definition, "--catalog", &sources.catalog, "--policy", &sources.policy];
    demo.fettle_json(&apply)?;

    say("submitting model.artifact.stage@v1\n");
    let name = "name=demo".to_owned();
    let status = demo
        .fettle(&[
            "operation",
            "submit",
            "model.artifact.stage@v1",
            "--watch",
            "--input",
            &format!("model={model}"),
            "--input",
            &name,
        ])
        .status()?;
    demo.result(status.success())?;
    if options.keep {
        demo.wait()?;
    }
    ensure!(status.success(), "the operation did not succeed; {} says why", demo.data.join("fettle.log").display());
    Ok(())
}

fn say(text: &str) {
    println!("==> {text}");
}

/// The three documents that a definition is registered with.
struct Sources {
    definition: String,
    catalog: String,
    policy: String,
}

struct Demo {
    data: PathBuf,
    server: Child,
}

impl Demo {
    fn start(data: PathBuf) -> anyhow::Result<Self> {
        let log = File::create(data.join("dev.out"))?;
        let server = Command::new(program())
            .args(["dev", "--no-context", "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("`fettle dev` cannot be started")?;
        let mut demo = Self { data, server };
        let begin = Instant::now();
        // The context file is written when everything answers.
        while !demo.context().is_file() {
            if let Some(status) = demo.server.try_wait()? {
                bail!("`fettle dev` ended with {status}:\n{}", fs::read_to_string(demo.data.join("dev.out"))?);
            }
            ensure!(
                begin.elapsed() < PATIENCE,
                "`fettle dev` did not become ready; {} says why",
                demo.data.join("fettle.log").display()
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Ok(demo)
    }

    fn context(&self) -> PathBuf {
        self.data.join("context.json")
    }

    fn registry(&self) -> anyhow::Result<String> {
        let context: Value = serde_json::from_str(&fs::read_to_string(self.context())?)?;
        Ok(context["registry"].as_str().context("the context names no registry")?.to_owned())
    }

    fn fettle(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .current_dir(root())
            .env("FETTLE_CONTEXT", self.context())
            .env("FETTLE_KEY_PASSWORD", "")
            .args(arguments);
        command
    }

    fn fettle_json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = output(self.fettle(arguments).arg("--json"))?;
        serde_json::from_str(&text).with_context(|| format!("`fettle {}` printed no JSON", arguments.join(" ")))
    }

    /// Runs a command that publishes something, and answers its reference.
    fn publish_one(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let published = self.fettle_json(arguments)?;
        Ok(published["reference"].as_str().context("no reference was printed")?.to_owned())
    }

    fn publish(&self, built: &[steps::StepPackage]) -> anyhow::Result<Sources> {
        let mut catalog = serde_json::Map::new();
        for (name, kind) in STEPS {
            let step =
                built.iter().find(|step| step.name == name).with_context(|| format!("there is no step {name}"))?;
            let reference = self.publish_one(&["step", "publish", text(&step.component())?])?;
            println!("    {kind:<28} {}", reference.rsplit('@').next().unwrap_or_default());
            catalog.insert(kind.to_owned(), json!(reference));
        }
        let catalog_file = self.write("catalog.json", &json!({ "steps": catalog }).to_string())?;
        let definition = fs::read_to_string(root().join("policies/definitions/model.artifact.stage.v1.yaml"))?;
        // What an administrator does before signing: name the own registry.
        let definition = definition.replace("registry.internal:5000", &self.registry()?);
        let definition_file = self.write("model.artifact.stage.v1.yaml", &definition)?;
        Ok(Sources {
            catalog: self.publish_one(&["catalog", "publish", &catalog_file])?,
            policy: self.publish_one(&["policy", "publish", "policies/bundles/workstation.yaml"])?,
            definition: self.publish_one(&["definition", "publish", &definition_file])?,
        })
    }

    fn write(&self, name: &str, content: &str) -> anyhow::Result<String> {
        let path = self.data.join(name);
        fs::write(&path, content)?;
        Ok(text(&path)?.to_owned())
    }

    /// A model of three files, one of them large.
    fn push_model(&self, megabytes: u32) -> anyhow::Result<String> {
        let directory = self.data.join("model");
        fs::create_dir_all(&directory)?;
        let weights = directory.join("weights.safetensors");
        write_weights(&weights, megabytes)?;
        let tokenizer = directory.join("tokenizer.json");
        fs::write(&tokenizer, "{\"vocabulary\": []}\n")?;
        let license = directory.join("LICENSE");
        fs::copy(root().join("LICENSE"), &license)?;
        self.publish_one(&["artifact", "push", "models/demo", text(&weights)?, text(&tokenizer)?, text(&license)?])
    }

    fn result(&self, succeeded: bool) -> anyhow::Result<()> {
        let files = self.data.join("host/files");
        let shown = |path: &Path| {
            std::env::current_dir()
                .ok()
                .and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned))
                .unwrap_or_else(|| path.to_owned())
        };
        println!();
        say(if succeeded { "the operation succeeded" } else { "the operation did not succeed" });
        if succeeded {
            let config =
                fs::read_to_string(files.join("config/demo.toml")).context("the rendered configuration is missing")?;
            println!("\n{}", config.lines().take(6).map(|line| format!("    {line}\n")).collect::<String>());
            println!("    staged files   {}", shown(&files.join("models/demo")).display());
            println!("    configuration  {}", shown(&files.join("config/demo.toml")).display());
        }
        println!("    log            {}", shown(&self.data.join("fettle.log")).display());
        println!(
            "    audit trail    cargo run -q -p fettle-plane -- audit --data {}",
            shown(&self.data.join("plane")).display()
        );
        println!("\nType next:\n");
        let next = shown(&self.data);
        println!("    cargo run -q -p fettle-cli -- dev --data {} --no-context", next.display());
        println!("    export FETTLE_CONTEXT={}", self.context().display());
        println!("    cargo run -q -p fettle-cli -- operation list");
        println!("    cargo run -q -p fettle-cli -- operation logs <operation>");
        std::io::stdout().flush()?;
        Ok(())
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        println!("\nPlane, host and registry keep running; ctrl-c ends them.");
        self.server.wait()?;
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The server is this process's own child; `fettle dev` ends its parts on SIGTERM.
        let _ = Command::new("kill").arg(self.server.id().to_string()).status();
        let begin = Instant::now();
        while matches!(self.server.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(25) {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn program() -> PathBuf {
    target().join("debug/fettle")
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Bytes that do not compress, always the same.
fn write_weights(path: &Path, megabytes: u32) -> anyhow::Result<()> {
    let mut file = std::io::BufWriter::new(File::create(path)?);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..u64::from(megabytes) * 125_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    file.flush()?;
    Ok(())
}
