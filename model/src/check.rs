//! Is a definition sound? Run when it is written, published and registered.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    access::{self, Question},
    definition::{Definition, StepDefinition},
    descriptor::{Descriptor, Effect},
    expression::{self, Path, Template},
    grant::ANY,
    graph,
    name::{StepId, StepKind},
    policy::PolicyBundle,
    schema::{self, Fit},
    taxonomy,
    violation::{Violation, Violations},
};

/// Most steps of one definition.
pub const MAXIMUM_STEPS: usize = 1_024;

/// Checks the graph and the types: acyclic, every reference resolves, every output fits the input it
/// goes to, every grant covers what the component asks for.
///
/// # Errors
/// All broken rules, each with its JSON pointer.
pub fn check(definition: &Definition, descriptors: &BTreeMap<StepKind, Descriptor>) -> Result<(), Violations> {
    check_with(definition, descriptors, None)
}

/// The same, and that nothing is granted which a policy bundle would refuse on every node.
///
/// # Errors
/// All broken rules, each with its JSON pointer.
pub fn check_with(
    definition: &Definition,
    descriptors: &BTreeMap<StepKind, Descriptor>,
    policy: Option<&PolicyBundle>,
) -> Result<(), Violations> {
    let mut found = Vec::new();
    if let Err(message) = schema::compile(&definition.input_schema) {
        found.push(Violation::new("/input_schema", message));
    }
    if definition.steps.is_empty() || definition.steps.len() > MAXIMUM_STEPS {
        found.push(Violation::new("/steps", format!("a definition has 1 to {MAXIMUM_STEPS} steps")));
    }
    if definition.artifact_constraints.as_ref().is_some_and(|constraints| constraints.require_signature) {
        let message = "signatures of the artifacts that steps fetch are not verified by this version; their digest is; leave it out";
        found.push(Violation::new("/artifact_constraints/require_signature", message));
    }
    taxonomy::check(&definition.requires, &mut found);
    let checker = Checker { definition, descriptors, policy, needs: needs(definition) };
    for (index, step) in definition.steps.iter().enumerate() {
        let pointer = format!("/steps/{index}");
        if definition.steps.iter().take(index).any(|earlier| earlier.id == step.id) {
            found.push(Violation::new(
                format!("{pointer}/id"),
                format!("a step `{}` exists already; ids are unique", step.id),
            ));
        }
        checker.check_needs(step, &pointer, &mut found);
        checker.check_limits(step, &pointer, &mut found);
        checker.check_grants(step, &pointer, &mut found);
        checker.check_input(step, &pointer, &mut found);
    }
    if let Err(graph::Cycle(names)) = graph::topological_order(&checker.needs) {
        let path = names.iter().map(StepId::as_str).collect::<Vec<_>>().join(" -> ");
        found.push(Violation::new(
            "/steps",
            format!("the steps need each other in a cycle: {path}; remove one of these needs or references"),
        ));
    }
    Violations::check(found)
}

/// What each step needs: what it says and what its input refers to.
#[must_use]
pub fn needs(definition: &Definition) -> BTreeMap<StepId, BTreeSet<StepId>> {
    definition.steps.iter().map(|step| (step.id.clone(), needs_of(step))).collect()
}

fn needs_of(step: &StepDefinition) -> BTreeSet<StepId> {
    let mut needs = step.needs.clone();
    let templates = expression::templates(&step.with, "").unwrap_or_default();
    for path in templates.values().filter_map(|template| template.paths().ok()).flatten() {
        if let Path::Step(id, _) = path {
            needs.extend(id.parse::<StepId>());
        }
    }
    needs
}

struct Checker<'a> {
    definition: &'a Definition,
    descriptors: &'a BTreeMap<StepKind, Descriptor>,
    policy: Option<&'a PolicyBundle>,
    needs: BTreeMap<StepId, BTreeSet<StepId>>,
}

impl Checker<'_> {
    fn check_needs(&self, step: &StepDefinition, pointer: &str, found: &mut Vec<Violation>) {
        for needed in &step.needs {
            if !self.needs.contains_key(needed) {
                let known = self.needs.keys().map(StepId::as_str).collect::<Vec<_>>().join(", ");
                found.push(Violation::new(
                    format!("{pointer}/needs"),
                    format!("there is no step `{needed}`; the steps are {known}"),
                ));
            }
        }
    }

    fn check_limits(&self, step: &StepDefinition, pointer: &str, found: &mut Vec<Violation>) {
        if !(1..=100).contains(&step.retry.attempts) {
            found.push(Violation::new(format!("{pointer}/retry/attempts"), "write 1 to 100"));
        }
        step.limits.check(&format!("{pointer}/limits"), found);
        if !(1..=10).contains(&step.retry.backoff.factor) {
            found.push(Violation::new(format!("{pointer}/retry/backoff/factor"), "write 1 to 10"));
        }
        if step.timeout.is_zero() || step.timeout > std::time::Duration::from_hours(24) {
            found.push(Violation::new(format!("{pointer}/timeout"), "write more than 0s and at most 24h"));
        }
    }

    fn check_grants(&self, step: &StepDefinition, pointer: &str, found: &mut Vec<Violation>) {
        let Ok(Value::Object(grants)) = serde_json::to_value(&step.grants) else { return };
        expression::visit(&Value::Object(grants), &format!("{pointer}/grants"), &mut |place, text| {
            if text == ANY || text.contains("${{") {
                found.push(Violation::new(
                    place,
                    format!("`{text}` is not a literal; a grant names what it grants, so that no input can widen it"),
                ));
            }
        });
        if step.grants.credentials.is_some() && step.reusable {
            found.push(Violation::new(
                format!("{pointer}/reusable"),
                "a credential does not outlast the run that it was minted in; write `reusable: false`",
            ));
        }
        let Some(descriptor) = self.descriptors.get(&step.uses) else { return };
        if descriptor.effect == Effect::Consume && step.retry.attempts > 1 {
            let message = format!("`{}` may not be repeated (its effect is `consume`); leave `retry` out", step.uses);
            found.push(Violation::new(format!("{pointer}/retry/attempts"), message));
        }
        let (step_id, grants, policy) = (Some(&step.id), Some(&step.grants), self.policy);
        let access = access::of_step(&Question { step: step_id, descriptor, imports: None, grants, policy });
        found.extend(
            access
                .findings()
                .map(|finding| Violation::new(format!("{pointer}{}", finding.pointer), finding.to_string())),
        );
    }

    fn check_input(&self, step: &StepDefinition, pointer: &str, found: &mut Vec<Violation>) {
        let base = format!("{pointer}/with");
        let templates = match expression::templates(&step.with, &base) {
            Ok(templates) => templates,
            Err(wrong) => return found.extend(wrong),
        };
        let Some(descriptor) = self.descriptors.get(&step.uses) else {
            let known = self.descriptors.keys().map(StepKind::as_str).collect::<Vec<_>>().join(", ");
            found.push(Violation::new(
                format!("{pointer}/uses"),
                format!("`{}` is not in the catalog; it has {known}", step.uses),
            ));
            return;
        };
        for (place, template) in &templates {
            for path in template.paths().unwrap_or_default() {
                if let Err(message) = self.source(&path) {
                    found.push(Violation::new(place, message));
                }
            }
            if let Err(message) = self.check_flow(template, place.strip_prefix(&base).unwrap_or_default(), descriptor) {
                found.push(Violation::new(place, message));
            }
        }
        check_literals(&step.with, &base, &templates, descriptor, found);
    }

    /// The schema of what a path refers to; none when it is not known before it runs.
    fn source(&self, path: &Path) -> Result<Option<Value>, String> {
        let unknown = |place: String, (name, known): (String, Vec<String>)| {
            format!("`{place}` has no field `{name}`; it has {}", known.join(", "))
        };
        match path {
            Path::Inputs(names) => {
                schema::field(&self.definition.input_schema, names).map_err(|error| unknown("inputs".to_owned(), error))
            }
            Path::Step(id, names) => {
                let step = self.definition.steps.iter().find(|step| step.id.as_str() == id);
                let Some(step) = step else {
                    let known = self.needs.keys().map(StepId::as_str).collect::<Vec<_>>().join(", ");
                    return Err(format!("there is no step `{id}`; the steps are {known}"));
                };
                let Some(descriptor) = self.descriptors.get(&step.uses) else { return Ok(None) };
                schema::field(&descriptor.output_schema, names).map_err(|error| unknown(format!("steps.{id}"), error))
            }
        }
    }

    /// Does what the template yields fit the input field it goes to?
    fn check_flow(&self, template: &Template, place: &str, descriptor: &Descriptor) -> Result<(), String> {
        let names: Vec<String> =
            place.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
        let Ok(Some(consumer)) = schema::field(&descriptor.input_schema, &names) else { return Ok(()) };
        let producer = match template.as_path() {
            Some(path) => self.source(&path).ok().flatten(),
            None if !template.is_single() => Some(serde_json::json!({"type": "string"})),
            None => None,
        };
        let Some(producer) = producer else { return Ok(()) };
        // A text of unknown form is checked when its value is there; only another type is an error here.
        if schema::fits(&producer, &consumer) == Fit::Mismatch
            && schema::fits(&type_only(&producer), &type_only(&consumer)) == Fit::Mismatch
        {
            return Err(format!(
                "the value does not fit: it is {}, and `{}` takes {}",
                brief(&producer),
                descriptor.kind,
                brief(&consumer)
            ));
        }
        Ok(())
    }
}

/// Checks what is literal in an input. Expressions are left out of the comparison.
fn check_literals(
    with: &Value,
    base: &str,
    templates: &BTreeMap<String, Template>,
    descriptor: &Descriptor,
    found: &mut Vec<Violation>,
) {
    let Err(violations) = schema::validate(&descriptor.input_schema, with) else { return };
    for violation in violations.0 {
        let place = format!("{base}{}", violation.pointer);
        let inside = |template: &String| {
            template == &place || (template.starts_with(&format!("{place}/")) && violation.message.contains("${{"))
        };
        if !templates.keys().any(inside) {
            found.push(Violation::new(place, violation.message));
        }
    }
}

/// A schema reduced to its types, so that only certain mismatches are errors.
fn type_only(schema: &Value) -> Value {
    types(schema).map_or_else(|| schema.clone(), |types| serde_json::json!({ "type": types }))
}

/// The types that a schema allows, where it says so: also as alternatives, or by naming the values.
fn types(schema: &Value) -> Option<BTreeSet<String>> {
    if let Some(kind) = schema.get("type") {
        return match kind {
            Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().map(str::to_owned)).collect(),
            kind => Some(BTreeSet::from([kind.as_str()?.to_owned()])),
        };
    }
    let of_value = |value: &Value| {
        let name = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        BTreeSet::from([name.to_owned()])
    };
    if let Some(value) = schema.get("const") {
        return Some(of_value(value));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().flat_map(of_value).collect());
    }
    let alternatives = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array)?;
    alternatives.iter().map(types).collect::<Option<Vec<_>>>().map(|all| all.into_iter().flatten().collect())
}

fn brief(schema: &Value) -> String {
    let types = types(schema).filter(|types| !types.is_empty());
    types.map_or_else(|| "something else".to_owned(), |types| types.into_iter().collect::<Vec<_>>().join(" or "))
}
