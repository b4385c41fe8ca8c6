//! What the endpoints of overlays have in common: how one is shown, and of which state a change is one.

use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fettle_model::{
    canonical,
    name::OperationType,
    overlay::{Level, Overlay, chain::Resolved},
    violation::Violation,
};
use fettle_store::{
    page::Page,
    policy::{PolicyDocument, PolicyScope, Precondition},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::page;
use crate::{api::Problem, identity::Caller, state::State};

/// Which overlays.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// 1 to 1000; 50 when absent.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// What one scope says of an operation type. A key that is absent says nothing.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes `Overlay` of the model, which knows no descriptions")]
pub(crate) struct OverlayDocument {
    /// Whether operations of the type are accepted. `false` of the platform is final.
    enabled: Option<bool>,
    /// How many operations of the type run at once; from 1.
    max_concurrency: Option<u32>,
    /// The longest that an operation of the type may take; from 1.
    timeout_seconds: Option<u32>,
    /// Where artifacts may come from that inputs name: `host:port/repository` or a URL; `/*` at the end
    /// stands for all below.
    allowed_artifact_sources: Option<Vec<String>>,
    /// What operations may be for: `node`, `label`, `allocation`, `group`.
    allowed_target_kinds: Option<Vec<String>>,
    /// Whether the definition must demand signed artifacts.
    require_signature_verification: Option<bool>,
    /// The most that the definition may allow as the size of an artifact; from 1.
    max_artifact_size_bytes: Option<u64>,
}

/// An overlay.
#[derive(Serialize, ToSchema)]
pub(crate) struct PolicyView {
    /// The operation type that it is about.
    operation_type: String,
    /// `global`, `tenant` or `project`.
    level: &'static str,
    /// `platform`, the organisation, or `organisation/project`.
    scope: String,
    /// What the scope says; absent when it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OverlayDocument>)]
    policy: Option<Overlay>,
    /// 1 for the first; grows with each change.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// What `If-Match` of a change must say.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    /// `kind:id` of who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_by: Option<String>,
    /// What holds in the project, and why: `effective` with the values, `keys` with the reasons. Only of a
    /// project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    resolved: Option<Resolved>,
}

/// A page of overlays.
#[derive(Serialize, ToSchema)]
pub(crate) struct Policies {
    /// By operation type.
    items: Vec<PolicyView>,
    /// Pass it as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl PolicyView {
    fn of(document: PolicyDocument) -> Self {
        Self {
            level: document.scope.level().name(),
            scope: document.scope.to_string(),
            revision: Some(document.revision),
            etag: Some(etag(&document)),
            updated_at: Some(document.updated_at.to_string()),
            updated_by: Some(document.updated_by),
            operation_type: document.operation_type.to_string(),
            policy: Some(document.overlay),
            resolved: None,
        }
    }

    /// A scope that says nothing.
    fn nothing(scope: &PolicyScope, operation_type: &OperationType) -> Self {
        Self {
            level: scope.level().name(),
            scope: scope.to_string(),
            operation_type: operation_type.to_string(),
            policy: None,
            revision: None,
            etag: None,
            updated_at: None,
            updated_by: None,
            resolved: None,
        }
    }

    /// The answer, with its ETag as a header.
    fn answer(self, status: StatusCode) -> Response {
        let tag = self.etag.as_deref().and_then(|etag| HeaderValue::from_str(etag).ok());
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
        response
    }
}

fn etag(document: &PolicyDocument) -> String {
    format!("\"{}\"", document.tag())
}

/// The type that a path names.
pub(super) fn operation_type(name: &str) -> Result<OperationType, Problem> {
    name.parse().map_err(|error: fettle_model::name::ParseNameError| {
        Problem::invalid(vec![Violation::new("operation_type", error.to_string())])
    })
}

/// One overlay of the platform or of a tenant.
pub(super) async fn show(state: &State, scope: &PolicyScope, name: &str) -> Result<Response, Problem> {
    let operation_type = operation_type(name)?;
    let found = state.store.policy(scope, &operation_type).await?;
    let document = found.ok_or_else(|| {
        let detail = format!("{scope} says nothing of `{operation_type}`; PUT a policy to make it");
        Problem::not_found("policy.unknown", detail)
    })?;
    Ok(PolicyView::of(document).answer(StatusCode::OK))
}

/// What a project says, if anything, and what holds there.
pub(super) async fn show_resolved(
    state: &State,
    project: fettle_store::project::Project,
    name: &str,
) -> Result<Response, Problem> {
    let operation_type = operation_type(name)?;
    let chain = state.store.policy_chain(&project, &operation_type).await?;
    let resolved = crate::policy::resolve(&chain);
    let own = chain.into_iter().find(|document| document.scope.level() == Level::Project);
    let view = own.map_or_else(|| PolicyView::nothing(&PolicyScope::Project(project), &operation_type), PolicyView::of);
    Ok(PolicyView { resolved: Some(resolved), ..view }.answer(StatusCode::OK))
}

/// Overlays of a scope.
pub(super) async fn list(state: &State, scope: &PolicyScope, filter: Filter) -> Result<Json<Policies>, Problem> {
    let size = page::size(filter.page_size)?;
    let page = Page { after: page::cursor(filter.cursor.as_deref())?, size };
    let documents = state.store.policies(scope, page).await?;
    let next_cursor = page::next(&documents, size, |document| document.operation_type.to_string());
    Ok(Json(Policies { items: documents.into_iter().map(PolicyView::of).collect(), next_cursor }))
}

/// Writes an overlay.
pub(super) async fn put(
    state: &State,
    caller: &Caller,
    scope: PolicyScope,
    name: &str,
    headers: &HeaderMap,
    overlay: Overlay,
) -> Result<Response, Problem> {
    let operation_type = operation_type(name)?;
    let precondition = precondition(headers)?;
    let unsafe_integers = serde_json::to_value(&overlay).map(|value| canonical::unsafe_integers(&value));
    if let Ok(found) = unsafe_integers
        && !found.is_empty()
    {
        return Err(Problem::invalid(found));
    }
    let status = if precondition == Precondition::Absent { StatusCode::CREATED } else { StatusCode::OK };
    let document = state.store.put_policy(scope, operation_type, overlay, precondition, caller.context()).await?;
    Ok(PolicyView::of(document).answer(status))
}

/// Removes an overlay.
pub(super) async fn delete(
    state: &State,
    caller: &Caller,
    scope: PolicyScope,
    name: &str,
    headers: &HeaderMap,
) -> Result<StatusCode, Problem> {
    let operation_type = operation_type(name)?;
    let precondition = precondition(headers)?;
    state.store.delete_policy(scope, operation_type, precondition, caller.context()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Of which state a change is one. Without one, whoever writes last would win.
fn precondition(headers: &HeaderMap) -> Result<Precondition, Problem> {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Err(Problem::unconditional()),
        (None, Some("*")) => Ok(Precondition::Absent),
        (Some("*"), None) => Ok(Precondition::Present),
        (Some(tags), None) => {
            let strong = |tag: &str| tag.trim().strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
            Ok(Precondition::OneOf(tags.split(',').filter_map(strong).collect()))
        }
        (_, Some(_)) => {
            let message = "write either `If-Match` with an ETag, or `If-None-Match: *`";
            Err(Problem::invalid(vec![Violation::new("If-None-Match", message)]))
        }
    }
}

#[cfg(test)]
mod tests {
    use fettle_model::overlay::Key;
    use utoipa::PartialSchema as _;

    use super::*;

    #[test]
    fn the_description_of_overlays_has_their_keys() {
        let schema = serde_json::to_value(OverlayDocument::schema()).unwrap();
        let mut described: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        let mut keys = Key::ALL.map(|key| key.name().to_owned()).to_vec();
        described.sort();
        keys.sort();
        assert_eq!(described, keys);
    }

    #[test]
    fn a_change_says_of_which_state_it_is_one() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
        };
        let read = |pairs: &[(&'static str, &'static str)]| precondition(&headers(pairs)).ok();
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("if-none-match", "*")]), Some(Precondition::Absent));
        assert_eq!(read(&[("if-match", "*")]), Some(Precondition::Present));
        let one_of = |tags: &[&str]| Some(Precondition::OneOf(tags.iter().map(|tag| (*tag).to_owned()).collect()));
        assert_eq!(read(&[("if-match", "\"1-a\", \"2-b\"")]), one_of(&["1-a", "2-b"]));
        assert_eq!(read(&[("if-match", "W/\"1-a\"")]), one_of(&[]));
        assert_eq!(read(&[("if-none-match", "\"1-a\"")]), None);
        assert_eq!(read(&[("if-match", "*"), ("if-none-match", "*")]), None);
    }
}
