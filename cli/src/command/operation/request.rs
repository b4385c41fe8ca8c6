//! What is asked for, from the command line.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::Args;
use serde_json::{Map, Value};

use super::Session;
use crate::{
    error::CommandError,
    plane::{NewOperation, TargetSelector},
    supply,
};

/// Which operation, with which inputs, on which node.
#[derive(Debug, Args)]
pub(in crate::command) struct Request {
    /// The operation, as `type@version`.
    #[arg(value_name = "TYPE@VERSION")]
    operation: OperationName,
    /// One input. The value is read as JSON where it is JSON (`3`, `true`, `[1]`), else as text;
    /// `key="3"` in quotes of its own is a text. Repeatable; wins over `--inputs`.
    #[arg(long = "input", short = 'i', value_name = "KEY=VALUE")]
    input: Vec<Input>,
    /// A JSON or YAML file with inputs.
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
    /// 0 to 9: among the operations of one organisation the higher goes first. 5 when absent.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// The longest that it may take, from now to its end: `30m`, `2h`.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// How many nodes may work on it at once; all of them when absent.
    #[arg(long, value_name = "NUMBER")]
    max_parallel: Option<u32>,
    /// How many nodes may fail before no further node is started; all of them when absent.
    #[arg(long, value_name = "NUMBER")]
    failure_budget: Option<u32>,
}

/// On which nodes.
#[derive(Debug, Default, Args)]
#[group(multiple = false)]
struct Target {
    /// The node, by name or id; the one of the context file when absent.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// All nodes of which this is true: CEL over `name`, `labels` and `capabilities`.
    #[arg(long, value_name = "EXPRESSION")]
    label: Option<String>,
    /// The nodes of a node group of the project.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// The nodes of an allocation of the project.
    #[arg(long, value_name = "ALLOCATION")]
    allocation: Option<String>,
}

impl Target {
    fn read(&self, session: &Session) -> Result<TargetSelector, CommandError> {
        let named = [
            self.node.clone().map(TargetSelector::Node),
            self.label.clone().map(TargetSelector::Label),
            self.group.clone().map(TargetSelector::Group),
            self.allocation.clone().map(TargetSelector::Allocation),
            session.context.node.clone().map(TargetSelector::Node),
        ];
        named.into_iter().flatten().next().ok_or_else(|| CommandError::Missing {
            problem: "it is not said which node the operation is for".to_owned(),
            fix: "pass --node NODE, --label, --group or --allocation; `fettle node list` shows the nodes".to_owned(),
        })
    }
}

/// `type@version`
#[derive(Clone, Debug)]
struct OperationName {
    operation_type: String,
    version: String,
}

impl FromStr for OperationName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (operation_type, version) =
            text.split_once('@').ok_or_else(|| format!("write it with its version, like `{text}@v1`"))?;
        Ok(Self { operation_type: operation_type.to_owned(), version: version.to_owned() })
    }
}

/// `key=value`
#[derive(Clone, Debug, PartialEq)]
struct Input {
    key: String,
    value: Value,
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write `key=value`")?;
        if key.is_empty() {
            return Err("write `key=value`, with a key".to_owned());
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        Ok(Self { key: key.to_owned(), value })
    }
}

impl Request {
    /// The request for the plane.
    pub(in crate::command) fn read(
        &self,
        session: &Session,
        idempotency_key: Option<String>,
    ) -> Result<NewOperation, CommandError> {
        let target_selector = self.target.read(session)?;
        let mut inputs: Map<String, Value> = match &self.inputs {
            Some(path) => supply::read_document(path, "file of inputs")?,
            None => Map::new(),
        };
        inputs.extend(self.input.iter().map(|input| (input.key.clone(), input.value.clone())));
        Ok(NewOperation {
            operation_type: self.operation.operation_type.clone(),
            version: self.operation.version.clone(),
            inputs: Value::Object(inputs),
            target_selector,
            idempotency_key,
            priority: self.priority,
            timeout_seconds: self.timeout.map(|timeout| timeout.as_secs()),
            max_parallel_nodes: self.max_parallel,
            failure_budget: self.failure_budget,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_is_json_where_it_is_json_and_text_elsewhere() {
        for (text, value) in [
            ("a=3", json!(3)),
            ("a=true", json!(true)),
            ("a=\"3\"", json!("3")),
            ("a=llama", json!("llama")),
            ("a=x=y", json!("x=y")),
            ("a=", json!("")),
            ("a=[1, \"b\"]", json!([1, "b"])),
            ("a=localhost:5000/m@sha256:00", json!("localhost:5000/m@sha256:00")),
        ] {
            assert_eq!(text.parse::<Input>(), Ok(Input { key: "a".to_owned(), value }), "{text}");
        }
        assert!("a".parse::<Input>().is_err() && "=3".parse::<Input>().is_err());
    }

    #[test]
    fn options_win_over_the_file_of_inputs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("inputs.yaml");
        std::fs::write(&path, "{name: from-file, size: 1}").unwrap();
        let request = Request {
            operation: "a.b@v1".parse().unwrap(),
            input: vec!["name=given".parse().unwrap()],
            inputs: Some(path),
            target: Target { node: Some("n".to_owned()), ..Target::default() },
            priority: None,
            timeout: Some(Duration::from_secs(90)),
            max_parallel: None,
            failure_budget: Some(0),
        };
        let operation = request.read(&Session::default(), None).unwrap();
        assert_eq!(operation.inputs, json!({"name": "given", "size": 1}));
        assert_eq!(operation.target_selector, TargetSelector::Node("n".to_owned()));
        assert_eq!((operation.timeout_seconds, operation.failure_budget), (Some(90), Some(0)));
        assert_eq!((operation.operation_type.as_str(), operation.version.as_str()), ("a.b", "v1"));
    }
}
