//! `${{ expression }}` in step inputs: CEL over `inputs` and `steps`.
//!
//! A text that is one expression and nothing else becomes the expression's value, whatever its type;
//! expressions inside a longer text become text.

use std::collections::BTreeMap;

use cel::{
    Context, Program,
    common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue},
};
use serde_json::{Map, Value};

use crate::{name::StepId, violation::Violation};

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// What an expression refers to: `inputs.model` or `steps.pull.path`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Fields below the operation's inputs.
    Inputs(Vec<String>),
    /// Fields below the output of a step.
    Step(String, Vec<String>),
}

/// One text of a step's input that holds expressions.
#[derive(Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Expression(Program, String),
}

/// A text that cannot be read as a template.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateError {
    /// `${{` without `}}`.
    #[error("`${{{{` is never closed with `}}}}`")]
    Unclosed,
    /// What is between them is no CEL.
    #[error("`{expression}` is not a CEL expression: {reason}")]
    Syntax {
        /// The expression.
        expression: String,
        /// The parser's words.
        reason: String,
    },
    /// It names something other than `inputs` and `steps`.
    #[error("`{name}` in `{expression}` is unknown; expressions see `inputs.<field>` and `steps.<id>.<field>`")]
    UnknownName {
        /// The expression.
        expression: String,
        /// The name.
        name: String,
    },
}

/// An expression that could not be evaluated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{pointer}: `{expression}` cannot be evaluated: {reason}")]
pub struct EvaluateError {
    /// Where in the step's input.
    pub pointer: String,
    /// The expression.
    pub expression: String,
    /// The evaluator's words.
    pub reason: String,
}

impl Template {
    /// Reads a text; none when it holds no expression.
    ///
    /// # Errors
    /// When an expression is not closed, is no CEL, or names something unknown.
    pub fn parse(text: &str) -> Result<Option<Self>, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (source, after) = after.split_once(CLOSE).ok_or(TemplateError::Unclosed)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let source = source.trim();
            let program = Program::compile(source).map_err(|error| TemplateError::Syntax {
                expression: source.to_owned(),
                reason: first_line(&error.to_string()),
            })?;
            parts.push(Part::Expression(program, source.to_owned()));
            rest = after;
        }
        if parts.is_empty() {
            return Ok(None);
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        let template = Self { parts };
        template.paths()?;
        Ok(Some(template))
    }

    /// Whether it is one expression and nothing else, so that it keeps its type.
    #[must_use]
    pub fn is_single(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Expression(..)])
    }

    /// If the text is nothing but one path, that path.
    #[must_use]
    pub fn as_path(&self) -> Option<Path> {
        let [Part::Expression(program, _)] = self.parts.as_slice() else { return None };
        selection(program.expression()).and_then(|names| to_path(&names).ok())
    }

    /// Everything that its expressions refer to.
    ///
    /// # Errors
    /// When one names something other than `inputs` and `steps`.
    pub fn paths(&self) -> Result<Vec<Path>, TemplateError> {
        let mut paths = Vec::new();
        for part in &self.parts {
            if let Part::Expression(program, source) = part {
                let mut found = Vec::new();
                collect(program.expression(), &mut Vec::new(), &mut found);
                for names in found {
                    let path = to_path(&names)
                        .map_err(|name| TemplateError::UnknownName { expression: source.clone(), name })?;
                    paths.push(path);
                }
            }
        }
        Ok(paths)
    }

    fn evaluate(&self, context: &Context<'_, '_>, pointer: &str) -> Result<Value, EvaluateError> {
        let evaluate = |program: &Program, source: &str| {
            let error =
                |reason: String| EvaluateError { pointer: pointer.to_owned(), expression: source.to_owned(), reason };
            let value = program.execute(context).map_err(|e| error(e.to_string()))?;
            value.json().map_err(|e| error(e.to_string()))
        };
        if let [Part::Expression(program, source)] = self.parts.as_slice() {
            return evaluate(program, source);
        }
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Expression(program, source) => match evaluate(program, source)? {
                    Value::String(part) => text.push_str(&part),
                    other => text.push_str(&other.to_string()),
                },
            }
        }
        Ok(Value::String(text))
    }
}

/// Reads every text of `with`; returns the templates by JSON pointer.
///
/// # Errors
/// Every text that cannot be read.
pub fn templates(with: &Value, pointer: &str) -> Result<BTreeMap<String, Template>, Vec<Violation>> {
    let mut templates = BTreeMap::new();
    let mut wrong = Vec::new();
    visit(with, pointer, &mut |pointer, text| match Template::parse(text) {
        Ok(Some(template)) => {
            templates.insert(pointer.to_owned(), template);
        }
        Ok(None) => {}
        Err(error) => wrong.push(Violation::new(pointer, error.to_string())),
    });
    if wrong.is_empty() { Ok(templates) } else { Err(wrong) }
}

/// Puts values in the place of expressions.
///
/// # Errors
/// The first expression that has no value.
pub fn resolve(with: &Value, inputs: &Value, outputs: &BTreeMap<StepId, Value>) -> Result<Value, EvaluateError> {
    let mut has_templates = false;
    visit(with, "", &mut |_, text| has_templates |= text.contains("${{"));
    if !has_templates {
        return Ok(with.clone());
    }
    let mut context = Context::default();
    let steps: Map<String, Value> = outputs.iter().map(|(id, output)| (id.to_string(), output.clone())).collect();
    for (name, value) in [("inputs", inputs.clone()), ("steps", Value::Object(steps))] {
        context.add_variable(name, value).map_err(|error| EvaluateError {
            pointer: String::new(),
            expression: name.to_owned(),
            reason: error.to_string(),
        })?;
    }
    replace(with, "", &context)
}

fn replace(value: &Value, pointer: &str, context: &Context<'_, '_>) -> Result<Value, EvaluateError> {
    Ok(match value {
        Value::String(text) => match Template::parse(text) {
            Ok(None) => value.clone(),
            Ok(Some(template)) => template.evaluate(context, pointer)?,
            Err(error) => {
                return Err(EvaluateError {
                    pointer: pointer.to_owned(),
                    expression: text.clone(),
                    reason: error.to_string(),
                });
            }
        },
        Value::Array(items) => {
            let items =
                items.iter().enumerate().map(|(index, item)| replace(item, &format!("{pointer}/{index}"), context));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(name, field)| Ok((name.clone(), replace(field, &join(pointer, name), context)?)));
            Value::Object(fields.collect::<Result<_, EvaluateError>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

/// Calls `each` for every text below `value` with its JSON pointer.
pub fn visit(value: &Value, pointer: &str, each: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => each(pointer, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{pointer}/{index}"), each);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                visit(field, &join(pointer, name), each);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A pointer one level deeper (RFC 6901 escapes).
#[must_use]
pub fn join(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn to_path(names: &[String]) -> Result<Path, String> {
    match names {
        [root, rest @ ..] if root == "inputs" => Ok(Path::Inputs(rest.to_vec())),
        [root, step, rest @ ..] if root == "steps" => Ok(Path::Step(step.clone(), rest.to_vec())),
        [root, ..] => Err(root.clone()),
        [] => Err(String::new()),
    }
}

/// `a.b["c"]` as its names; none for anything else.
fn selection(expression: &IdedExpr) -> Option<Vec<String>> {
    match &expression.expr {
        Expr::Ident(name) => Some(vec![name.clone()]),
        Expr::Select(select) => {
            let mut names = selection(&select.operand)?;
            names.push(select.field.clone());
            Some(names)
        }
        Expr::Call(call) if call.func_name == cel::common::ast::operators::INDEX => {
            let [operand, index] = call.args.as_slice() else { return None };
            let Expr::Literal(LiteralValue::String(name)) = &index.expr else { return None };
            let mut names = selection(operand)?;
            names.push(name.inner().to_owned());
            Some(names)
        }
        _ => None,
    }
}

/// Collects all selections; names bound by a comprehension are not references.
fn collect(expression: &IdedExpr, bound: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    if let Some(names) = selection(expression) {
        if names.first().is_some_and(|root| !bound.contains(root)) {
            found.push(names);
        }
        return;
    }
    match &expression.expr {
        Expr::Call(call) => {
            for part in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
                collect(part, bound, found);
            }
        }
        Expr::Select(select) => collect(&select.operand, bound, found),
        Expr::List(list) => list.elements.iter().for_each(|element| collect(element, bound, found)),
        Expr::Map(map) => map.entries.iter().for_each(|entry| collect_entry(&entry.expr, bound, found)),
        Expr::Struct(value) => value.entries.iter().for_each(|entry| collect_entry(&entry.expr, bound, found)),
        Expr::Comprehension(inner) => {
            collect(&inner.iter_range, bound, found);
            let depth = bound.len();
            bound.extend([inner.iter_var.clone(), inner.accu_var.clone()]);
            bound.extend(inner.iter_var2.clone());
            for part in [&inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result] {
                collect(part, bound, found);
            }
            bound.truncate(depth);
        }
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
    }
}

fn collect_entry(entry: &EntryExpr, bound: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match entry {
        EntryExpr::StructField(field) => collect(&field.value, bound, found),
        EntryExpr::MapEntry(entry) => {
            collect(&entry.key, bound, found);
            collect(&entry.value, bound, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outputs() -> BTreeMap<StepId, Value> {
        BTreeMap::from([("pull".parse().unwrap(), json!({"path": "models/a", "files": [{"size": 7}], "n": 3}))])
    }

    #[test]
    fn one_expression_keeps_its_type_and_mixed_text_becomes_text() {
        for (with, expected) in [
            (json!("${{ inputs.n }}"), json!(2)),
            (json!("${{ steps.pull.files }}"), json!([{"size": 7}])),
            (json!("n=${{ inputs.n }} p=${{ steps.pull.path }}"), json!("n=2 p=models/a")),
            (json!({"a": ["${{ inputs.name + '-x' }}"], "b": null}), json!({"a": ["me-x"], "b": null})),
            (json!("plain"), json!("plain")),
            (json!("${{ steps.pull.n > 2 ? 'big' : 'small' }}"), json!("big")),
            (json!("${{ inputs['name'] }}"), json!("me")),
        ] {
            let inputs = json!({"n": 2, "name": "me"});
            assert_eq!(resolve(&with, &inputs, &outputs()).unwrap(), expected, "{with}");
        }
    }

    #[test]
    fn a_missing_value_is_named_with_its_place() {
        let error = resolve(&json!({"a": "${{ steps.pull.nothing }}"}), &json!({}), &outputs()).unwrap_err();
        assert_eq!(error.pointer, "/a");
        assert_eq!(error.expression, "steps.pull.nothing");
    }

    #[test]
    fn references_are_found_through_every_form() {
        let paths = |text: &str| Template::parse(text).unwrap().unwrap().paths().unwrap();
        let step =
            |id: &str, names: &[&str]| Path::Step(id.to_owned(), names.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(paths("${{ steps.a.b + steps['c'].d }}"), [step("a", &["b"]), step("c", &["d"])]);
        assert_eq!(paths("${{ [1, 2].exists(x, x == steps.a.n) }}"), [step("a", &["n"])]);
        assert_eq!(paths("${{ {'k': steps.a.n}.k }}"), [step("a", &["n"])]);
        assert_eq!(Template::parse("${{ steps.a.b }}").unwrap().unwrap().as_path(), Some(step("a", &["b"])));
    }

    #[test]
    fn malformed_templates_are_refused() {
        for (text, expected) in [
            ("${{ inputs.a", "never closed"),
            ("${{ inputs. }}", "is not a CEL expression"),
            ("${{ env.HOME }}", "`env` in `env.HOME` is unknown"),
        ] {
            let error = Template::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
