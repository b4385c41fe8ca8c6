//! GET /healthz

/// Answers as long as the process does.
#[utoipa::path(get, path = "/healthz", tag = "health", responses(
    (status = 200, description = "the process is up", body = String, content_type = "text/plain", example = "ok\n"),
))]
pub(crate) async fn show() -> &'static str {
    "ok\n"
}
