//! Lists of referrers, which the embedded registry takes for broken manifests: an index under the tag
//! `sha256-<hex>` of the artifact they are about, as every registry without a list of its own keeps it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use fettle_model::digest::Digest;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Largest list, in bytes.
const LIMIT: usize = 4 << 20;

/// Keeps and gives lists in a directory; everything else is the registry's.
pub(super) async fn keep(State(directory): State<Arc<PathBuf>>, request: Request, next: Next) -> Response {
    let Some(path) = place(&directory, request.uri().path()) else { return next.run(request).await };
    let is_list = request.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == INDEX);
    match *request.method() {
        Method::PUT if is_list => put(&path, request.into_body()).await,
        Method::GET | Method::HEAD => match std::fs::read(&path) {
            Ok(list) => ([(header::CONTENT_TYPE, INDEX)], list).into_response(),
            Err(_) => next.run(request).await,
        },
        _ => next.run(request).await,
    }
}

async fn put(path: &Path, body: Body) -> Response {
    let Ok(list) = to_bytes(body, LIMIT).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let write = || {
        let directory = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&list)?;
        file.persist(path).map_err(|error| error.error)
    };
    match write() {
        Ok(_) => (StatusCode::CREATED, [("docker-content-digest", Digest::of(&list).to_string())]).into_response(),
        Err(error) => {
            tracing::error!(%error, path = %path.display(), "a list of referrers cannot be kept");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Where a list is: of `/v2/<two>/<parts>/manifests/sha256-<hex>`, and of no other path.
fn place(directory: &Path, path: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = path.split('/').collect();
    let ["", "v2", first, second, "manifests", tag] = parts.as_slice() else { return None };
    let is_name = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        name.bytes().all(allowed) && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
    };
    let hex =
        tag.strip_prefix("sha256-").filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
    (is_name(first) && is_name(second)).then(|| directory.join(first).join(second).join(hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_of_referrers_are_kept_here_and_nowhere_else() {
        let hex = "a".repeat(64);
        let kept = place(Path::new("/d"), &format!("/v2/steps/my.step/manifests/sha256-{hex}"));
        assert_eq!(kept, Some(PathBuf::from(format!("/d/steps/my.step/{hex}"))));
        for other in [
            format!("/v2/steps/my.step/manifests/sha256-{hex}.sig"),
            format!("/v2/steps/my.step/manifests/sha256:{hex}"),
            format!("/v2/steps/../manifests/sha256-{hex}"),
            format!("/v2/steps/%2e%2e/manifests/sha256-{hex}"),
            format!("/v2/.hidden/step/manifests/sha256-{hex}"),
            format!("/v2/steps/my.step/manifests/sha256-{}/", "a".repeat(63)),
            "/v2/steps/my.step/manifests/fettle-1".to_owned(),
            "/v2/".to_owned(),
        ] {
            assert_eq!(place(Path::new("/d"), &other), None, "{other}");
        }
    }
}
