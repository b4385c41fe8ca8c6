//! A definition as it is shown.

use fettle_store::definition::DefinitionVersion;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A registered version.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionView {
    /// Its id.
    id: String,
    /// Its type.
    operation_type: String,
    /// Its version.
    version: String,
    /// One sentence.
    summary: String,
    /// `draft`, `published`, `deprecated` or `retired`.
    status: String,
    /// The signed documents.
    sources: SourcesView,
    /// Its steps.
    steps: Vec<DefinedStepView>,
    /// RFC 3339.
    created_at: String,
    /// `kind:id` of who registered it.
    created_by: String,
    /// The whole document; only where one version is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<Value>,
}

/// Where the signed documents are.
#[derive(Serialize, ToSchema)]
struct SourcesView {
    /// The operation definition.
    definition: String,
    /// The step catalog.
    catalog: String,
    /// The policy bundle.
    policy: String,
}

/// A step of the graph.
#[derive(Serialize, ToSchema)]
struct DefinedStepView {
    /// Its name.
    id: String,
    /// Its kind.
    uses: String,
    /// Steps before it.
    needs: Vec<String>,
    /// What implements it.
    component: Option<String>,
}

impl DefinitionView {
    /// A version in a list.
    pub(super) fn brief(version: &DefinitionVersion) -> Self {
        let needs = fettle_model::check::needs(&version.definition);
        let steps = version.definition.steps.iter().map(|step| DefinedStepView {
            id: step.id.to_string(),
            uses: step.uses.to_string(),
            needs: needs.get(&step.id).into_iter().flatten().map(ToString::to_string).collect(),
            component: version.catalog.steps.get(&step.uses).map(ToString::to_string),
        });
        Self {
            id: version.id.to_string(),
            operation_type: version.definition.operation_type.to_string(),
            version: version.definition.version.to_string(),
            summary: version.definition.summary.clone(),
            status: version.status.name().to_owned(),
            sources: SourcesView {
                definition: version.sources.definition.to_string(),
                catalog: version.sources.catalog.to_string(),
                policy: version.sources.policy.to_string(),
            },
            steps: steps.collect(),
            created_at: version.created_at.to_string(),
            created_by: version.created_by.clone(),
            definition: None,
        }
    }

    /// One version.
    pub(super) fn whole(version: &DefinitionVersion) -> Self {
        Self { definition: serde_json::to_value(&version.definition).ok(), ..Self::brief(version) }
    }
}
