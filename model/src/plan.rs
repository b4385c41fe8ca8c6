//! What an operation resolves to: an immutable component graph with every digest pinned.
//!
//! [`plan`] is one pure function. The plane computes it to know what it asks for, the host computes it
//! again from signed bytes and refuses when the digests differ.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    canonical::{self, NotCanonical},
    catalog::Catalog,
    check,
    definition::{ArtifactConstraints, Definition, OnFailure, Retry},
    digest::Digest,
    grant::Grants,
    graph,
    limits::AttemptLimits,
    name::{OperationType, StepId, StepKind, Version},
    reference::Reference,
    schema::Schema,
    time,
    violation::{Violation, Violations},
};

/// The signed artifacts that an operation is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// The operation definition.
    pub definition: Reference,
    /// The step catalog.
    pub catalog: Reference,
    /// The policy bundle.
    pub policy: Reference,
}

/// An operation with everything decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What follows from the signed artifacts alone.
    #[serde(flatten)]
    pub graph: Arc<Graph>,
    /// The validated inputs.
    pub inputs: Value,
}

/// What an operation does, whatever its inputs are: the same for every operation of the same artifacts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// What it was made from.
    pub sources: Sources,
    /// The operation's type.
    pub operation_type: OperationType,
    /// The version of the type.
    pub version: Version,
    /// The graph, each step after all that it needs.
    pub steps: Vec<PlannedStep>,
    /// What to do when a step has failed for good.
    pub on_failure: OnFailure,
    /// What the artifacts that steps fetch must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_constraints: Option<ArtifactConstraints>,
}

/// One step with its component pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedStep {
    /// Its name.
    pub id: StepId,
    /// The kind it implements.
    pub kind: StepKind,
    /// The component.
    pub component: Reference,
    /// Steps that must have succeeded before.
    pub needs: BTreeSet<StepId>,
    /// Its input, expressions unresolved.
    pub with: Value,
    /// What it may reach.
    pub grants: Grants,
    /// How transient failures are tried again.
    pub retry: Retry,
    /// The longest that one attempt may take.
    #[serde(with = "time")]
    pub timeout: Duration,
    /// What one attempt may use, where that is less than the node allows.
    #[serde(default, skip_serializing_if = "AttemptLimits::is_empty")]
    pub limits: AttemptLimits,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The inputs do not fit the definition's schema.
    #[error("the inputs of {operation} break its schema:\n{violations}")]
    Inputs {
        /// `type@version`
        operation: String,
        /// All of them.
        violations: Violations,
    },
    /// A step kind is not in the catalog.
    #[error("step `{step}` uses `{kind}`, and catalog {catalog} does not have it; publish a catalog that does")]
    UnknownKind {
        /// The step.
        step: StepId,
        /// The kind.
        kind: StepKind,
        /// Where it was looked for.
        catalog: Box<Reference>,
    },
    /// The steps need each other in a cycle, or one that is not there.
    #[error("the steps of {0} do not form a graph; check the definition with `fettle definition check`")]
    Graph(String),
    /// The definition demands something that this version cannot do.
    #[error("{operation} demands `{what}`, which this version cannot do; leave it out of the definition")]
    Unsupported {
        /// `type@version`
        operation: String,
        /// The field.
        what: String,
    },
    /// An artifact named by the inputs is outside the definition's constraints.
    #[error("inputs{pointer} names `{reference}`, and {operation} allows only {allowed}")]
    Artifact {
        /// JSON pointer to the input.
        pointer: String,
        /// What it names.
        reference: String,
        /// `type@version`
        operation: String,
        /// The allowed repositories.
        allowed: String,
    },
    /// What it resolves to has no digest.
    #[error("the plan cannot be hashed")]
    NotCanonical(#[source] NotCanonical),
}

/// Computes the plan. Pure and deterministic: the same arguments give the same plan, everywhere.
///
/// # Errors
/// When the inputs do not fit, a kind is unknown, or the steps form no graph.
pub fn plan(sources: Sources, definition: &Definition, catalog: &Catalog, inputs: Value) -> Result<Plan, PlanError> {
    Resolved::new(sources, definition, catalog)?.plan(inputs)
}

/// What signed artifacts resolve to, ready for the inputs of many operations.
#[derive(Debug)]
pub struct Resolved {
    /// What an operation does.
    pub graph: Arc<Graph>,
    /// Digest of that.
    pub digest: Digest,
    inputs: Schema,
}

impl Resolved {
    /// Resolves a definition.
    ///
    /// # Errors
    /// When a kind is unknown, the steps form no graph, or the schema of the inputs is none.
    pub fn new(sources: Sources, definition: &Definition, catalog: &Catalog) -> Result<Self, PlanError> {
        let inputs = Schema::compile(&definition.input_schema).map_err(|message| {
            let violations = Violations(vec![Violation::new("", format!("the schema {message}"))]);
            PlanError::Inputs { operation: name(definition), violations }
        })?;
        let graph = resolve(sources, definition, catalog)?;
        let digest = graph.digest().map_err(PlanError::NotCanonical)?;
        Ok(Self { graph: Arc::new(graph), digest, inputs })
    }

    /// Whether an operation may have these inputs.
    ///
    /// # Errors
    /// When they break the definition's schema, or name an artifact that it does not allow.
    pub fn check(&self, inputs: &Value) -> Result<(), PlanError> {
        self.inputs
            .check(inputs)
            .and_then(|()| Violations::check(canonical::unsafe_integers(inputs)))
            .map_err(|violations| PlanError::Inputs { operation: self.graph.name(), violations })?;
        self.graph.check_artifacts(inputs)
    }

    /// The plan of an operation with these inputs.
    ///
    /// # Errors
    /// When it may not have them.
    pub fn plan(&self, inputs: Value) -> Result<Plan, PlanError> {
        self.check(&inputs)?;
        Ok(Plan { graph: Arc::clone(&self.graph), inputs })
    }
}

/// Computes what follows from signed artifacts alone.
///
/// # Errors
/// When a kind is unknown, or the steps form no graph.
pub fn resolve(sources: Sources, definition: &Definition, catalog: &Catalog) -> Result<Graph, PlanError> {
    check_supported(definition)?;
    let needs = check::needs(definition);
    let order = graph::topological_order(&needs).map_err(|_| PlanError::Graph(name(definition)))?;
    let mut steps = Vec::with_capacity(order.len());
    for id in order {
        let step =
            definition.steps.iter().find(|step| step.id == id).ok_or_else(|| PlanError::Graph(name(definition)))?;
        let needs = needs.get(&id).cloned().unwrap_or_default();
        if needs.iter().any(|needed| !definition.steps.iter().any(|step| &step.id == needed)) {
            return Err(PlanError::Graph(name(definition)));
        }
        let component = catalog.steps.get(&step.uses).cloned().ok_or_else(|| PlanError::UnknownKind {
            step: id.clone(),
            kind: step.uses.clone(),
            catalog: Box::new(sources.catalog.clone()),
        })?;
        steps.push(PlannedStep {
            id,
            kind: step.uses.clone(),
            component,
            needs,
            with: step.with.clone(),
            grants: step.grants.clone(),
            retry: step.retry.clone(),
            timeout: step.timeout,
            limits: step.limits,
        });
    }
    Ok(Graph {
        sources,
        operation_type: definition.operation_type.clone(),
        version: definition.version.clone(),
        steps,
        on_failure: definition.on_failure,
        artifact_constraints: definition.artifact_constraints.clone(),
    })
}

/// `type@version`
fn name(definition: &Definition) -> String {
    format!("{}@{}", definition.operation_type, definition.version)
}

/// What a definition demands and this version cannot do is refused by plane and host alike.
fn check_supported(definition: &Definition) -> Result<(), PlanError> {
    match &definition.artifact_constraints {
        Some(constraints) if constraints.require_signature => Err(PlanError::Unsupported {
            operation: name(definition),
            what: "artifact_constraints.require_signature".to_owned(),
        }),
        _ => Ok(()),
    }
}

impl Graph {
    /// `type@version`
    fn name(&self) -> String {
        format!("{}@{}", self.operation_type, self.version)
    }

    /// Every input that is an artifact reference names an allowed repository.
    fn check_artifacts(&self, inputs: &Value) -> Result<(), PlanError> {
        let Some(constraints) = &self.artifact_constraints else { return Ok(()) };
        let mut refused = None;
        crate::expression::visit(inputs, "", &mut |pointer, text| {
            if let Ok(reference) = text.parse::<Reference>()
                && !constraints.allows(reference.repository.path())
                && refused.is_none()
            {
                refused = Some((pointer.to_owned(), text.to_owned()));
            }
        });
        match refused {
            None => Ok(()),
            Some((pointer, reference)) => Err(PlanError::Artifact {
                pointer,
                reference,
                operation: self.name(),
                allowed: constraints.allowed_repositories.join(", "),
            }),
        }
    }

    /// Names all that was decided by signed artifacts.
    ///
    /// # Errors
    /// When a value has no canonical form; a graph made by [`resolve`] from documents always has one.
    pub fn digest(&self) -> Result<Digest, NotCanonical> {
        canonical::digest(self)
    }
}

impl Plan {
    /// The digest that plane and host must agree on.
    ///
    /// # Errors
    /// When a value has no canonical form; a plan made by [`plan`] always has one.
    pub fn digest(&self) -> Result<Digest, NotCanonical> {
        self.digest_with(self.graph.digest()?)
    }

    /// The same for whoever knows the digest of the graph already: it is the one of many operations.
    ///
    /// # Errors
    /// When a value has no canonical form; a plan made by [`plan`] always has one.
    pub fn digest_with(&self, graph: Digest) -> Result<Digest, NotCanonical> {
        #[derive(Serialize)]
        struct Named<'a> {
            graph: Digest,
            inputs: &'a Value,
        }
        canonical::digest(&Named { graph, inputs: &self.inputs })
    }
}
