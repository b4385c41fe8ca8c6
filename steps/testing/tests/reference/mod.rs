//! `docs/reference/steps.md`, written from what the steps say of themselves.

use std::{fmt::Write as _, fs, path::Path};

use fettle_model::{
    descriptor::{Descriptor, Effect},
    schema,
};
use serde_json::Value;

use super::{descriptor, steps};

const PATH: &str = "docs/reference/steps.md";
const FIX: &str = "run `UPDATE_DOCS=1 cargo test -p fettle-step-testing --test every_step`, and commit it";

/// Steps that no catalog of a fleet holds.
const LEFT_OUT: [&str; 2] = ["noop", "testing"];

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Observe => "observe: it reads, and changes nothing",
        Effect::Converge => "converge: `run` makes `probe` satisfied; safe to repeat",
        Effect::Consume => "consume: it may not be repeated",
    }
}

/// The type of a field: its JSON types, or the values it may have.
fn kind(field: &Value) -> String {
    let one = |value: &Value| value.as_str().map_or_else(|| value.to_string(), |text| format!("`{text}`"));
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        return values.iter().map(one).collect::<Vec<_>>().join(", ");
    }
    // An enumeration whose values have descriptions.
    if let Some(values) = field.get("oneOf").and_then(Value::as_array) {
        let constants: Vec<String> = values.iter().filter_map(|value| value.get("const")).map(one).collect();
        if constants.len() == values.len() {
            return constants.join(", ");
        }
    }
    match field.get("type") {
        Some(Value::String(name)) if name == "array" => {
            format!("array of {}", field.get("items").map_or_else(|| "any".to_owned(), kind))
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

/// The fields of an object's schema as a table, then those of the objects in it.
fn fields(text: &mut String, title: &str, object: &Value) {
    let Some(properties) = object.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty()) else {
        let _ = write!(text, "\n{title}: any object.\n");
        return;
    };
    let required = |name: &str| {
        object.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name))
    };
    let _ = write!(text, "\n{title}:\n\n| field | type | |\n|---|---|---|\n");
    let mut below = Vec::new();
    for (name, property) in properties {
        let field =
            schema::field(object, std::slice::from_ref(name)).ok().flatten().unwrap_or_else(|| property.clone());
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let mut notes = Vec::new();
        if required(name) {
            notes.push("Required.".to_owned());
        }
        let is_simple = |value: &&Value| !value.is_object() && !value.is_null();
        if let Some(default) = property.get("default").filter(is_simple) {
            notes.push(format!("Default: `{default}`."));
        }
        let notes = [vec![description], notes].concat().join(" ");
        let _ = writeln!(text, "| `{name}` | {} | {} |", kind(&field).replace('|', "\\|"), notes.trim());
        let inner = field.get("items").unwrap_or(&field);
        if inner.get("properties").is_some() {
            below.push((name.clone(), inner.clone()));
        }
    }
    for (name, inner) in below {
        fields(text, &format!("{title}, `{name}`"), &inner);
    }
}

fn section(text: &mut String, descriptor: &Descriptor) {
    let _ = write!(text, "\n## {}\n\n{}\n\n", descriptor.kind, descriptor.summary);
    let _ = writeln!(text, "- Effect: {}.", effect(descriptor.effect));
    let _ = writeln!(text, "- Undo: {}.", if descriptor.undoes { "it takes back what it did" } else { "none" });
    for (capability, why) in &descriptor.requests {
        let _ = writeln!(text, "- Asks for `{}`: {why}. Grant it with `{}`.", capability.name(), capability.example());
    }
    fields(text, "Input", &descriptor.input_schema);
    fields(text, "Output", &descriptor.output_schema);
}

#[test]
fn the_reference_of_steps_is_what_they_say_of_themselves() {
    let mut text = format!(
        "# Step kinds\n\nThis page is written from the steps' descriptors by `steps/testing/tests/reference/mod.rs`; to change it, {FIX}.\n\n\
         `fettle step inspect` shows the same of any component; with `--json` it shows the whole schemas.\n"
    );
    for (_, step) in steps().into_iter().filter(|(directory, _)| !LEFT_OUT.contains(directory)) {
        section(&mut text, &descriptor(&*step));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PATH);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{PATH} is stale; {FIX}");
}
