//! Requests to a plane.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, Url, header};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Amendment, Definition, ForceProbe, LogLine, NewDefinition, NewOperation, Node, Operation, PlaneError,
    PlannedOperation, Problem, Recover, Retry, view::Page,
};

/// Longest time to a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest time to a whole answer, streams aside.
const ANSWER: Duration = Duration::from_secs(70);
/// Longest silence in an answer or a stream; a living stream says something every 15 s.
const SILENCE: Duration = Duration::from_secs(75);
/// Entries of a page.
const PAGE: usize = 200;

/// A client of one plane, for one project. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PlaneClient {
    http: reqwest::Client,
    base: Url,
    project: String,
}

impl PlaneClient {
    /// Makes a client; nothing is sent yet.
    ///
    /// # Errors
    /// When the address is none, or the token cannot be sent.
    pub fn new(address: &str, token: &str, project: &str) -> Result<Self, PlaneError> {
        let wrong = || PlaneError::Address(address.to_owned());
        let base = Url::parse(address).map_err(|_| wrong())?;
        if !["http", "https"].contains(&base.scheme()) || base.cannot_be_a_base() || !base.has_host() {
            return Err(wrong());
        }
        let mut bearer = header::HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| PlaneError::Token)?;
        bearer.set_sensitive(true);
        let http = reqwest::Client::builder()
            .user_agent(concat!("fettle/", env!("CARGO_PKG_VERSION")))
            // A token must not follow a redirect or pass a proxy that nobody named.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .default_headers(header::HeaderMap::from_iter([(header::AUTHORIZATION, bearer)]))
            .build()
            .map_err(|error| PlaneError::unreachable(address.to_owned(), error))?;
        Ok(Self { http, base, project: project.to_owned() })
    }

    /// Where the plane is.
    #[must_use]
    pub fn address(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// Registers a definition.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn register_definition(&self, new: &NewDefinition) -> Result<Definition, PlaneError> {
        self.post(&["admin", "operation-definitions"], new).await
    }

    /// Changes a draft of a definition, publishes it, or both.
    ///
    /// # Errors
    /// When it is no draft, or a document is refused.
    pub async fn amend_definition(&self, name: &str, amendment: &Amendment) -> Result<Definition, PlaneError> {
        let url = self.url(&["admin", "operation-definitions", name]);
        self.answer(self.http.request(Method::PATCH, url).json(amendment)).await
    }

    /// Moves a definition on: `deprecate` or `retire`.
    ///
    /// # Errors
    /// When there is none, or it is not in a state for that.
    pub async fn move_definition(&self, name: &str, verb: &str) -> Result<Definition, PlaneError> {
        self.post(&["admin", "operation-definitions", name, verb], &json!({})).await
    }

    /// All registered definitions.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn definitions(&self) -> Result<Vec<Definition>, PlaneError> {
        self.all(&["admin", "operation-definitions"]).await
    }

    /// One definition, by id or `type@version`.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn definition(&self, name: &str) -> Result<Definition, PlaneError> {
        self.get(&["admin", "operation-definitions", name], &[]).await
    }

    /// All nodes that the token may see.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn nodes(&self) -> Result<Vec<Node>, PlaneError> {
        self.all(&["nodes"]).await
    }

    /// One node, by name or id.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn node(&self, name: &str) -> Result<Node, PlaneError> {
        self.get(&["nodes", name], &[]).await
    }

    /// Revokes the certificates of a node, by name or id.
    ///
    /// # Errors
    /// When there is none, the token may not, or the plane does not answer.
    pub async fn revoke_node(&self, name: &str) -> Result<Node, PlaneError> {
        self.post(&["nodes", name, "revoke"], &json!({})).await
    }

    /// What an operation would be.
    ///
    /// # Errors
    /// Everything that is wrong with the request.
    pub async fn plan(&self, operation: &NewOperation) -> Result<PlannedOperation, PlaneError> {
        self.post(&["projects", &self.project, "operations", "plan"], operation).await
    }

    /// Submits an operation. With an idempotency key, a broken connection is tried once more.
    ///
    /// # Errors
    /// Everything that is wrong with the request.
    pub async fn submit(&self, operation: &NewOperation) -> Result<Operation, PlaneError> {
        let path = ["projects", &self.project, "operations"];
        match self.post(&path, operation).await {
            Err(PlaneError::Unreachable { may_have_arrived: true, .. }) if operation.idempotency_key.is_some() => {
                self.post(&path, operation).await
            }
            answer => answer,
        }
    }

    /// The newest operations, at most `limit`.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn operations(&self, status: Option<&str>, limit: usize) -> Result<Vec<Operation>, PlaneError> {
        let mut query = Vec::from_iter(status.map(|status| ("status", status.to_owned())));
        let path = ["projects", &self.project, "operations"];
        let mut found = Vec::new();
        loop {
            let size = PAGE.min(limit - found.len()).max(1);
            let mut page = query.clone();
            page.push(("page_size", size.to_string()));
            let Page { items, next_cursor } = self.get::<Page<Operation>>(&path, &page).await?;
            found.extend(items);
            match next_cursor {
                Some(cursor) if found.len() < limit => {
                    query.retain(|(name, _)| *name != "cursor");
                    query.push(("cursor", cursor));
                }
                Some(_) | None => return Ok(found),
            }
        }
    }

    /// One operation with its steps.
    ///
    /// # Errors
    /// When there is none, or the plane does not answer.
    pub async fn operation(&self, id: &str) -> Result<Operation, PlaneError> {
        self.get(&["projects", &self.project, "operations", id], &[]).await
    }

    /// Cancels an operation.
    ///
    /// # Errors
    /// When there is none, it is over, or the plane does not answer.
    pub async fn cancel(&self, id: &str) -> Result<Operation, PlaneError> {
        self.post(&["projects", &self.project, "operations", id, "cancel"], &json!({})).await
    }

    /// Runs an operation again that failed or was canceled.
    ///
    /// # Errors
    /// When there is none, it is not over, or the plane does not answer.
    pub async fn retry(&self, id: &str, retry: &Retry) -> Result<Operation, PlaneError> {
        self.post(&["projects", &self.project, "operations", id, "retry"], retry).await
    }

    /// Asks the nodes of an operation whether steps have happened of which nobody knows it.
    ///
    /// # Errors
    /// When there is none, nothing of it is in question, or the plane does not answer.
    pub async fn force_probe(&self, id: &str, asked: &ForceProbe) -> Result<Operation, PlaneError> {
        self.post(&["projects", &self.project, "operations", id, "force-probe"], asked).await
    }

    /// Says whether a step has happened of which nobody knows it.
    ///
    /// # Errors
    /// When there is none, it is known how it ended, or the plane does not answer.
    pub async fn recover(&self, id: &str, said: &Recover) -> Result<Operation, PlaneError> {
        self.post(&["projects", &self.project, "operations", id, "recover"], said).await
    }

    /// A page of log lines after `cursor`; empty when there are no more.
    ///
    /// # Errors
    /// When there is no such operation, or the plane does not answer.
    pub async fn logs(
        &self,
        id: &str,
        step: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<(Vec<LogLine>, Option<String>), PlaneError> {
        let mut query = vec![("page_size", PAGE.to_string())];
        query.extend(step.map(|step| ("step_id", step.to_owned())));
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        let path = ["projects", &self.project, "operations", id, "logs"];
        let page = self.get::<Page<LogLine>>(&path, &query).await?;
        Ok((page.items, page.next_cursor))
    }

    /// Opens a stream of server-sent events of an operation: `what` is `events` or `logs`.
    pub(super) async fn open(
        &self,
        id: &str,
        what: &str,
        step: Option<&str>,
        last: Option<&str>,
    ) -> Result<Response, PlaneError> {
        let mut query = vec![("follow", "true".to_owned())];
        query.extend(step.map(|step| ("step_id", step.to_owned())));
        let url = self.url(&["projects", &self.project, "operations", id, what]);
        let mut request = self.http.request(Method::GET, url).query(&query);
        request = request.header(header::ACCEPT, "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        self.accept(request).await
    }

    /// The project that it is for.
    pub(super) fn project(&self) -> &str {
        &self.project
    }

    pub(super) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        url
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<T, PlaneError> {
        self.answer(self.http.request(Method::GET, self.url(path)).query(query)).await
    }

    /// All entries of a list, page after page.
    pub(super) async fn all<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Vec<T>, PlaneError> {
        let mut found = Vec::new();
        let mut query = vec![("page_size", PAGE.to_string())];
        loop {
            let page: Page<T> = self.get(path, &query).await?;
            found.extend(page.items);
            let Some(cursor) = page.next_cursor else { return Ok(found) };
            query.truncate(1);
            query.push(("cursor", cursor));
        }
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, PlaneError> {
        self.answer(self.http.request(Method::POST, self.url(path)).json(body)).await
    }

    pub(super) async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, PlaneError> {
        let response = self.accept(request.timeout(ANSWER)).await?;
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        let broken = |source| PlaneError::Answer { address: self.address(), source };
        let value: Value = serde_json::from_slice(&body).map_err(broken)?;
        serde_json::from_value(value).map_err(broken)
    }

    pub(super) async fn accept(&self, request: RequestBuilder) -> Result<Response, PlaneError> {
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        Err(PlaneError::Refused(Problem::read(status, &body)))
    }

    fn unreachable(&self, error: reqwest::Error) -> PlaneError {
        PlaneError::unreachable(self.address(), error)
    }
}
