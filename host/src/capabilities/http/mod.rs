//! `http`: requests with whole, bounded bodies to granted addresses.

mod calls;
mod headers;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fettle_egress::{
    Client, ClientOptions, Guard, Refused,
    http::{RequestBuilder, Response as Answer},
};
use fettle_model::{
    egress::Egress,
    failure::{Failure, FailureClass},
    grant::HttpGrant,
    policy::PolicyBundle,
    task::LogLevel,
    web::{self, WebPrefix, WebUrl},
};
use tokio_util::sync::CancellationToken;

use super::{Node, denials::Denials, denied, report};
use crate::sandbox::bindings::fettle::http::http::{Error, Header, Method, Request, Response};

/// Most bytes of a body, each way.
const BODY_LIMIT: usize = 1 << 20;
/// Time for an exchange, when the step names none.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most time for an exchange.
const TIMEOUT_LIMIT: Duration = Duration::from_secs(300);
/// Policies whose clients are kept; a node has one, and two while it changes.
const CLIENTS: usize = 8;

/// How requests are sent.
#[derive(Clone)]
pub struct Web {
    guard: Guard,
    options: ClientOptions,
    /// One client per policy: a connection that one policy allowed is not used under another.
    clients: Arc<Mutex<BTreeMap<Egress, Client>>>,
}

/// What one step may send.
#[derive(Clone, Default)]
pub struct Configured(Option<Arc<Granted>>);

struct Granted {
    grant: HttpGrant,
    client: Client,
}

/// The state of one attempt.
#[derive(Default)]
pub struct Http {
    granted: Option<Arc<Granted>>,
    report: report::Handle,
    denials: Denials,
    /// Exchanges break off when it is canceled.
    pub(super) stop: CancellationToken,
}

impl Web {
    /// Resolves names as `guard` does, under the policy of each task.
    #[must_use]
    pub fn new(guard: Guard, options: ClientOptions) -> Self {
        Self { guard, options, clients: Arc::default() }
    }

    fn under(&self, egress: &Egress) -> Result<Client, Failure> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(egress) {
            return Ok(client.clone());
        }
        let client = Client::new(self.guard.under(egress), &self.options)
            .map_err(|error| Failure::new(FailureClass::Permanent, "http.client", error.to_string()))?;
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(egress.clone(), client.clone());
        Ok(client)
    }
}

impl Configured {
    pub(super) fn new(grant: Option<&HttpGrant>, policy: &PolicyBundle, node: &Node) -> Result<Self, Failure> {
        let Some(grant) = grant else { return Ok(Self(None)) };
        let client = node.web.under(&policy.egress)?;
        for rule in &grant.requests {
            let WebPrefix::Below(url) = &rule.url else {
                return Err(denied(
                    "http.not-a-literal",
                    "a grant of `http` names each address; only a ceiling may say `*`",
                ));
            };
            let host = url.as_url().host_str().unwrap_or_default();
            let checked = client.guard().check_host(host);
            checked.map_err(|refused| denied("egress.private-address", refused.to_string()))?;
        }
        Ok(Self(Some(Arc::new(Granted { grant: grant.clone(), client }))))
    }

    pub(super) fn prepare(&self, report: report::Handle, denials: Denials) -> Http {
        Http { granted: self.0.clone(), report, denials, stop: CancellationToken::new() }
    }
}

impl Http {
    pub(super) async fn send(&mut self, request: Request) -> Result<Response, Error> {
        let granted = self.granted.as_ref().ok_or(Error::AccessDenied)?;
        let url: WebUrl =
            request.url.parse().map_err(|error: web::WebUrlError| Error::InvalidRequest(error.to_string()))?;
        let method = method(request.method);
        if !granted.grant.allows(method, &url) {
            self.denials.note("http.requests", granted.grant.entries(), format!("{method} {}", url.directory()));
            return Err(Error::AccessDenied);
        }
        if request.body.len() > BODY_LIMIT {
            return Err(Error::InvalidRequest(format!(
                "the body has {} bytes; at most {BODY_LIMIT}",
                request.body.len()
            )));
        }
        let headers = headers::of_request(&request.headers)?;
        let builder = granted.client.request(verb(method), url.as_url().clone());
        let builder = builder.map_err(|refused| self.refusal(&refused))?.headers(headers).body(request.body);
        let timeout = match request.timeout_ms {
            0 => TIMEOUT,
            asked => Duration::from_millis(asked.into()).min(TIMEOUT_LIMIT),
        };
        let exchanged = tokio::select! {
            exchanged = tokio::time::timeout(timeout, self.exchange(builder)) => exchanged,
            () = self.stop.cancelled() => return Err(Error::BrokeOff("the operation was canceled".to_owned())),
        };
        match exchanged {
            Ok(exchanged) => exchanged,
            Err(_) => Err(Error::BrokeOff(format!("it did not end within {} ms", timeout.as_millis()))),
        }
    }

    async fn exchange(&self, builder: RequestBuilder) -> Result<Response, Error> {
        let answer = builder.send().await.map_err(|error| match fettle_egress::refusal(&error) {
            Some(refused) => self.refusal(refused),
            None if error.is_connect() => Error::Unreachable(chain(error)),
            None => Error::BrokeOff(chain(error)),
        })?;
        let status = answer.status().as_u16();
        let headers = headers::of_response(answer.headers());
        Ok(Response { status, headers, body: body(answer).await? })
    }

    /// The step learns that it was denied; where a name leads is for the people who read its log.
    fn refusal(&self, refused: &Refused) -> Error {
        self.denials.note_address(refused);
        self.report.log(LogLevel::Error, refused.to_string());
        Error::AccessDenied
    }
}

async fn body(mut answer: Answer) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| Error::BrokeOff(chain(error)))? {
        if body.len() + chunk.len() > BODY_LIMIT {
            return Err(Error::TooLarge(BODY_LIMIT as u64));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// An error and its causes, without the URL: its query may hold what is nobody's business.
fn chain(error: fettle_egress::http::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

const fn method(method: Method) -> web::Method {
    match method {
        Method::Get => web::Method::Get,
        Method::Head => web::Method::Head,
        Method::Post => web::Method::Post,
        Method::Put => web::Method::Put,
        Method::Patch => web::Method::Patch,
        Method::Delete => web::Method::Delete,
    }
}

const fn verb(method: web::Method) -> fettle_egress::http::Method {
    use fettle_egress::http::Method as Verb;
    match method {
        web::Method::Get => Verb::GET,
        web::Method::Head => Verb::HEAD,
        web::Method::Post => Verb::POST,
        web::Method::Put => Verb::PUT,
        web::Method::Patch => Verb::PATCH,
        web::Method::Delete => Verb::DELETE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_before_anybody_is_asked() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/x", listener.local_addr().unwrap());
        // Nobody listens there any more: whatever is sent cannot arrive.
        drop(listener);
        let grant = format!("requests: [{{ url: '{}', methods: [POST] }}]", url.trim_end_matches('x'));
        let client = Client::new(Guard::of_configuration(), &ClientOptions::default()).unwrap();
        let granted = Granted { grant: fettle_model::document::read(&grant).unwrap(), client };
        let mut http = Http { granted: Some(Arc::new(granted)), ..Http::default() };
        let mut send = async |bytes: usize| {
            let body = vec![b'x'; bytes];
            let request = Request { method: Method::Post, url: url.clone(), headers: Vec::new(), body, timeout_ms: 0 };
            http.send(request).await.unwrap_err()
        };
        let over = send(BODY_LIMIT + 1).await;
        assert!(matches!(&over, Error::InvalidRequest(rule) if rule.contains("at most 1048576")), "{over:?}");
        let whole = send(BODY_LIMIT).await;
        assert!(matches!(whole, Error::Unreachable(_)), "{whole:?}");
    }
}
