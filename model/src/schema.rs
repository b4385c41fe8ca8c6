//! JSON Schemas: are they valid, does a value fit, does one's output fit another's input.

use jsonschema::{ValidationOptions, Validator, canonical::Containment};
use serde_json::{Value, json};

use crate::violation::{Violation, Violations};

/// Reads a schema. References to other documents are refused: a schema stands alone.
///
/// # Errors
/// What is wrong with the schema, as a sentence.
pub fn compile(schema: &Value) -> Result<Validator, String> {
    let options: ValidationOptions<'_> = jsonschema::options().offline().should_validate_formats(true);
    options.build(schema).map_err(|error| format!("is not a valid JSON Schema: {error} (at {})", error.instance_path()))
}

/// A schema that is ready to check many values.
#[derive(Debug)]
pub struct Schema(Validator);

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// What is wrong with the schema, as a sentence.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        compile(schema).map(Self)
    }

    /// Checks a value.
    ///
    /// # Errors
    /// Every violation at once, each with the JSON pointer of the value that breaks a rule.
    pub fn check(&self, value: &Value) -> Result<(), Violations> {
        let found =
            self.0.iter_errors(value).map(|error| Violation::new(error.instance_path().as_str(), error.to_string()));
        Violations::check(found.collect())
    }
}

/// Checks a value.
///
/// # Errors
/// Every violation at once, each with the JSON pointer of the value that breaks a rule.
pub fn validate(schema: &Value, value: &Value) -> Result<(), Violations> {
    Schema::compile(schema)
        .map_err(|message| Violations(vec![Violation::new("", format!("the schema {message}"))]))?
        .check(value)
}

/// Whether everything that `producer` allows is allowed by `consumer`.
#[derive(Debug, PartialEq, Eq)]
pub enum Fit {
    /// Always.
    Fits,
    /// There are values that do not.
    Mismatch,
    /// The schemas use features that cannot be compared; the value is checked when it is there.
    Unknown,
}

/// Compares two schemas.
#[must_use]
pub fn fits(producer: &Value, consumer: &Value) -> Fit {
    let (Ok(producer), Ok(consumer)) = (jsonschema::canonicalize(producer), jsonschema::canonicalize(consumer)) else {
        return Fit::Unknown;
    };
    match consumer.covers(&producer) {
        Ok(Containment::Yes) => Fit::Fits,
        Ok(Containment::No) => Fit::Mismatch,
        Ok(Containment::Unknown) | Err(_) => Fit::Unknown,
    }
}

/// The schema of a field, following `properties`, local `$ref` and `items`-free paths.
///
/// # Errors
/// The name along `path` that the schema does not know, and the ones it does.
pub fn field(schema: &Value, path: &[String]) -> Result<Option<Value>, (String, Vec<String>)> {
    let mut at = schema.clone();
    for name in path {
        at = dereference(schema, &at);
        let Some(properties) = at.get("properties").and_then(Value::as_object) else { return Ok(None) };
        match properties.get(name) {
            Some(next) => at = next.clone(),
            None if at.get("additionalProperties").is_some_and(|extra| extra != &json!(false)) => return Ok(None),
            None => return Err((name.clone(), properties.keys().cloned().collect())),
        }
    }
    let mut found = dereference(schema, &at);
    if let (Some(definitions), Some(object)) = (schema.get("$defs"), found.as_object_mut()) {
        object.insert("$defs".to_owned(), definitions.clone());
    }
    Ok(Some(found))
}

fn dereference(root: &Value, schema: &Value) -> Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
    target.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_violations_come_at_once_with_pointers() {
        let schema = json!({"type": "object", "required": ["model", "name"], "additionalProperties": false,
            "properties": {"model": {"type": "string"}, "name": {"type": "string", "minLength": 1}}});
        let found = validate(&schema, &json!({"name": "", "model": 3, "extra": 1})).unwrap_err();
        let pointers: Vec<_> = found.0.iter().map(|violation| violation.pointer.as_str()).collect();
        assert_eq!(pointers.len(), 3, "{found}");
        assert!(pointers.contains(&"/name") && pointers.contains(&"/model") && pointers.contains(&""));
    }

    #[test]
    fn a_schema_that_reaches_elsewhere_is_refused() {
        assert!(compile(&json!({"$ref": "http://localhost/other.json"})).is_err());
        assert!(compile(&json!({"type": "strnig"})).unwrap_err().contains("not a valid JSON Schema"));
    }

    #[test]
    fn fitting_is_containment() {
        for (producer, consumer, expected) in [
            (json!({"type": "integer"}), json!({"type": "number"}), Fit::Fits),
            (json!({"type": "string"}), json!({"type": "integer"}), Fit::Mismatch),
            (json!({"type": ["string", "null"]}), json!({"type": "string"}), Fit::Mismatch),
            (json!({"enum": ["a"]}), json!({"type": "string"}), Fit::Fits),
            (json!({"type": "integer", "minimum": 0}), json!({"type": "integer", "minimum": 1}), Fit::Mismatch),
            (
                json!({"type": "integer", "format": "uint64", "minimum": 0}),
                json!({"type": "integer", "minimum": 0}),
                Fit::Fits,
            ),
        ] {
            assert_eq!(fits(&producer, &consumer), expected, "{producer} -> {consumer}");
        }
    }

    #[test]
    fn fields_are_found_through_local_references() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"type": "object", "additionalProperties": false, "properties": {"b": {"type": "string"}}}}});
        let names = |path: &[&str]| path.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(field(&schema, &names(&["a", "b"])).unwrap().unwrap()["type"], "string");
        assert_eq!(field(&schema, &names(&["a", "c"])), Err(("c".to_owned(), vec!["b".to_owned()])));
    }
}
