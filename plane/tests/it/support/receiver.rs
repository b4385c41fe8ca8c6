//! A receiver of webhooks on a real socket, which answers what it is told to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch};

use super::within;

/// What the receiver answers once.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Status(u16),
    /// With `Retry-After`, in seconds.
    Later(u16, u64),
    Redirect(String),
    /// Never.
    Hang,
    /// An answer that does not end.
    Endless,
}

/// What has arrived.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) at: std::time::Instant,
}

#[derive(Clone)]
struct Inside {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    arrived: Arc<watch::Sender<Vec<Delivery>>>,
}

pub(crate) struct Receiver {
    pub(crate) url: String,
    inside: Inside,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(inside): State<Inside>, headers: HeaderMap, body: Bytes) -> Response {
    let at = std::time::Instant::now();
    inside.arrived.send_modify(|arrived| arrived.push(Delivery { headers, body, at }));
    let reply = inside.replies.lock().unwrap().pop_front();
    match reply {
        None => StatusCode::OK.into_response(),
        Some(Reply::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        Some(Reply::Later(status, seconds)) => {
            (StatusCode::from_u16(status).unwrap(), [("retry-after", seconds.to_string())]).into_response()
        }
        Some(Reply::Redirect(to)) => (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response(),
        Some(Reply::Hang) => std::future::pending().await,
        Some(Reply::Endless) => {
            let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 8192])));
            axum::body::Body::from_stream(chunks).into_response()
        }
    }
}

impl Receiver {
    /// Answers 200 after these.
    pub(crate) async fn start(replies: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let inside = Inside {
            replies: Arc::new(Mutex::new(replies.iter().cloned().collect())),
            arrived: Arc::new(watch::Sender::new(Vec::new())),
        };
        let router = Router::new().route("/hook", post(receive)).with_state(inside.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, inside, server }
    }

    /// Waits until that many have arrived, and answers all that have.
    pub(crate) async fn arrived(&self, count: usize) -> Vec<Delivery> {
        let mut arrived = self.inside.arrived.subscribe();
        within(arrived.wait_for(|arrived| arrived.len() >= count)).await.unwrap().clone()
    }

    /// How many have arrived.
    pub(crate) fn count(&self) -> usize {
        self.inside.arrived.borrow().len()
    }
}

impl Delivery {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }

    /// Whether the specification's own library accepts it.
    pub(crate) fn is_signed_with(&self, secret: &str) -> bool {
        standardwebhooks::Webhook::new(secret).unwrap().verify(&self.body, &self.headers).is_ok()
    }
}
