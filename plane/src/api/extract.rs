//! Bodies and queries, with errors that name the place.

use axum::{
    body::Bytes,
    extract::{
        FromRequest, FromRequestParts, Request,
        rejection::{BytesRejection, FailedToBufferBody},
    },
    http::{HeaderMap, header, request::Parts},
};
use fettle_model::violation::Violation;
use serde::de::DeserializeOwned;

use super::Problem;
use crate::state::State;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body that may be left out.
pub(crate) struct OptionalBody<T>(pub(crate) T);

/// A query.
pub(crate) struct Query<T>(pub(crate) T);

/// The parameters of a path.
pub(crate) struct Path<T>(pub(crate) T);

/// Turns `a.b[0].c` into `/a/b/0/c`.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(format!("/{index}")),
            Segment::Map { key } => Some(format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { variant } => Some(format!("/{variant}")),
            Segment::Unknown => None,
        })
        .collect()
}

impl<T: DeserializeOwned> FromRequest<State> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Self, Problem> {
        insist_on_json(request.headers())?;
        parse(&read(request, state).await?).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<State> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Self, Problem> {
        let json = insist_on_json(request.headers());
        let bytes = read(request, state).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        json.and_then(|()| parse(&bytes).map(Self))
    }
}

/// A page of another origin can make a browser send forms and plain text with no questions asked, but not JSON.
fn insist_on_json(headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = media_type == "application/json"
        || media_type.strip_prefix("application/").is_some_and(|subtype| subtype.ends_with("+json"));
    if is_json { Ok(()) } else { Err(Problem::media_type(&media_type)) }
}

async fn read(request: Request, state: &State) -> Result<Bytes, Problem> {
    Bytes::from_request(request, state).await.map_err(|rejection| {
        if let BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) = rejection {
            return Problem::too_large(state.config.request_limit_bytes);
        }
        Problem::malformed("the request body could not be read to its end; send it again".to_owned())
    })
}

fn parse<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    let value: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|error| Problem::malformed(format!("the request body is not JSON: {error}")))?;
    // A list would be taken as the fields of an object in the order in which the code has them.
    if !value.is_object() {
        return Err(Problem::invalid(vec![Violation::new("", "write a JSON object")]));
    }
    serde_path_to_error::deserialize(value)
        .map_err(|error| Problem::invalid(vec![Violation::new(pointer(error.path()), error.inner().to_string())]))
}

impl<T: DeserializeOwned> FromRequestParts<State> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|error| Problem::invalid(vec![Violation::new("?", error.body_text())]))
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<State> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        found.map(|axum::extract::Path(path)| Self(path)).map_err(|_| {
            let detail = format!("there is nothing at {}: a name in it is no text", parts.uri.path());
            Problem::not_found("endpoint.unknown", detail)
        })
    }
}
