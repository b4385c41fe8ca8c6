//! Which nodes an operation is for: a CEL expression over what is known of a node.
//!
//! The expression sees `name`, `labels` and `capabilities`; a label or capability that a node does not have makes the
//! comparison false for that node: `labels.region == "eu" && capabilities["gpu.vendor"] == "nvidia"`.

use std::collections::BTreeMap;

use cel::{
    Context, ExecutionError, Program,
    common::ast::{EntryExpr, Expr, IdedExpr},
};

/// Characters of an expression.
pub const LONGEST: usize = 1000;

/// What expressions see.
const NAMES: [&str; 3] = ["name", "labels", "capabilities"];

/// An expression that says of each node whether it is meant.
#[derive(Debug)]
pub struct LabelExpression {
    program: Program,
}

/// What an expression sees of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its operator calls it by.
    pub labels: &'a BTreeMap<String, String>,
    /// What it has (seed 001, 9.1).
    pub capabilities: &'a BTreeMap<String, String>,
}

/// Why an expression cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectorError {
    /// It is longer than anybody needs.
    #[error("the expression has {0} characters; at most {LONGEST} are read")]
    Long(usize),
    /// It is no CEL.
    #[error("it is not a CEL expression: {0}")]
    Syntax(String),
    /// It names something that no node has.
    #[error("`{0}` is unknown; expressions see `name`, `labels.<key>` and `capabilities[\"<key>\"]`")]
    UnknownName(String),
    /// It could take any time.
    #[error("it has a loop (`all`, `exists`, `filter`, `map`); compare labels one by one, or with `in`")]
    Loop,
    /// It cannot be evaluated.
    #[error("it cannot be evaluated for node `{node}`: {reason}")]
    Evaluation {
        /// The node.
        node: String,
        /// The evaluator's words.
        reason: String,
    },
    /// It does not say yes or no.
    #[error("it must be true or false for each node, and for `{node}` it is {value}")]
    NotBoolean {
        /// The node.
        node: String,
        /// What it is.
        value: String,
    },
}

impl LabelExpression {
    /// Reads an expression.
    ///
    /// # Errors
    /// When it is too long, no CEL, or names something unknown.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let length = text.chars().count();
        if length > LONGEST {
            return Err(SelectorError::Long(length));
        }
        let program = Program::compile(text)
            .map_err(|error| SelectorError::Syntax(error.to_string().lines().next().unwrap_or_default().to_owned()))?;
        if has_loop(program.expression()) {
            return Err(SelectorError::Loop);
        }
        let references = program.references();
        match references.variables().into_iter().find(|name| !NAMES.contains(name)) {
            Some(unknown) => Err(SelectorError::UnknownName(unknown.to_owned())),
            None => Ok(Self { program }),
        }
    }

    /// Whether the node is meant.
    ///
    /// # Errors
    /// When the expression has no value for the node, or one that is neither true nor false.
    pub fn matches(&self, node: NodeView<'_>) -> Result<bool, SelectorError> {
        let failed = |reason: String| SelectorError::Evaluation { node: node.name.to_owned(), reason };
        let mut context = Context::default();
        context.add_variable("name", node.name).map_err(|error| failed(error.to_string()))?;
        for (name, map) in [("labels", node.labels), ("capabilities", node.capabilities)] {
            context.add_variable(name, map).map_err(|error| failed(error.to_string()))?;
        }
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(matches)) => Ok(matches),
            Ok(other) => {
                let value = other.json().map_or_else(|_| "something else".to_owned(), |value| value.to_string());
                Err(SelectorError::NotBoolean { node: node.name.to_owned(), value })
            }
            Err(ExecutionError::NoSuchKey(_)) => Ok(false),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Nested loops over a node's labels could keep a plane busy for years.
fn has_loop(expression: &IdedExpr) -> bool {
    let entry = |entry: &EntryExpr| match entry {
        EntryExpr::StructField(field) => has_loop(&field.value),
        EntryExpr::MapEntry(entry) => has_loop(&entry.key) || has_loop(&entry.value),
    };
    match &expression.expr {
        Expr::Comprehension(_) => true,
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).any(has_loop),
        Expr::Select(select) => has_loop(&select.operand),
        Expr::List(list) => list.elements.iter().any(has_loop),
        Expr::Map(map) => map.entries.iter().any(|one| entry(&one.expr)),
        Expr::Struct(value) => value.entries.iter().any(|one| entry(&one.expr)),
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn of(expression: &str) -> Result<bool, SelectorError> {
        let labels = map(&[("region", "eu"), ("rack", "r7")]);
        let capabilities = map(&[("gpu.vendor", "nvidia")]);
        let node = NodeView { name: "gpu-17", labels: &labels, capabilities: &capabilities };
        LabelExpression::parse(expression)?.matches(node)
    }

    #[test]
    fn an_expression_says_which_nodes_are_meant() {
        for (expression, expected) in [
            ("labels.region == 'eu'", true),
            ("labels.region == 'us'", false),
            ("labels['rack'] in ['r6', 'r7']", true),
            ("capabilities['gpu.vendor'] == 'nvidia' && labels.region == 'eu'", true),
            ("name.startsWith('gpu-')", true),
            ("has(labels.zone)", false),
            ("labels.zone == 'a'", false),
            ("!(labels.zone == 'a')", false),
            ("true", true),
        ] {
            assert_eq!(of(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_says_nothing_about_nodes_is_refused() {
        assert!(matches!(of("labels.region =="), Err(SelectorError::Syntax(_))));
        assert_eq!(of("region == 'eu'"), Err(SelectorError::UnknownName("region".to_owned())));
        assert!(matches!(of("labels.region"), Err(SelectorError::NotBoolean { .. })));
        assert!(matches!(of("labels.region + 1"), Err(SelectorError::Evaluation { .. })));
        assert_eq!(of("labels.all(a, labels.all(b, a == b))"), Err(SelectorError::Loop));
        assert_eq!(of("[name].exists(one, one == name)"), Err(SelectorError::Loop));
        assert_eq!(of(&format!("name == '{}'", "x".repeat(LONGEST))), Err(SelectorError::Long(LONGEST + 10)));
    }
}
