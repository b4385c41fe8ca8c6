//! What whoever uses a version is told that should no longer be used.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use fettle_model::name::{OperationType, Version};
use fettle_store::{
    StoreError,
    definition::{DefinitionStatus, DefinitionVersion},
    id::DefinitionVersionId,
};
use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::State;

/// RFC 9745.
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// RFC 8594.
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// Something that whoever asked should know, although it is done.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Warning {
    /// Stable and dotted: `definition.deprecated`.
    code: &'static str,
    /// What it is, and what to do.
    message: String,
}

/// A version that was deprecated or retired.
#[derive(Clone, Debug)]
pub(crate) struct Deprecation {
    name: String,
    status: DefinitionStatus,
    /// When it was, as far as the audit trail reaches back.
    since: Option<Timestamp>,
    /// The version to use instead, if there is a newer one.
    successor: Option<String>,
}

/// When versions were deprecated or retired; that never changes.
#[derive(Default)]
pub(crate) struct Moves(Mutex<HashMap<(DefinitionVersionId, &'static str), Option<Timestamp>>>);

impl Moves {
    async fn at(
        &self,
        state: &State,
        id: DefinitionVersionId,
        status: DefinitionStatus,
    ) -> Result<Option<Timestamp>, StoreError> {
        let action = if status == DefinitionStatus::Retired { "definition.retire" } else { "definition.deprecate" };
        let key = (id, action);
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(*known);
        }
        let at = state.store.definition_moved(id, action).await?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, at);
        Ok(at)
    }
}

impl Deprecation {
    /// Of a version, if it is one that should no longer be used.
    pub(crate) async fn of(state: &State, version: &DefinitionVersion) -> Result<Option<Self>, StoreError> {
        if !matches!(version.status, DefinitionStatus::Deprecated | DefinitionStatus::Retired) {
            return Ok(None);
        }
        let definition = &version.definition;
        Ok(Some(Self {
            name: format!("{}@{}", definition.operation_type, definition.version),
            status: version.status,
            since: state.moves.at(state, version.id, version.status).await?,
            successor: successor(state, version).await?,
        }))
    }

    /// Of the version of this name.
    pub(crate) async fn named(
        state: &State,
        operation_type: &OperationType,
        version: &Version,
    ) -> Result<Option<Self>, StoreError> {
        match state.definitions.get(state, operation_type, version).await? {
            Some(found) => Self::of(state, &found).await,
            None => Ok(None),
        }
    }

    /// What the answer says of it.
    pub(crate) fn warning(&self) -> Warning {
        let instead = match &self.successor {
            Some(name) => format!("move on to {name}"),
            None => "ask who publishes it what to move on to".to_owned(),
        };
        let message = format!("{} is {} and will go; {instead}", self.name, self.status.name());
        Warning { code: "definition.deprecated", message }
    }

    /// What the headers of the answer say of it.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put = |name: HeaderName, text: Option<String>| {
            headers.extend(text.and_then(|text| HeaderValue::from_str(&text).ok()).map(|value| (name, value)));
        };
        match self.status {
            DefinitionStatus::Retired => {
                put(SUNSET, self.since.and_then(|at| DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok()));
            }
            _ => put(DEPRECATION, self.since.map(|at| format!("@{}", at.as_second()))),
        }
        let link = |name: &String| format!("</api/v1/admin/operation-definitions/{name}>; rel=\"successor-version\"");
        put(header::LINK, self.successor.as_ref().map(link));
        headers
    }
}

/// The newest published version of the same type, if it is newer.
async fn successor(state: &State, version: &DefinitionVersion) -> Result<Option<String>, StoreError> {
    let own = &version.definition;
    let number = |version: &Version| version.as_str().trim_start_matches('v').parse::<u64>().unwrap_or(0);
    let versions = state.store.definitions().await?;
    let newer = versions.iter().filter(|other| {
        other.status == DefinitionStatus::Published
            && other.definition.operation_type == own.operation_type
            && number(&other.definition.version) > number(&own.version)
    });
    let newest = newer.max_by_key(|other| number(&other.definition.version));
    Ok(newest.map(|newest| format!("{}@{}", newest.definition.operation_type, newest.definition.version)))
}
