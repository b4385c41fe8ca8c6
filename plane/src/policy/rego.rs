//! An organisation's own rules, in Rego: read and compiled once, asked with a typed input, bounded in time.
//! A rule that fails or takes too long denies.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fettle_model::{canonical, digest::Digest};
use regorus::{Engine, PolicyLengthConfig, Value, utils::limits::ExecutionTimerConfig};
use serde::Serialize;

use super::decision::{Broken, RegoFile, RegoTaken};

/// The longest that one decision may take.
const LIMIT: Duration = Duration::from_millis(250);

/// Steps of the interpreter between two looks at the clock.
const CHECK_EVERY: NonZeroU32 = NonZeroU32::new(256).unwrap();

/// How long after its limit an evaluation is waited for that does not look at the clock.
const GRACE: Duration = Duration::from_millis(750);

/// Messages of one decision that are kept, and characters of each.
const MESSAGES: usize = 50;
const MESSAGE_LENGTH: usize = 500;

/// What policies are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Whether an operation may be submitted.
    Submit,
    /// Whether a task may go to its node.
    Dispatch,
}

impl Entry {
    const ALL: [Self; 2] = [Self::Submit, Self::Dispatch];

    const fn package(self) -> &'static str {
        match self {
            Self::Submit => "data.fettle.submit",
            Self::Dispatch => "data.fettle.dispatch",
        }
    }

    /// The rule: a set of messages, each a reason to deny.
    const fn query(self) -> &'static str {
        match self {
            Self::Submit => "data.fettle.submit.deny",
            Self::Dispatch => "data.fettle.dispatch.deny",
        }
    }
}

/// Why policies cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegoError {
    /// A file or the directory cannot be read.
    #[error("cannot read {}; name a directory of `.rego` files", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// There is nothing in it: whoever names a directory wants rules.
    #[error("{} holds no `.rego` file; name a directory that does, or leave `--rego` out", .0.display())]
    Empty(PathBuf),
    /// A file is no Rego. The text names the file and the line.
    #[error("a Rego policy cannot be used: {0}")]
    Policy(String),
    /// A package does not answer what it is asked.
    #[error("`{query}` cannot be asked: {reason}; write `deny contains message if {{ ... }}` in its package")]
    Rule {
        /// What is asked.
        query: &'static str,
        /// What the engine said.
        reason: String,
    },
    /// A file calls what gives another answer each time.
    #[error("{file}:{line} calls `{name}`, and a policy decides by its input alone; leave it out")]
    Random {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What it calls.
        name: &'static str,
    },
    /// No file says anything that is asked.
    #[error(
        "the policies in {} define neither `package fettle.submit` nor `package fettle.dispatch`; write `deny contains \
         message if {{ ... }}` in one of them", .0.display()
    )]
    Nothing(PathBuf),
}

/// What policies said.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// Every reason to deny.
    pub(crate) broken: Vec<Broken>,
    /// What was asked.
    pub(crate) taken: RegoTaken,
}

/// Compiled policies; without any, nothing is asked.
#[derive(Default)]
pub(crate) struct Rego {
    loaded: Option<Loaded>,
}

struct Loaded {
    /// Compiled; each decision works on a copy, which shares what was compiled.
    engine: Arc<Engine>,
    entries: Vec<Entry>,
    files: Vec<RegoFile>,
    digest: Digest,
    limit: Duration,
}

impl Rego {
    /// Reads every `*.rego` of a directory but the tests (`*_test.rego`), and compiles them.
    ///
    /// # Errors
    /// When there is none, or one is wrong.
    pub(crate) fn load(directory: &Path) -> Result<Self, RegoError> {
        let texts = read(directory)?;
        if texts.is_empty() {
            return Err(RegoError::Empty(directory.to_owned()));
        }
        let loaded = compile(&texts, LIMIT)?.ok_or_else(|| RegoError::Nothing(directory.to_owned()))?;
        tracing::info!(digest = %loaded.digest, files = loaded.files.len(), "policies are loaded");
        Ok(Self { loaded: Some(loaded) })
    }

    /// Whether there is a policy for this.
    pub(crate) fn has(&self, entry: Entry) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.entries.contains(&entry))
    }

    /// Asks the policies. Whatever goes wrong is a reason to deny.
    pub(crate) async fn decide<T: Serialize + Sync>(&self, entry: Entry, input: &T) -> Verdict {
        let Some(loaded) = &self.loaded else {
            return Verdict { broken: Vec::new(), taken: RegoTaken::default() };
        };
        let taken = RegoTaken {
            query: entry.query().to_owned(),
            digest: loaded.digest.to_string(),
            files: loaded.files.clone(),
        };
        let broken = match loaded.ask(entry, input).await {
            Ok(messages) => messages,
            Err(reason) => {
                vec![format!("the policy did not decide, which denies: {reason}; ask a platform administrator")]
            }
        };
        let broken = broken.into_iter().map(|message| Broken {
            rule: entry.query().trim_start_matches("data.").to_owned(),
            decided_by: vec!["rego".to_owned()],
            pointer: String::new(),
            message,
        });
        Verdict { broken: broken.collect(), taken }
    }
}

impl Loaded {
    async fn ask<T: Serialize + Sync>(&self, entry: Entry, input: &T) -> Result<Vec<String>, String> {
        let input = serde_json::to_string(input).map_err(|error| error.to_string())?;
        let engine = Arc::clone(&self.engine);
        // Pure computing: it must not hold up what else this thread serves.
        let asked = tokio::task::spawn_blocking(move || evaluate(&engine, entry, &input));
        match tokio::time::timeout(self.limit + GRACE, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(format!("it ended badly: {error}")),
            Err(_) => Err(format!("it took longer than {} ms", self.limit.as_millis())),
        }
    }
}

fn evaluate(engine: &Engine, entry: Entry, input: &str) -> Result<Vec<String>, String> {
    let mut engine = engine.clone();
    engine.set_input_json(input).map_err(|error| reason(&error))?;
    let answer = engine.eval_rule(entry.query().to_owned()).map_err(|error| reason(&error))?;
    messages(&answer)
}

/// The messages of a set. Anything else is a mistake, and a mistake denies.
fn messages(answer: &Value) -> Result<Vec<String>, String> {
    let set = match answer {
        Value::Undefined => return Ok(Vec::new()),
        Value::Set(set) => set,
        _ => return Err("`deny` is no set of messages; write `deny contains message if { ... }`".to_owned()),
    };
    let text = |message: &Value| match message {
        Value::String(text) => cut(text),
        other => cut(&other.to_string()),
    };
    Ok(set.iter().take(MESSAGES).map(text).collect())
}

fn cut(text: &str) -> String {
    text.chars().take(MESSAGE_LENGTH).collect()
}

/// What the engine says, in one line.
fn reason(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "|");
    cut(&lines.collect::<Vec<_>>().join(" "))
}

fn read(directory: &Path) -> Result<BTreeMap<String, String>, RegoError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RegoError::Read { path, source }
    };
    let mut texts = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".rego") && !name.ends_with("_test.rego") {
            texts.insert(name, std::fs::read_to_string(&path).map_err(failed(&path))?);
        }
    }
    Ok(texts)
}

/// The engine's one function that is no function of its arguments and that cannot be left out of it.
const RANDOM: &str = "rand.intn";

fn insist_on_input_alone(file: &str, text: &str) -> Result<(), RegoError> {
    match text.lines().position(|line| line.contains(RANDOM)) {
        Some(at) => Err(RegoError::Random { file: file.to_owned(), line: at + 1, name: RANDOM }),
        None => Ok(()),
    }
}

/// None when the policies answer nothing that is asked.
fn compile(texts: &BTreeMap<String, String>, limit: Duration) -> Result<Option<Loaded>, RegoError> {
    let wrong = |error: anyhow::Error| RegoError::Policy(reason(&error));
    let mut engine = Engine::new();
    engine.set_strict_builtin_errors(true);
    engine.set_policy_length_config(PolicyLengthConfig::default());
    let mut packages = BTreeSet::new();
    for (name, text) in texts {
        insist_on_input_alone(name, text)?;
        packages.insert(engine.add_policy(name.clone(), text.clone()).map_err(wrong)?);
    }
    let entries: Vec<Entry> = Entry::ALL.into_iter().filter(|entry| packages.contains(entry.package())).collect();
    for entry in &entries {
        let compiled = engine.compile_with_entrypoint(&entry.query().into());
        compiled.map_err(|error| RegoError::Rule { query: entry.query(), reason: reason(&error) })?;
    }
    if entries.is_empty() {
        return Ok(None);
    }
    engine.set_execution_timer_config(ExecutionTimerConfig { limit, check_interval: CHECK_EVERY });
    let digests = texts.iter().map(|(name, text)| (name.clone(), Digest::of(text.as_bytes())));
    let digests: BTreeMap<String, Digest> = digests.collect();
    let digest = canonical::digest(&digests).map_err(|error| RegoError::Policy(error.to_string()))?;
    let files = digests.into_iter().map(|(name, digest)| RegoFile { name, digest: digest.to_string() }).collect();
    Ok(Some(Loaded { engine: Arc::new(engine), entries, files, digest, limit }))
}

#[cfg(test)]
mod tests;
