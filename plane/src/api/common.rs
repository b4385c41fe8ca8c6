//! What every endpoint may answer: said once, and described of each.

use utoipa::openapi::{
    Content, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder, header::HeaderBuilder, path::Operation,
};

use crate::identity::table::{self, Need};

/// Adds the answers that the plane gives before an endpoint runs.
pub(super) fn describe(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let needs_token = table::find(method, path).is_some_and(|row| row.need != Need::Nothing);
            if needs_token {
                let responses = &mut operation.responses.responses;
                responses.entry("401".to_owned()).or_insert_with(|| RefOr::T(unauthenticated()));
                responses.entry("429".to_owned()).or_insert_with(|| RefOr::T(too_many()));
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let methods = [
        ("GET", &mut item.get),
        ("PUT", &mut item.put),
        ("POST", &mut item.post),
        ("DELETE", &mut item.delete),
        ("PATCH", &mut item.patch),
    ];
    methods.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn problem(description: &str) -> ResponseBuilder {
    let content = Content::new(Some(Ref::from_schema_name("ProblemDocument")));
    ResponseBuilder::new().description(description).content("application/problem+json", content)
}

fn unauthenticated() -> Response {
    problem("no token, or none that is valid").build()
}

fn too_many() -> Response {
    let seconds = HeaderBuilder::new().description(Some("seconds to wait")).build();
    problem("the token makes more requests than it may").header("Retry-After", seconds).build()
}
