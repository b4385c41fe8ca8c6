//! GET /api/v1/admin/operation-definitions

use axum::{Json, extract::State as Extracted};
use fettle_model::name::OperationType;
use fettle_store::definition::{DefinitionStatus, DefinitionVersion};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{find::sees, view::DefinitionView};
use crate::{
    api::{Problem, extract::Query, v1::page},
    identity::Caller,
    state::State,
};

/// Which versions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Of one operation type only.
    #[param(value_type = Option<String>)]
    operation_type: Option<OperationType>,
    /// `draft`, `published`, `deprecated` or `retired`.
    #[param(value_type = Option<String>)]
    status: Option<Status>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Draft,
    Published,
    Deprecated,
    Retired,
}

/// A page of versions.
#[derive(Serialize, ToSchema)]
pub(crate) struct Definitions {
    /// By type, then by version.
    items: Vec<DefinitionView>,
    /// Pass it as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl From<Status> for DefinitionStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Draft => Self::Draft,
            Status::Published => Self::Published,
            Status::Deprecated => Self::Deprecated,
            Status::Retired => Self::Retired,
        }
    }
}

/// A version as a cursor, which orders by type, then by the number of the version.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place(String, u64);

impl Place {
    fn of(version: &DefinitionVersion) -> Self {
        let number = version.definition.version.as_str().trim_start_matches('v').parse();
        Self(version.definition.operation_type.to_string(), number.unwrap_or(0))
    }
}

impl std::str::FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (operation_type, number) = text.split_once("@v").ok_or(())?;
        Ok(Self(operation_type.to_owned(), number.parse().map_err(|_| ())?))
    }
}

/// Lists what is registered. Every token may look: it says which operations there are to submit. Drafts are shown to
/// platform administrators only.
#[utoipa::path(get, path = "/api/v1/admin/operation-definitions", tag = "operation definitions",
    params(Filter),
    responses((status = 200, description = "a page", body = Definitions)))]
pub(crate) async fn list(
    Extracted(state): Extracted<State>,
    caller: Caller,
    Query(filter): Query<Filter>,
) -> Result<Json<Definitions>, Problem> {
    let size = page::size(filter.page_size)?;
    let after: Option<Place> = page::cursor(filter.cursor.as_deref())?;
    let status = filter.status.map(DefinitionStatus::from);
    let mut versions = state.store.definitions().await?;
    versions.retain(|version| {
        sees(&caller, version)
            && status.is_none_or(|status| version.status == status)
            && filter.operation_type.as_ref().is_none_or(|wanted| version.definition.operation_type == *wanted)
    });
    let (versions, next) = page::of(&versions, after.as_ref(), size, |version| Place::of(version));
    let next_cursor = next.map(|Place(operation_type, number)| format!("{operation_type}@v{number}"));
    Ok(Json(Definitions { items: versions.into_iter().map(DefinitionView::brief).collect(), next_cursor }))
}
