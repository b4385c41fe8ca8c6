//! Registering an operation definition: fetch, verify, check, store.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use fettle_model::{
    catalog::Catalog,
    check,
    definition::Definition,
    descriptor::Descriptor,
    digest::Digest,
    document,
    name::{OperationType, StepKind, Version},
    plan::{Plan, PlanError, Resolved, Sources},
    policy::PolicyBundle,
    reference::Reference,
    violation::{Violation, Violations},
};
use fettle_store::{
    StoreError,
    definition::{DefinitionChange, DefinitionStatus, DefinitionVersion, NewDefinitionVersion, Registered},
    id::DefinitionVersionId,
};
use fettle_supply::ArtifactKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    artifact::{ArtifactError, ArtifactSource, Fetched},
    clock::NoRandomness,
    state::State,
};

/// Why a definition is not registered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    /// Something is wrong with the documents; all of it.
    #[error("the definition cannot be registered:\n{0}")]
    Invalid(Violations),
    /// A document cannot be had now.
    #[error("{0}")]
    Unavailable(ArtifactError),
    /// The store refused.
    #[error("the store refused the definition")]
    Store(#[source] StoreError),
    /// No random bytes for an id.
    #[error("no id can be made")]
    Random(#[source] NoRandomness),
}

/// The three documents, fetched and verified.
struct Documents {
    definition: Definition,
    catalog: Catalog,
    policy: PolicyBundle,
}

/// Fetches everything and checks everything.
pub(crate) async fn prepare(
    state: &State,
    sources: Sources,
    status: DefinitionStatus,
) -> Result<NewDefinitionVersion, RegistrationError> {
    let documents = fetch(&*state.artifacts, &sources).await?;
    let descriptors = fetch_descriptors(&*state.artifacts, &documents).await?;
    check_all(&documents, &descriptors).map_err(RegistrationError::Invalid)?;
    Ok(NewDefinitionVersion {
        id: DefinitionVersionId::new(state.ulid().map_err(RegistrationError::Random)?),
        sources,
        definition: documents.definition,
        catalog: documents.catalog,
        status,
    })
}

/// Stores a version and forgets what was remembered of it.
pub(crate) async fn register(
    state: &State,
    version: NewDefinitionVersion,
    context: fettle_store::context::Context,
) -> Result<Registered, RegistrationError> {
    let key = (version.definition.operation_type.clone(), version.definition.version.clone());
    let registered = state.store.register_definition(version, context).await.map_err(RegistrationError::Store)?;
    state.definitions.forget(&key);
    Ok(registered)
}

/// Moves a version on in its life, and forgets what was remembered of it.
pub(crate) async fn change(
    state: &State,
    version: &DefinitionVersion,
    change: DefinitionChange,
    context: fettle_store::context::Context,
) -> Result<DefinitionVersion, RegistrationError> {
    let changed = state.store.change_definition(version.id, change, context).await;
    state.definitions.forget(&(version.definition.operation_type.clone(), version.definition.version.clone()));
    changed.map_err(RegistrationError::Store)
}

async fn fetch(artifacts: &dyn ArtifactSource, sources: &Sources) -> Result<Documents, RegistrationError> {
    let (definition, catalog, policy) = futures::join!(
        artifacts.fetch(ArtifactKind::Definition, &sources.definition),
        artifacts.fetch(ArtifactKind::Catalog, &sources.catalog),
        artifacts.fetch(ArtifactKind::PolicyBundle, &sources.policy),
    );
    let mut found = Vec::new();
    let definition = read("/definition", definition, &mut found)?;
    let catalog = read("/catalog", catalog, &mut found)?;
    let policy = read("/policy", policy, &mut found)?;
    match (definition, catalog, policy) {
        (Some(definition), Some(catalog), Some(policy)) => Ok(Documents { definition, catalog, policy }),
        _ => Err(RegistrationError::Invalid(Violations(found))),
    }
}

/// Reads one document; what is wrong with it goes to `found`.
fn read<T: DeserializeOwned>(
    pointer: &str,
    fetched: Result<Fetched, ArtifactError>,
    found: &mut Vec<Violation>,
) -> Result<Option<T>, RegistrationError> {
    let fetched = match fetched {
        Ok(fetched) => fetched,
        Err(error) if error.transient => return Err(RegistrationError::Unavailable(error)),
        Err(error) => {
            found.push(Violation::new(pointer, error.message));
            return Ok(None);
        }
    };
    let text = std::str::from_utf8(&fetched.content).map_err(|error| error.to_string());
    match text.and_then(|text| document::read(text).map_err(|error| error.to_string())) {
        Ok(document) => Ok(Some(document)),
        Err(message) => {
            found.push(Violation::new(pointer, message));
            Ok(None)
        }
    }
}

async fn fetch_descriptors(
    artifacts: &dyn ArtifactSource,
    documents: &Documents,
) -> Result<BTreeMap<StepKind, Descriptor>, RegistrationError> {
    let mut descriptors = BTreeMap::new();
    let mut found = Vec::new();
    for (index, step) in documents.definition.steps.iter().enumerate() {
        if descriptors.contains_key(&step.uses) {
            continue;
        }
        let pointer = format!("/definition/steps/{index}/uses");
        let Some(component) = documents.catalog.steps.get(&step.uses) else {
            let message = format!("`{}` is not in the catalog; publish a catalog that has it", step.uses);
            found.push(Violation::new(pointer, message));
            continue;
        };
        match artifacts.fetch(ArtifactKind::Step, component).await {
            Ok(fetched) => match descriptor(&step.uses, component, fetched) {
                Ok(descriptor) => {
                    descriptors.insert(step.uses.clone(), descriptor);
                }
                Err(message) => found.push(Violation::new(pointer, message)),
            },
            Err(error) if error.transient => return Err(RegistrationError::Unavailable(error)),
            Err(error) => found.push(Violation::new(pointer, error.message)),
        }
    }
    Violations::check(found).map_err(RegistrationError::Invalid)?;
    Ok(descriptors)
}

fn descriptor(kind: &StepKind, component: &Reference, fetched: Fetched) -> Result<Descriptor, String> {
    let value = fetched
        .descriptor
        .ok_or_else(|| format!("{component} carries no descriptor; publish the step with `fettle step publish`"))?;
    let descriptor: Descriptor = serde_path_to_error::deserialize(value).map_err(|error| {
        format!("the descriptor of {component} is malformed at {}: {}", error.path(), error.inner())
    })?;
    if descriptor.kind == *kind {
        Ok(descriptor)
    } else {
        Err(format!(
            "the catalog says that {component} is `{kind}`, and it says itself that it is `{}`",
            descriptor.kind
        ))
    }
}

/// Everything that is wrong with a definition, at once.
fn check_all(documents: &Documents, descriptors: &BTreeMap<StepKind, Descriptor>) -> Result<(), Violations> {
    let mut found = Vec::new();
    let mut collect = |prefix: &str, result: Result<(), Violations>| {
        let Err(Violations(violations)) = result else { return };
        found.extend(violations.into_iter().map(|violation| Violation {
            pointer: format!("{prefix}{}", violation.pointer),
            message: violation.message,
        }));
    };
    collect("/definition", check::check_with(&documents.definition, descriptors, Some(&documents.policy)));
    collect("/policy", documents.policy.check());
    Violations::check(found)
}

type Key = (OperationType, Version);

/// A registered version, ready for the inputs of many operations.
pub(crate) struct Usable {
    version: DefinitionVersion,
    resolved: Option<Resolved>,
}

impl Deref for Usable {
    type Target = DefinitionVersion;

    fn deref(&self) -> &DefinitionVersion {
        &self.version
    }
}

impl Usable {
    fn new(version: DefinitionVersion) -> Self {
        let resolved = resolve(&version).ok();
        Self { version, resolved }
    }

    /// The plan of an operation with these inputs, and its digest.
    ///
    /// # Errors
    /// When it may not have them, or the version cannot be planned any more.
    pub(crate) fn plan(&self, inputs: Value) -> Result<(Plan, Digest), PlanError> {
        let again;
        let resolved = match &self.resolved {
            Some(resolved) => resolved,
            // What is wrong with it is said to each who asks.
            None => {
                again = resolve(&self.version)?;
                &again
            }
        };
        let plan = resolved.plan(inputs)?;
        let digest = plan.digest_with(resolved.digest).map_err(PlanError::NotCanonical)?;
        Ok((plan, digest))
    }
}

fn resolve(version: &DefinitionVersion) -> Result<Resolved, PlanError> {
    Resolved::new(version.sources.clone(), &version.definition, &version.catalog)
}

/// Registered versions that were used lately. What of them can change is looked at once more when an
/// operation is created.
#[derive(Default)]
pub(crate) struct Definitions {
    known: Mutex<HashMap<Key, Arc<Usable>>>,
}

/// Versions remembered at most; then all are forgotten.
const REMEMBERED: usize = 256;

impl Definitions {
    /// One version by name.
    pub(crate) async fn get(
        &self,
        state: &State,
        operation_type: &OperationType,
        version: &Version,
    ) -> Result<Option<Arc<Usable>>, StoreError> {
        let key = (operation_type.clone(), version.clone());
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(found) = state.store.definition_version(operation_type, version).await? else { return Ok(None) };
        let found = Arc::new(Usable::new(found));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, Arc::clone(&found));
        Ok(Some(found))
    }

    /// Reads the version again next time.
    fn forget(&self, key: &Key) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
