//! `fettle step inspect`

use std::{fmt::Write as _, path::Path};

use clap::Args;
use fettle_model::{descriptor::Effect, reference::Reference, schema};
use fettle_supply::ArtifactKind;
use serde_json::{Value, json};

use super::{
    Session,
    look::{self, Look},
};
use crate::{author::attested, command::verdict, error::CommandError, output, supply::TrustArguments};

/// Shows what a step is: kind, effect, schemas, the capabilities it asks for and why, what it really
/// imports, size and digest.
///
/// A file is taken as it is. A reference is fetched and must be signed by somebody whom the trust
/// policy names: nothing unsigned is ever compiled. What is attached to it is listed, and whether it is
/// believed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step inspect target/wasm32-wasip2/step/my_step.wasm
  fettle step inspect registry.internal:5000/steps/my.step@sha256:... --trust trust.yaml --json")]
pub struct Inspect {
    /// A file, or a reference by digest.
    #[arg(value_name = "FILE|REFERENCE")]
    step: String,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Inspect {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let path = Path::new(&self.step);
        let (seen, reference, signer, attested) = match self.step.parse::<Reference>() {
            Ok(reference) if !path.exists() => {
                let supplier = self.trust.supplier(session)?;
                let artifact = supplier.artifact(ArtifactKind::Step, &reference).await?;
                let signers = verdict::signers(&artifact);
                let seen = look::look(path, artifact.content).await?;
                let attested = supplier.attested(&reference, seen.digest).await?;
                (seen, Some(reference), Some(signers), attested)
            }
            Ok(_) | Err(_) => (look::look(path, look::read(path).await?).await?, None, None, Vec::new()),
        };
        let mut answer = json!({
            "digest": seen.digest, "size": seen.size, "descriptor": seen.descriptor, "imports": seen.imports,
            "reference": reference, "signed_by": signer, "attestations": attested,
        });
        if let (None, Some(fields)) = (&reference, answer.as_object_mut()) {
            fields.retain(|name, _| !["reference", "signed_by", "attestations"].contains(&name.as_str()));
        }
        session.show(&answer, |_| {
            let attested = reference.as_ref().map(|_| format!("\nattestations\n{}", attested::text(&attested)));
            text(&seen, signer.as_deref()) + &attested.unwrap_or_default()
        })
    }
}

fn text(seen: &Look, signer: Option<&str>) -> String {
    let descriptor = &seen.descriptor;
    let effect = match descriptor.effect {
        Effect::Observe => "observe: reads only",
        Effect::Converge => "converge: safe to repeat",
        Effect::Consume => "consume: may not be repeated",
    };
    let yes = |is: bool| if is { "yes" } else { "no" };
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<11} {value}");
    };
    line("kind", descriptor.kind.as_str());
    line("summary", &descriptor.summary);
    line("effect", effect);
    line("probes", yes(descriptor.probes));
    line("undoes", yes(descriptor.undoes));
    line("size", &output::bytes(seen.size));
    line("digest", &seen.digest.to_string());
    if let Some(signer) = signer {
        line("signed by", signer);
    }
    text.push_str("\nasks for\n");
    if descriptor.requests.is_empty() {
        text.push_str("  nothing\n");
    }
    for (capability, why) in &descriptor.requests {
        let unused = if seen.imports.capabilities.contains(capability) { "" } else { " (does not import it)" };
        let _ = writeln!(text, "  {:<9} {why}{unused}", capability.name());
    }
    text.push_str("\nimports\n");
    for capability in &seen.imports.capabilities {
        let unasked = if descriptor.requests.contains_key(capability) { "" } else { "   NOT ASKED FOR" };
        let _ = writeln!(text, "  {}{unasked}", capability.interface());
    }
    if seen.imports.report {
        text.push_str("  fettle:report/report   every step may\n");
    }
    for name in &seen.imports.unknown {
        let _ = writeln!(text, "  {name}   NO GRANT CAN GIVE THIS");
    }
    if !seen.imports.inert.is_empty() {
        let _ =
            writeln!(text, "  {} of WASI, from the toolchain; inert, they reach nothing:", seen.imports.inert.len());
        text.push_str(&wrapped(seen.imports.inert.iter().map(String::as_str)));
    }
    let _ = write!(text, "\ninput\n{}", fields(&descriptor.input_schema));
    let _ = write!(text, "\noutput\n{}", fields(&descriptor.output_schema));
    text
}

/// Columns of a line; what is longer is in `--json`.
const WIDTH: usize = 80;

/// Names in lines.
fn wrapped<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut line = String::new();
    for name in names {
        if !line.is_empty() && line.len() + name.len() + 6 > WIDTH {
            let _ = writeln!(text, "    {}", line.trim_end());
            line.clear();
        }
        line.push_str(name);
        line.push_str("  ");
    }
    let _ = writeln!(text, "    {}", line.trim_end());
    text
}

/// The fields of an object's schema, one per line; the whole schema is in `--json`.
fn fields(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty()) else {
        return "  any object, or none: see --json\n".to_owned();
    };
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name))
    };
    let mut text = String::new();
    for name in properties.keys() {
        let field = schema::field(schema, std::slice::from_ref(name)).ok().flatten().unwrap_or_default();
        let kind = match field.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
            _ => "any".to_owned(),
        };
        let description = properties[name].get("description").or(field.get("description"));
        let description = description.and_then(Value::as_str).unwrap_or_default().lines().next().unwrap_or_default();
        let required = if required(name) { "required" } else { "" };
        let line = format!("  {name:<16} {kind:<16} {required:<8}  {description}");
        let _ = writeln!(text, "{}", console::truncate_str(line.trim_end(), WIDTH, "…"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_listed_with_type_and_need() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string", "description": "Where.\nMore."}, "mode": {"$ref": "#/$defs/Mode"}},
            "$defs": {"Mode": {"type": ["integer", "null"]}}});
        assert_eq!(
            fields(&schema),
            "  mode             integer or null\n  path             string           required  Where.\n"
        );
        assert_eq!(fields(&json!({"type": "object"})), "  any object, or none: see --json\n");
    }
}
