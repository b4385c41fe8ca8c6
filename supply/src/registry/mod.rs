//! Talking to OCI registries.
//!
//! The types are oci-client's, the transport is not: its client follows redirects to any host, obeys
//! proxy variables, sends credentials to whatever realm a registry names, and reads manifests of any
//! size into memory. A node must do none of that.

mod attach;
mod evidence;
mod fault;
mod place;
mod pull;
mod push;
mod referrers;

use std::{collections::BTreeSet, fmt, path::PathBuf, sync::Arc, time::Duration};

use fettle_egress::{Client, ClientError, ClientOptions, Guard};
use fettle_model::{digest::Digest, reference::Repository};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header};

pub use {attach::SignatureFormat, push::FILES_ARTIFACT_TYPE};
pub(crate) use {
    fault::Fault,
    place::Place,
    push::{check_canonical, own_tag},
    referrers::{INDEX_LIMIT, Index},
};

use crate::error::Outage;

/// How a client behaves. The default is right for most.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Registries (`host:port`) that are spoken to without TLS. Loopback addresses are always.
    pub plain_http: BTreeSet<String>,
    /// OCI image layouts that stand before all registries. An artifact that is in one is taken from it,
    /// with its signatures and all that it consists of, and its registry is not asked.
    pub layouts: Vec<PathBuf>,
    /// Longest time to a connection.
    pub connect_timeout: Duration,
    /// Longest time in which nothing comes or goes.
    pub idle_timeout: Duration,
    /// Longest time for a manifest, a signature or a document.
    pub document_timeout: Duration,
    /// Longest time for a step's component.
    pub component_timeout: Duration,
    /// Which addresses are connected to.
    pub guard: Guard,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            plain_http: BTreeSet::new(),
            layouts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            document_timeout: Duration::from_secs(60),
            component_timeout: Duration::from_secs(600),
            guard: Guard::of_configuration(),
        }
    }
}

/// A client of any number of registries. Anonymous, unless it is given an authorization; follows no redirect; knows no
/// proxy. Cheap to clone.
#[derive(Clone)]
pub struct RegistryClient {
    http: Client,
    options: RegistryOptions,
    authorization: Option<Arc<dyn Authorization>>,
}

/// What a client shows a registry when it fetches.
pub trait Authorization: Send + Sync {
    /// The bearer token for a repository; none where it is for another one, or is good no longer.
    fn bearer(&self, repository: &Repository) -> Option<&str>;
}

impl RegistryClient {
    /// Makes a client.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(options: RegistryOptions) -> Result<Self, ClientError> {
        let connection = ClientOptions { connect_timeout: options.connect_timeout, ..ClientOptions::default() };
        let http = Client::new(options.guard.clone(), &connection)?;
        Ok(Self { http, options, authorization: None })
    }

    /// The same client for other addresses. It shares no connection with this one.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn guarded(&self, guard: Guard) -> Result<Self, ClientError> {
        Self::new(RegistryOptions { guard, ..self.options.clone() })
    }

    /// The same client, over the same connections, that shows this where it is for.
    #[must_use]
    pub fn authorized(&self, authorization: Arc<dyn Authorization>) -> Self {
        Self { authorization: Some(authorization), ..self.clone() }
    }

    /// How it behaves.
    #[must_use]
    pub const fn options(&self) -> &RegistryOptions {
        &self.options
    }

    fn url(&self, repository: &Repository, rest: &str) -> Result<Url, Fault> {
        let registry = repository.registry();
        let plain = is_loopback(registry) || self.options.plain_http.contains(registry);
        let scheme = if plain { "http" } else { "https" };
        Url::parse(&format!("{scheme}://{registry}/v2/{}/{rest}", repository.path()))
            .map_err(|error| Fault::caused(Outage::Protocol(format!("`{registry}` is not a host: {error}")), error))
    }

    pub(crate) fn blob_request(&self, repository: &Repository, digest: &Digest) -> Result<RequestBuilder, Fault> {
        self.get(repository, &format!("blobs/{digest}"))
    }

    /// Asks for a part of a repository, with what is shown for it.
    fn get(&self, repository: &Repository, rest: &str) -> Result<RequestBuilder, Fault> {
        let url = self.url(repository, rest)?;
        let in_clear = url.scheme() != "https" && !is_loopback(repository.registry());
        let request = self.request(Method::GET, url)?;
        match self.authorization.as_ref().and_then(|authorization| authorization.bearer(repository)) {
            Some(_) if in_clear => {
                let reason =
                    format!("`{}` is spoken to without TLS, and no credential is sent so", repository.registry());
                Err(Fault::new(Outage::Protocol(reason)))
            }
            Some(token) => Ok(request.bearer_auth(token)),
            None => Ok(request),
        }
    }

    fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Fault> {
        Ok(self.http.request(method, url)?)
    }

    /// Sends a request whose body, if any, is in memory, and waits for the head of the answer.
    pub(crate) async fn send(&self, request: RequestBuilder, what: &str) -> Result<Response, Fault> {
        // A kept connection can turn out to be dead; a new one says more about the registry.
        let again = request.try_clone();
        let response = match (self.send_once(request).await, again) {
            (Err(Fault::Outage(Outage::BrokeOff { .. }, _)), Some(again)) => self.send_once(again).await,
            (result, _) => result,
        };
        self.accept(response?, what).await
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<Response, Fault> {
        let idle = self.options.idle_timeout;
        let response = tokio::time::timeout(idle, request.send()).await;
        response.map_err(|_| Fault::new(Outage::Silent(idle)))?.map_err(Fault::sending)
    }

    async fn accept(&self, response: Response, what: &str) -> Result<Response, Fault> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(Fault::new(match status {
            StatusCode::NOT_FOUND => Outage::Missing(what.to_owned()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outage::NotAllowed(status.as_u16()),
            status if status.is_redirection() => Outage::Redirected(location(&response)),
            _ => Outage::Status { status: status.as_u16(), detail: self.detail(response).await },
        }))
    }

    /// The first line of what the registry said about its error.
    async fn detail(&self, response: Response) -> String {
        let Ok(body) = self.body(response, 4096, "error").await else { return String::new() };
        let text = String::from_utf8_lossy(&body.content);
        let line: String =
            text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
        if line.is_empty() { line } else { format!(": {line}") }
    }
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryClient").field("options", &self.options).finish_non_exhaustive()
    }
}

fn location(response: &Response) -> String {
    let text = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    // Signed addresses carry a secret in their query.
    text.and_then(|text| text.split('?').next()).unwrap_or("nowhere").chars().take(200).collect()
}

/// Whether `host[:port]` can only be this machine.
fn is_loopback(registry: &str) -> bool {
    format!("http://{registry}").parse().is_ok_and(|url| fettle_egress::is_confidential(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_and_for_whom_it_was_allowed() {
        let options = RegistryOptions { plain_http: ["lab:5000".to_owned()].into(), ..RegistryOptions::default() };
        let client = RegistryClient::new(options).unwrap();
        for (repository, expected) in [
            ("127.0.0.1:5000/a", "http://127.0.0.1:5000/v2/a/x"),
            ("lab:5000/a", "http://lab:5000/v2/a/x"),
            ("lab:5001/a", "https://lab:5001/v2/a/x"),
            ("registry.internal:5000/a/b", "https://registry.internal:5000/v2/a/b/x"),
        ] {
            assert_eq!(client.url(&repository.parse().unwrap(), "x").unwrap().as_str(), expected);
        }
    }

    struct Token;

    impl Authorization for Token {
        fn bearer(&self, repository: &Repository) -> Option<&str> {
            (repository.path() == "a").then_some("s3cret")
        }
    }

    #[test]
    fn a_token_goes_to_its_repository_and_never_in_clear_to_another_machine() {
        let options = RegistryOptions { plain_http: ["lab:5000".to_owned()].into(), ..RegistryOptions::default() };
        let anonymous = RegistryClient::new(options).unwrap();
        let client = anonymous.authorized(Arc::new(Token));
        let shown = |client: &RegistryClient, repository: &str| {
            let request = client.get(&repository.parse().unwrap(), "x")?.build().unwrap();
            let header = request.headers().get(header::AUTHORIZATION).cloned();
            Ok::<_, Fault>(header.map(|value| (value.is_sensitive(), value.to_str().unwrap().to_owned())))
        };
        for (repository, expected) in [
            ("127.0.0.1:5000/a", Some((true, "Bearer s3cret".to_owned()))),
            ("registry.internal:5000/a", Some((true, "Bearer s3cret".to_owned()))),
            ("registry.internal:5000/b", None),
        ] {
            assert_eq!(shown(&client, repository).ok().unwrap(), expected, "{repository}");
        }
        assert!(shown(&client, "lab:5000/a").is_err() && shown(&client, "lab:5000/b").is_ok());
        assert_eq!(shown(&anonymous, "127.0.0.1:5000/a").ok().unwrap(), None);
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (registry, expected) in [
            ("127.0.0.1:5000", true),
            ("127.8.9.1", true),
            ("localhost:5000", true),
            ("[::1]:5000", true),
            ("registry.internal:5000", false),
            ("localhost.example.com:5000", false),
            ("127.0.0.1.example.com", false),
            ("10.0.0.1:5000", false),
            ("[::2]:5000", false),
            ("0.0.0.0:5000", false),
        ] {
            assert_eq!(is_loopback(registry), expected, "{registry}");
        }
    }
}
