//! `fettle definition check`

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::Args;
use fettle_model::{
    catalog::Catalog,
    check,
    definition::Definition,
    descriptor::Descriptor,
    name::StepKind,
    policy::PolicyBundle,
    reference::Reference,
    violation::{Violation, Violations},
};
use fettle_supply::ArtifactKind;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Session;
use crate::{
    error::{CommandError, count},
    supply::{TemporarySupplier, TrustArguments, read_document},
};

/// Checks a definition against a catalog: the graph, every reference between steps, every output
/// against the input it goes to, every grant against what the component asks for.
///
/// The steps' descriptors are fetched by digest and must be signed by somebody whom the trust policy
/// names. With a policy bundle, its command profiles and its ceiling are held against the grants, as
/// the plane does when the definition is registered. All that is wrong is printed at once, each with
/// its JSON pointer.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition check stage.yaml --catalog catalog.yaml
  fettle definition check stage.yaml --catalog catalog.yaml --policy policy.yaml
  fettle definition check stage.yaml --catalog registry.internal:5000/fettle/catalog@sha256:... \\
      --trust trust.yaml --json")]
pub struct Check {
    /// The definition, in YAML or JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The catalog: a file, or a reference by digest.
    #[arg(long, value_name = "FILE|REFERENCE")]
    catalog: String,
    /// The policy bundle it will be registered with: a file, or a reference by digest.
    #[arg(long, value_name = "FILE|REFERENCE")]
    policy: Option<String>,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Check {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let definition: Definition = read_document(&self.file, "operation definition")?;
        self.check(session, &definition).await?;
        let (kind, version) = (&definition.operation_type, &definition.version);
        let steps = definition.steps.len();
        let answer = json!({ "file": self.file, "operation_type": kind, "version": version, "steps": steps });
        session.show(&answer, |_| {
            format!("{}: {kind}@{version} is sound: {}\n", self.file.display(), count(steps, "step"))
        })
    }
}

impl Check {
    async fn check(&self, session: &Session, definition: &Definition) -> Result<(), CommandError> {
        let supplier = self.trust.supplier(session)?;
        let catalog: Catalog = read("catalog", &self.catalog, ArtifactKind::Catalog, &supplier).await?;
        let descriptors = descriptors(definition, &catalog, &supplier).await?;
        let policy: Option<PolicyBundle> = match &self.policy {
            Some(source) => Some(self.bundle(source, &supplier).await?),
            None => None,
        };
        let found = all_that_is_wrong(definition, &catalog, &descriptors, policy.as_ref());
        let subject = self.file.display().to_string();
        Violations::check(found).map_err(|violations| CommandError::Broken { subject, violations })
    }

    /// The policy bundle, sound in itself.
    async fn bundle(&self, source: &str, supplier: &TemporarySupplier) -> Result<PolicyBundle, CommandError> {
        let bundle: PolicyBundle = read("policy bundle", source, ArtifactKind::PolicyBundle, supplier).await?;
        let broken = |violations| CommandError::Broken { subject: source.to_owned(), violations };
        bundle.check().map_err(broken)?;
        Ok(bundle)
    }
}

/// All that is wrong with a definition, the steps that a catalog names, and what a policy bundle allows.
fn all_that_is_wrong(
    definition: &Definition,
    catalog: &Catalog,
    descriptors: &BTreeMap<StepKind, Descriptor>,
    policy: Option<&PolicyBundle>,
) -> Vec<Violation> {
    let Err(Violations(mut found)) = check::check_with(definition, descriptors, policy) else { return Vec::new() };
    // Only the steps that are used were fetched; the catalog has more.
    let known = catalog.steps.keys().map(StepKind::as_str).collect::<Vec<_>>().join(", ");
    for (index, step) in definition.steps.iter().enumerate().filter(|(_, step)| !catalog.steps.contains_key(&step.uses))
    {
        for violation in found.iter_mut().filter(|violation| violation.pointer == format!("/steps/{index}/uses")) {
            violation.message = format!("`{}` is not in the catalog; it has {known}", step.uses);
        }
    }
    found
}

/// Checks what can be checked without a catalog: the graph and the references between steps.
pub(super) fn alone(file: &Path, definition: &Definition) -> Result<(), CommandError> {
    let Err(Violations(mut found)) = check::check(definition, &BTreeMap::new()) else { return Ok(()) };
    found.retain(|violation| !violation.pointer.ends_with("/uses"));
    let subject = file.display().to_string();
    Violations::check(found).map_err(|violations| CommandError::Broken { subject, violations })
}

/// Reads a document from a file, or fetches and verifies it. `what` is for messages.
async fn read<T: DeserializeOwned>(
    what: &'static str,
    source: &str,
    kind: ArtifactKind,
    supplier: &TemporarySupplier,
) -> Result<T, CommandError> {
    let path = Path::new(source);
    if path.exists() {
        return read_document(path, what);
    }
    let reference: Reference = source.parse().map_err(|error| CommandError::Missing {
        problem: format!("the {what} `{source}` is no file, and {error}"),
        fix: format!("name a file, or a reference by digest that publishing the {what} printed"),
    })?;
    supplier.document(kind, &reference).await
}

/// The descriptors of the steps that the definition uses. A kind that the catalog lacks is left to the
/// check, which says so with its place.
async fn descriptors(
    definition: &Definition,
    catalog: &Catalog,
    supplier: &TemporarySupplier,
) -> Result<BTreeMap<StepKind, Descriptor>, CommandError> {
    let used: BTreeSet<&StepKind> = definition.steps.iter().map(|step| &step.uses).collect();
    let mut found = BTreeMap::new();
    for kind in used {
        let Some(reference) = catalog.steps.get(kind) else { continue };
        let artifact = supplier.artifact(ArtifactKind::Step, reference).await?;
        let wrong = |message: String| CommandError::Broken {
            subject: format!("the catalog's entry for `{kind}`"),
            violations: Violations(vec![Violation::new(format!("/steps/{kind}"), message)]),
        };
        let descriptor = artifact
            .descriptor
            .ok_or_else(|| wrong(format!("{reference} has no descriptor; publish it with `fettle step publish`")))?;
        let descriptor: Descriptor = serde_json::from_value(descriptor)
            .map_err(|error| wrong(format!("the descriptor of {reference} is malformed: {error}")))?;
        if descriptor.kind != *kind {
            return Err(wrong(format!("{reference} says that it is `{}`; correct the catalog", descriptor.kind)));
        }
        found.insert(kind.clone(), descriptor);
    }
    Ok(found)
}
