//! GET /api/v1/openapi.json

use axum::{Extension, http::header, response::IntoResponse};
use bytes::Bytes;
use utoipa::{
    OpenApi as _,
    openapi::{
        OpenApi,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

/// The description as it is sent.
#[derive(Clone)]
pub(crate) struct Description(Bytes);

impl Description {
    /// Writes it down once.
    pub(crate) fn new(document: &serde_json::Value) -> Self {
        Self(document.to_string().into())
    }
}

/// What is true of all endpoints.
pub(crate) fn document() -> OpenApi {
    #[derive(utoipa::OpenApi)]
    #[openapi(
        info(title = "Fettle plane", description = "Operations on nodes: definitions, operations, logs, events."),
        security(("token" = []))
    )]
    struct Document;
    let mut document = Document::openapi();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("a token made by `fettle-plane token create`"))
        .build();
    let components = document.components.get_or_insert_default();
    components.security_schemes.insert("token".to_owned(), SecurityScheme::Http(scheme).into());
    document
}

/// This description.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "description",
    responses((status = 200, description = "OpenAPI 3.1, made from the code", content_type = "application/json",
        body = serde_json::Value, example = json!({ "openapi": "3.1.0" }))))]
pub(crate) async fn show(Extension(Description(text)): Extension<Description>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], text)
}
