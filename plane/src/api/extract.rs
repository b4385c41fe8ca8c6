//! Bodies and queries, with errors that name the place.

use axum::{
    body::Bytes,
    extract::{
        FromRequest, FromRequestParts, Request,
        rejection::{BytesRejection, FailedToBufferBody},
    },
    http::request::Parts,
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
        parse(&read(request, state).await?).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<State> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &State) -> Result<Self, Problem> {
        let bytes = read(request, state).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
    }
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
