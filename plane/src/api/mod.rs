//! REST. One endpoint per file; the folder path is the URL.

mod codes;
pub(crate) mod correlation;
mod description;
mod extract;
mod healthz;
pub(crate) mod problem;
mod readyz;
mod v1;

use axum::{Router, extract::DefaultBodyLimit, middleware};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use problem::Problem;

use crate::{identity, state::State};

/// Everything that is served on the port of people and programs.
pub(crate) fn router(state: State) -> Router {
    let (rest, description) = rest();
    let description = description::complete(&description);
    rest.route_layer(middleware::from_fn_with_state(state.clone(), identity::authorise))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(axum::Extension(v1::openapi_json::Description::new(&description)))
        .layer(DefaultBodyLimit::max(state.config.request_limit_bytes))
        .layer(middleware::from_fn_with_state(state.clone(), correlation::accompany))
        .with_state(state)
}

/// The endpoints and their description: made from the same list, so that neither can lack one.
fn rest() -> (Router<State>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(v1::openapi_json::document())
        .routes(routes!(healthz::show))
        .routes(routes!(readyz::show))
        .routes(routes!(v1::openapi_json::show))
        .routes(routes!(v1::admin::operation_definitions::create::create, v1::admin::operation_definitions::list::list))
        .routes(routes!(v1::admin::operation_definitions::show::show, v1::admin::operation_definitions::amend::amend))
        .routes(routes!(v1::admin::operation_definitions::deprecate::deprecate))
        .routes(routes!(v1::admin::operation_definitions::retire::retire))
        .routes(routes!(v1::projects::operations::create::create, v1::projects::operations::list::list))
        .routes(routes!(v1::projects::operations::plan::plan))
        .routes(routes!(v1::projects::operations::show::show))
        .routes(routes!(v1::projects::operations::cancel::cancel))
        .routes(routes!(v1::projects::operations::retry::retry))
        .routes(routes!(v1::projects::operations::force_probe::force_probe))
        .routes(routes!(v1::projects::operations::recover::recover))
        .routes(routes!(v1::projects::operations::logs::logs))
        .routes(routes!(v1::projects::operations::events::events))
        .routes(routes!(v1::projects::node_groups::list::list))
        .routes(routes!(
            v1::projects::node_groups::show::show,
            v1::projects::node_groups::put::put,
            v1::projects::node_groups::delete::delete
        ))
        .routes(routes!(v1::projects::allocations::list::list))
        .routes(routes!(
            v1::projects::allocations::show::show,
            v1::projects::allocations::put::put,
            v1::projects::allocations::delete::delete
        ))
        .routes(routes!(v1::projects::operations::decision::decision))
        .merge(policies())
        .merge(webhooks())
        .routes(routes!(v1::nodes::list::list))
        .routes(routes!(v1::nodes::show::show))
        .routes(routes!(v1::nodes::revoke::revoke))
        .split_for_parts()
}

/// The endpoints of overlays: the same for the platform, a tenant and a project.
fn policies() -> OpenApiRouter<State> {
    use v1::{
        admin::operation_policies as global, projects::operation_policies as project,
        tenants::operation_policies as tenant,
    };
    OpenApiRouter::new()
        .routes(routes!(global::list::list))
        .routes(routes!(global::show::show, global::put::put, global::delete::delete))
        .routes(routes!(tenant::list::list))
        .routes(routes!(tenant::show::show, tenant::put::put, tenant::delete::delete))
        .routes(routes!(project::list::list))
        .routes(routes!(project::show::show, project::put::put, project::delete::delete))
        .routes(routes!(project::explain::explain))
}

/// The endpoints of webhooks: the same for a project and an organisation.
fn webhooks() -> OpenApiRouter<State> {
    use v1::{projects::webhooks as project, tenants::webhooks as tenant};
    OpenApiRouter::new()
        .routes(routes!(project::list::list, project::create::create))
        .routes(routes!(project::show::show, project::amend::amend, project::delete::delete))
        .routes(routes!(project::rotate_secret::rotate_secret))
        .routes(routes!(project::dead_letters::dead_letters))
        .routes(routes!(project::replay::replay))
        .routes(routes!(tenant::list::list, tenant::create::create))
        .routes(routes!(tenant::show::show, tenant::amend::amend, tenant::delete::delete))
        .routes(routes!(tenant::rotate_secret::rotate_secret))
        .routes(routes!(tenant::dead_letters::dead_letters))
        .routes(routes!(tenant::replay::replay))
}

async fn unknown(uri: axum::http::Uri) -> Problem {
    Problem::not_found("endpoint.unknown", format!("there is no endpoint {}; see /api/v1/openapi.json", uri.path()))
}

async fn wrong_method(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    Problem::wrong_method(format!("{} does not take {method}; see /api/v1/openapi.json", uri.path()))
}

#[cfg(test)]
mod tests;
