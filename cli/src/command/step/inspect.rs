//! `fettle step inspect`

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use clap::Args;
use fettle_model::{
    access::{Question, StepAccess, of_step},
    descriptor::Effect,
    grant::Grants,
    policy::PolicyBundle,
    reference::Reference,
    schema,
};
use fettle_supply::ArtifactKind;
use serde_json::{Value, json};

use super::{
    Session,
    look::{self, Look},
};
use crate::{
    author::attested,
    command::{access, verdict},
    error::CommandError,
    output,
    supply::{TrustArguments, read_document},
    watch::clean,
};

/// Shows what a step is: kind, effect, schemas, the capabilities it asks for and why, what it really
/// imports, size and digest.
///
/// With the grants of a definition's step and a policy bundle it also says what the step would be given
/// there, and for what is denied the line that would allow it.
///
/// A file is taken as it is. A reference is fetched and must be signed by somebody whom the trust
/// policy names: nothing unsigned is ever compiled. What is attached to it is listed, and whether it is
/// believed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step inspect target/wasm32-wasip2/step/my_step.wasm
  fettle step inspect my_step.wasm --grants grants.yaml --policy policy.yaml
  fettle step inspect registry.internal:5000/steps/my.step@sha256:... --trust trust.yaml --json")]
pub struct Inspect {
    /// A file, or a reference by digest.
    #[arg(value_name = "FILE|REFERENCE")]
    step: String,
    /// What a definition would grant it: the content of a step's `grants`, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    grants: Option<PathBuf>,
    /// What a node allows: a policy bundle, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
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
        let grants: Option<Grants> =
            self.grants.as_deref().map(|path| read_document(path, "grant of capabilities")).transpose()?;
        let policy: Option<PolicyBundle> =
            self.policy.as_deref().map(|path| read_document(path, "policy bundle")).transpose()?;
        let reach = of_step(&Question {
            step: None,
            descriptor: &seen.descriptor,
            imports: Some(&seen.imports.capabilities),
            grants: grants.as_ref(),
            policy: policy.as_ref(),
        });
        let mut answer = json!({
            "digest": seen.digest, "size": seen.size, "descriptor": seen.descriptor, "imports": seen.imports,
            "reference": reference, "signed_by": signer, "access": reach, "attestations": attested,
        });
        if let (None, Some(fields)) = (&reference, answer.as_object_mut()) {
            fields.retain(|name, _| !["reference", "signed_by", "attestations"].contains(&name.as_str()));
        }
        session.show(&answer, |_| {
            let attested = reference.as_ref().map(|_| format!("\nattestations\n{}", attested::text(&attested)));
            text(&seen, &reach, signer.as_deref()) + &attested.unwrap_or_default()
        })
    }
}

fn text(seen: &Look, reach: &StepAccess, signer: Option<&str>) -> String {
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
    line("summary", &clean(&descriptor.summary));
    line("effect", effect);
    line("probes", yes(descriptor.probes));
    line("undoes", yes(descriptor.undoes));
    line("size", &output::bytes(seen.size));
    line("digest", &seen.digest.to_string());
    if let Some(signer) = signer {
        line("signed by", signer);
    }
    text.push_str("\ncapabilities\n");
    text.push_str(&access::text(reach, 2));
    text.push_str("\nother imports\n");
    if seen.imports.report {
        text.push_str("  fettle:report/report   every step may\n");
    }
    for name in &seen.imports.unknown {
        let _ = writeln!(text, "  {}   NO GRANT CAN GIVE THIS", clean(name));
    }
    if !seen.imports.inert.is_empty() {
        let _ =
            writeln!(text, "  {} of WASI, from the toolchain; inert, they reach nothing:", seen.imports.inert.len());
        text.push_str(&access::imports(seen.imports.inert.iter().map(String::as_str), 4));
    }
    let _ = write!(text, "\ninput\n{}", fields(&descriptor.input_schema));
    let _ = write!(text, "\noutput\n{}", fields(&descriptor.output_schema));
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
        let _ = writeln!(text, "{}", console::truncate_str(line.trim_end(), output::WIDTH, "…"));
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
