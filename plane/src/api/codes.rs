//! Every error code of the API: stable, and in one table. The description of each endpoint, the page of codes and the
//! examples are made of it.

use axum::http::StatusCode;

use crate::identity::table::{Need, Row};

/// What a program finds in `code` of a problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    /// Lowercase and dotted; never changes and never vanishes.
    pub(crate) name: &'static str,
    /// The HTTP status it comes with.
    pub(crate) status: StatusCode,
    /// What it says.
    pub(crate) meaning: &'static str,
    /// What whoever asked may do.
    pub(crate) remedy: &'static str,
    /// Which endpoints answer it.
    of: At,
}

/// Which endpoints answer a code.
#[derive(Clone, Copy, Debug)]
enum At {
    /// All.
    Everywhere,
    /// None that is described: the request reaches no endpoint.
    Nowhere,
    /// Those that need a token.
    Token,
    /// Those that refuse roles.
    Role,
    /// Those that take a body.
    Body,
    /// Those that take a body, a query, or a name with rules.
    Input,
    /// Those whose path names this parameter.
    Path(&'static str),
    /// Those with these actions in the table of endpoints.
    Actions(&'static [&'static str]),
}

/// What the description knows of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    /// Its row in the table of who may call what.
    pub(crate) row: &'static Row,
    /// Whether it takes a body.
    pub(crate) has_body: bool,
    /// Whether it takes a query.
    pub(crate) has_query: bool,
}

impl Code {
    /// Whether an endpoint may answer it.
    pub(crate) fn is_of(&self, endpoint: &Endpoint) -> bool {
        let Row { path, need, action, .. } = endpoint.row;
        let is_open = *need == Need::Nothing;
        match self.of {
            At::Everywhere => true,
            At::Nowhere => false,
            At::Token => !is_open,
            At::Role => !matches!(need, Need::Nothing | Need::Token | Need::Node | Need::Project(VIEWER)),
            At::Body => endpoint.has_body,
            At::Input => endpoint.has_body || endpoint.has_query || NAMES.contains(action),
            At::Path(parameter) => path.contains(parameter),
            At::Actions(actions) => actions.contains(action),
        }
    }
}

/// Everybody who sees a project is one, so nobody is refused for being less.
const VIEWER: fettle_store::token::ProjectRole = fettle_store::token::ProjectRole::Viewer;

const fn code(name: &'static str, status: StatusCode, of: At, meaning: &'static str, remedy: &'static str) -> Code {
    Code { name, status, meaning, remedy, of }
}

const REGISTRATION: &[&str] = &["definition.register", "definition.amend"];
const POLICY_CHANGES: &[&str] = &[
    "global_policy.put",
    "global_policy.delete",
    "tenant_policy.put",
    "tenant_policy.delete",
    "project_policy.put",
    "project_policy.delete",
];

/// All of them, by status and name.
pub(crate) const CODES: &[Code] = &[
    code(
        "request.malformed",
        StatusCode::BAD_REQUEST,
        At::Body,
        "the body is no JSON, or was cut off",
        "send JSON, whole",
    ),
    code(
        "access.unauthenticated",
        StatusCode::UNAUTHORIZED,
        At::Token,
        "there is no token, or none that is valid",
        "send `Authorization: Bearer <token>` with a token that is neither expired nor revoked",
    ),
    code(
        "access.denied",
        StatusCode::FORBIDDEN,
        At::Role,
        "the role of the token does not allow it",
        "ask for a token with a higher role; the page of roles says which",
    ),
    code(
        "access.no_role",
        StatusCode::FORBIDDEN,
        At::Token,
        "an OpenID provider vouches for the caller, and no rule of the plane says what that one may do",
        "ask for a group or another claim that a rule of `--openid` names",
    ),
    code(
        "policy.denied",
        StatusCode::FORBIDDEN,
        At::Actions(&["operation.create", "operation.retry", "operation.recover"]),
        "a policy of platform, tenant or project, or a Rego policy, denies it",
        "look at `violations`; each names its rule and whose it is",
    ),
    code("allocation.unknown", StatusCode::NOT_FOUND, At::Path("{allocation}"), "there is no such allocation", UNKNOWN),
    code(
        "decision.unknown",
        StatusCode::NOT_FOUND,
        At::Actions(&["operation.decision"]),
        "the operation was accepted before decisions were kept",
        "ask about a newer operation",
    ),
    code(
        "definition.unknown",
        StatusCode::NOT_FOUND,
        At::Path("{id}"),
        "there is no such operation definition",
        UNKNOWN,
    ),
    code(
        "endpoint.unknown",
        StatusCode::NOT_FOUND,
        At::Path("{"),
        "there is no such endpoint, or the path holds bytes that are no text",
        "look at `/api/v1/openapi.json`",
    ),
    code("node.unknown", StatusCode::NOT_FOUND, At::Path("{node}"), "there is no such node", UNKNOWN),
    code("node_group.unknown", StatusCode::NOT_FOUND, At::Path("{group}"), "there is no such node group", UNKNOWN),
    code(
        "operation.unknown",
        StatusCode::NOT_FOUND,
        At::Path("{operation_id}"),
        "there is no such operation in the project",
        UNKNOWN,
    ),
    code(
        "policy.unknown",
        StatusCode::NOT_FOUND,
        At::Actions(&["global_policy.show", "tenant_policy.show"]),
        "the scope says nothing of the operation type",
        "PUT a policy to make it say something",
    ),
    code("project.unknown", StatusCode::NOT_FOUND, At::Path("{project}"), "there is no such project", UNKNOWN),
    code(
        "resource.unknown",
        StatusCode::NOT_FOUND,
        At::Path("{"),
        "what the path names vanished while the request was under way",
        "look again what there is",
    ),
    code("tenant.unknown", StatusCode::NOT_FOUND, At::Path("{tenant}"), "there is no such tenant", UNKNOWN),
    code("webhook.unknown", StatusCode::NOT_FOUND, At::Path("{webhook}"), "there is no such webhook", UNKNOWN),
    code(
        "endpoint.wrong_method",
        StatusCode::METHOD_NOT_ALLOWED,
        At::Nowhere,
        "the endpoint does not take this method",
        "use one that the header `Allow` names",
    ),
    code(
        "definition.exists",
        StatusCode::CONFLICT,
        At::Actions(&["definition.register"]),
        "the version is registered with another content",
        "write a new version",
    ),
    code(
        "definition.other",
        StatusCode::CONFLICT,
        At::Actions(&["definition.amend"]),
        "the document is of another type or version than the draft",
        "register it as a version of its own",
    ),
    code(
        "definition.status",
        StatusCode::CONFLICT,
        At::Actions(&[
            "definition.amend",
            "definition.deprecate",
            "definition.retire",
            "operation.create",
            "operation.retry",
            "operation.recover",
        ]),
        "the version is not in a state for this",
        "look at its `status`; only drafts are amended, and no operation is made of a draft or a retired version",
    ),
    code(
        "operation.changed",
        StatusCode::CONFLICT,
        At::Actions(&["operation.retry", "operation.force_probe", "operation.recover"]),
        "the operation changed while the request was under way",
        "look at it again, and repeat the request",
    ),
    code(
        "operation.is_over",
        StatusCode::CONFLICT,
        At::Actions(&["operation.cancel"]),
        "the operation has ended already",
        "nothing is left to cancel",
    ),
    code(
        "operation.key_reused",
        StatusCode::CONFLICT,
        At::Actions(&["operation.create"]),
        "the idempotency key was used for another request",
        "use a key of its own for each request",
    ),
    code(
        "operation.no_node",
        StatusCode::CONFLICT,
        At::Actions(&["operation.create"]),
        "the operation would be for no node",
        "look what the target selector names now",
    ),
    code(
        "operation.node_succeeded",
        StatusCode::CONFLICT,
        At::Actions(&["operation.retry", "operation.force_probe", "operation.recover"]),
        "a node that was named has succeeded already",
        "leave it out",
    ),
    code(
        "operation.not_over",
        StatusCode::CONFLICT,
        At::Actions(&["operation.retry", "operation.force_probe", "operation.recover"]),
        "the operation still goes on",
        "wait for its end, or cancel it first",
    ),
    code(
        "operation.nothing_in_question",
        StatusCode::CONFLICT,
        At::Actions(&["operation.force_probe"]),
        "of every step it is known how it ended",
        "nothing is left to ask; run what failed again with a retry",
    ),
    code(
        "operation.outcome_unknown",
        StatusCode::CONFLICT,
        At::Actions(&["operation.retry", "operation.recover"]),
        "nobody knows whether a step happened that may not happen twice",
        "ask with `force-probe`, decide with `recover`, or retry with `accept_unknown`",
    ),
    code(
        "operation.succeeded",
        StatusCode::CONFLICT,
        At::Actions(&["operation.retry", "operation.force_probe", "operation.recover"]),
        "the operation has succeeded",
        "submit another one",
    ),
    code(
        "step.not_in_question",
        StatusCode::CONFLICT,
        At::Actions(&["operation.recover"]),
        "it is known how the step ended",
        "decide only about a step of which nobody knows whether it happened",
    ),
    code(
        "step.on_several_nodes",
        StatusCode::CONFLICT,
        At::Actions(&["operation.recover"]),
        "the step is in question on several nodes",
        "say which one with `node`",
    ),
    code(
        "webhook.too_many",
        StatusCode::CONFLICT,
        At::Actions(&["project_webhook.create", "tenant_webhook.create"]),
        "there are as many webhooks as there may be",
        "remove one that is not needed",
    ),
    code(
        "policy.changed",
        StatusCode::PRECONDITION_FAILED,
        At::Actions(POLICY_CHANGES),
        "the policy is not in the state that the request names",
        "read it again, and send its ETag as `If-Match`",
    ),
    code(
        "request.too_large",
        StatusCode::PAYLOAD_TOO_LARGE,
        At::Body,
        "the body is larger than 1 MiB",
        "pass bulk data as a reference to an artifact",
    ),
    code(
        "request.media_type",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        At::Body,
        "the body is not said to be JSON",
        "send `Content-Type: application/json`",
    ),
    code(
        "request.invalid",
        StatusCode::UNPROCESSABLE_ENTITY,
        At::Input,
        "body, query or a name breaks rules",
        "look at `violations`: each has its place, its rule and the fix",
    ),
    code(
        "policy.unconditional",
        StatusCode::PRECONDITION_REQUIRED,
        At::Actions(POLICY_CHANGES),
        "the change does not say of which state it is one",
        "send `If-Match` with the ETag that was read, or `If-None-Match: *` for a new policy",
    ),
    code(
        "request.too_many",
        StatusCode::TOO_MANY_REQUESTS,
        At::Token,
        "the token makes more requests than it may",
        "wait as many seconds as `Retry-After` says",
    ),
    code(
        "access.locked_out",
        StatusCode::TOO_MANY_REQUESTS,
        At::Token,
        "too many requests with tokens that do not count came from this address, or this token was refused too often",
        "mend the token, and wait as many seconds as `Retry-After` says",
    ),
    code("internal", StatusCode::INTERNAL_SERVER_ERROR, At::Everywhere, "something is wrong inside the plane", LOG),
    code(
        "artifact.unavailable",
        StatusCode::BAD_GATEWAY,
        At::Actions(REGISTRATION),
        "a document cannot be fetched now",
        REGISTRY,
    ),
    code(
        "access.issuer_unavailable",
        StatusCode::SERVICE_UNAVAILABLE,
        At::Token,
        "the keys of the caller's OpenID provider cannot be fetched, so nobody knows whether the token counts",
        "try again in some seconds; the plane's log says what the provider answered",
    ),
    code(
        "store.unavailable",
        StatusCode::SERVICE_UNAVAILABLE,
        At::Everywhere,
        "the database does not answer, or the plane shuts down",
        "try again after `Retry-After` seconds; at another plane if there is one",
    ),
    code(
        "request.timeout",
        StatusCode::GATEWAY_TIMEOUT,
        At::Everywhere,
        "the request took longer than a minute",
        "try again, with the same idempotency key",
    ),
];

/// Endpoints without body and query that read a name which may break its rule.
const NAMES: &[&str] = &[
    "global_policy.show",
    "global_policy.delete",
    "tenant_policy.show",
    "tenant_policy.delete",
    "project_policy.show",
    "project_policy.delete",
];

const UNKNOWN: &str = "check the name; what a token may not see is as unknown as what is not there";
const LOG: &str = "the plane's log has the reason, under the correlation id of the answer";
const REGISTRY: &str = "try again; look at the registry when it stays so";

/// The codes that an endpoint may answer.
pub(crate) fn of(endpoint: Endpoint) -> impl Iterator<Item = &'static Code> {
    CODES.iter().filter(move |code| code.is_of(&endpoint))
}

#[cfg(test)]
mod tests;
