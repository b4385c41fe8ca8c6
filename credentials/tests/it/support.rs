use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::Request, http::StatusCode};
use fettle_credentials::{Bearer, Desk, DeskError, Minted, ProviderError, Purpose, Sealed, SealingKey, Wanted};
use fettle_model::credential::{CredentialType, Intent};
use tempfile::TempDir;

pub(crate) const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A directory with a document of providers and the key of its secrets.
pub(crate) struct Place {
    pub(crate) directory: TempDir,
    key: SealingKey,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        SealingKey::generate(&directory.path().join("key")).unwrap();
        let key = SealingKey::load(&directory.path().join("key")).unwrap();
        Self { directory, key }
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.directory.path().join("key")
    }

    pub(crate) fn seal(&self, secret: &str) -> Sealed {
        self.key.seal(Purpose::Document, secret).unwrap()
    }

    /// A desk of one provider.
    pub(crate) fn desk(&self, provider: &str) -> Result<Desk, DeskError> {
        let path = self.directory.path().join("credentials.yaml");
        std::fs::write(&path, format!("providers:\n  - {provider}\n")).unwrap();
        Desk::load(&path, Some(&self.key_file()))
    }
}

/// What the desk gives for this.
pub(crate) async fn mint(desk: &Desk, credential_type: CredentialType, scope: &str) -> Result<Minted, ProviderError> {
    let intent = Intent::new(credential_type, scope).unwrap();
    let bearer = Bearer { node_id: "node-1", task_id: "task-1", operation_id: "operation-1", step_id: "token" };
    let now = "2026-11-22T12:00:00Z".parse().unwrap();
    desk.mint(&Wanted { intent: &intent, bearer, id: "mint-1", now }).await
}

/// What a service was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) authorization: String,
    pub(crate) body: String,
}

/// A service on loopback that always answers the same.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    pub(crate) async fn answering(status: u16, body: impl Into<Bytes>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (known, body) = (Arc::clone(&asked), body.into());
        let answer = move |request: Request| {
            let (known, body) = (Arc::clone(&known), body.clone());
            async move {
                let line = format!("{} {}", request.method(), request.uri());
                let authorization =
                    request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
                let sent = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
                let body_sent = String::from_utf8(sent.to_vec()).unwrap();
                let asked = Asked { line, authorization: authorization.unwrap_or_default(), body: body_sent };
                known.lock().unwrap().push(asked);
                (StatusCode::from_u16(status).unwrap(), body)
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        Self { address, asked }
    }

    pub(crate) fn last(&self) -> Asked {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}
