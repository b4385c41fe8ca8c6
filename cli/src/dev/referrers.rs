//! Lists of referrers, which the embedded registry does not keep: what refers to which artifact.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use fettle_model::{digest::Digest, reference::Repository};
use serde_json::{Value, json};

/// Largest manifest, in bytes.
const MANIFEST_LIMIT: usize = 4 << 20;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A file per subject, below the registry's directory.
pub(super) struct Referrers {
    directory: PathBuf,
    writing: Mutex<()>,
}

impl Referrers {
    pub(super) fn new(registry: &Path) -> anyhow::Result<Self> {
        let directory = registry.join("referrers");
        super::make_private(&directory).context("the registry cannot keep lists of referrers")?;
        Ok(Self { directory, writing: Mutex::new(()) })
    }

    fn path(&self, repository: &str, subject: &Digest) -> PathBuf {
        self.directory.join(format!("{}@{}.json", repository.replace('/', "+"), subject.hex()))
    }

    fn list(&self, repository: &str, subject: &Digest) -> Vec<Value> {
        let content = fs::read(self.path(repository, subject)).unwrap_or_default();
        serde_json::from_slice(&content).unwrap_or_default()
    }

    fn add(&self, repository: &str, subject: &Digest, entry: Value) -> io::Result<()> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = self.list(repository, subject);
        if list.iter().any(|other| other["digest"] == entry["digest"]) {
            return Ok(());
        }
        list.push(entry);
        fs::write(self.path(repository, subject), Value::from(list).to_string())
    }
}

/// Answers what is asked about referrers, and notes each manifest that refers to another.
pub(super) async fn serve(State(lists): State<Arc<Referrers>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let place = |between: &str| path.strip_prefix("/v2/")?.split_once(between).filter(|(name, _)| is_repository(name));
    if let (&Method::GET, Some((repository, subject))) = (request.method(), place("/referrers/")) {
        let Ok(subject) = subject.parse() else { return StatusCode::BAD_REQUEST.into_response() };
        let manifests = lists.list(repository, &subject);
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        return ([(header::CONTENT_TYPE, INDEX)], index.to_string()).into_response();
    }
    let (&Method::PUT, Some((repository, _))) = (request.method(), place("/manifests/")) else {
        return next.run(request).await;
    };
    let (head, body) = request.into_parts();
    let Ok(content) = to_bytes(body, MANIFEST_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let mut response = next.run(Request::from_parts(head, Body::from(content.clone()))).await;
    if let Some((subject, entry)) = referrer(&content)
        && response.status().is_success()
    {
        if let Err(error) = lists.add(repository, &subject, entry) {
            tracing::error!(%error, "the registry cannot note what refers to {subject}");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        let subject = HeaderValue::from_str(&subject.to_string());
        response.headers_mut().extend(subject.map(|subject| (header::HeaderName::from_static("oci-subject"), subject)));
    }
    response
}

fn is_repository(name: &str) -> bool {
    format!("registry.invalid/{name}").parse::<Repository>().is_ok()
}

/// Which artifact a manifest refers to, and how it is listed there.
fn referrer(content: &[u8]) -> Option<(Digest, Value)> {
    let manifest: Value = serde_json::from_slice(content).ok()?;
    let subject = manifest["subject"]["digest"].as_str()?.parse().ok()?;
    let entry = json!({
        "mediaType": manifest["mediaType"],
        "digest": Digest::of(content),
        "size": content.len(),
        "artifactType": manifest.get("artifactType").unwrap_or(&manifest["config"]["mediaType"]),
        "annotations": manifest.get("annotations").cloned().unwrap_or_else(|| json!({})),
    });
    Some((subject, entry))
}
