//! The network between three hosts, one person and the plane: it delays, loses, repeats and reorders calls, cuts
//! streams, and keeps a host apart for as long as it is told to.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    http::{Request, Response, request::Parts},
};
use bytes::Bytes;
use fettle_identity::Certificate;
use fettle_plane::simulation::SimulatedDoor;
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tower::ServiceExt as _;

use crate::{chance::Chance, machine::Machine, trace::Trace};

/// How long a connection outlives a network that carries nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How long somebody waits for an answer that was lost.
const LOST: Duration = Duration::from_secs(6);

/// A plane that listens.
#[derive(Clone)]
pub(crate) struct Plane {
    /// What it serves to people and programs.
    pub(crate) router: Router,
    /// What it serves to nodes.
    pub(crate) door: SimulatedDoor,
    /// Where it runs.
    pub(crate) machine: Arc<Machine>,
}

/// The network.
pub(crate) struct Net {
    /// What is random in it.
    pub(crate) chance: Arc<Chance>,
    /// Where it tells what it does.
    pub(crate) trace: Arc<Trace>,
    plane: Mutex<Option<Plane>>,
    calm: AtomicBool,
}

/// The cable of one machine.
pub(crate) struct Link {
    blocked: watch::Sender<bool>,
    cut: Mutex<CancellationToken>,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives, and its answer too.
    Arrives,
    /// It never arrives.
    Lost,
    /// It arrives, and nobody hears of it.
    AnswerLost,
    /// It arrives twice; the second one at any time.
    Twice,
}

/// What a plane answered.
pub(crate) type Answer = (axum::http::response::Parts, Vec<Frame<Bytes>>);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a caller hears when nothing came back.
pub(crate) fn lost(what: &str) -> Status {
    Status::unavailable(what)
}

impl Net {
    /// A network without a plane.
    #[must_use]
    pub(crate) fn new(chance: &Arc<Chance>, trace: &Arc<Trace>) -> Arc<Self> {
        Arc::new(Self {
            chance: Arc::clone(chance),
            trace: Arc::clone(trace),
            plane: Mutex::default(),
            calm: AtomicBool::new(true),
        })
    }

    /// Whether it does nothing worse than to take its time.
    pub(crate) fn set_calm(&self, calm: bool) {
        self.calm.store(calm, Ordering::Relaxed);
    }

    /// Whether nothing goes wrong now.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Where calls go from now on.
    pub(crate) fn set_plane(&self, plane: Option<Plane>) {
        *lock(&self.plane) = plane;
    }

    /// The plane, when one listens.
    pub(crate) fn plane(&self) -> Result<Plane, Status> {
        lock(&self.plane).clone().ok_or_else(|| lost("nobody listens"))
    }

    /// How long the next packet takes.
    pub(crate) fn latency(&self) -> Duration {
        if self.is_calm() || self.chance.percent(92) {
            self.chance.milliseconds(1..12)
        } else {
            self.chance.milliseconds(12..4_000)
        }
    }

    /// What becomes of the next call.
    pub(crate) fn fate(&self) -> Fate {
        match self.chance.of(0..100) {
            _ if self.is_calm() => Fate::Arrives,
            0..4 => Fate::Lost,
            4..9 => Fate::AnswerLost,
            9..14 => Fate::Twice,
            _ => Fate::Arrives,
        }
    }

    /// One call and its answer.
    ///
    /// # Errors
    /// When either was lost, or the plane was.
    pub(crate) async fn call(self: &Arc<Self>, link: &Link, parts: Parts, body: Bytes) -> Result<Answer, Status> {
        let name = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        tokio::time::sleep(self.latency()).await;
        link.passes().await?;
        // TLS lets nobody on the way repeat a call. What comes twice stands for callers that repeat theirs, and who asks
        // for a certificate asks for another one each time.
        let is_identity = matches!(name.as_str(), "Join" | "Renew");
        let fate = Some(self.fate()).filter(|fate| *fate != Fate::Twice || !is_identity).unwrap_or(Fate::Arrives);
        if fate != Fate::Arrives {
            self.trace.note(&format!("{name} {fate:?}"));
        }
        if fate == Fate::Lost {
            tokio::time::sleep(LOST).await;
            return Err(lost("the call was lost"));
        }
        let plane = self.plane()?;
        if fate == Fate::Twice {
            let (net, parts, body) = (Arc::clone(self), parts.clone(), body.clone());
            tokio::spawn(async move {
                tokio::time::sleep(net.chance.milliseconds(0..15_000)).await;
                if let Ok(plane) = net.plane() {
                    let _ = plane.answer(parts, body).await;
                }
            });
        }
        let answer = plane.answer(parts, body).await?;
        if fate == Fate::AnswerLost {
            tokio::time::sleep(LOST).await;
            return Err(lost("the answer was lost"));
        }
        tokio::time::sleep(self.latency()).await;
        link.passes().await?;
        Ok(answer)
    }
}

/// What a host shows when it connects. Requests of people carry none.
#[derive(Clone, Default)]
pub(crate) struct Shows(pub(crate) Option<Certificate>);

impl Plane {
    /// A host's certificate is looked at whenever something of it arrives: connections are not simulated.
    async fn serve(&self, request: Request<axum::body::Body>) -> Result<Response<axum::body::Body>, Status> {
        match request.extensions().get::<Shows>().cloned() {
            None => Ok(self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {})),
            Some(Shows(certificate)) => {
                let answered = self.door.answer(certificate.as_ref(), request).await;
                answered.map_err(|refusal| Status::from_error(Box::new(refusal)))
            }
        }
    }

    async fn answer(&self, parts: Parts, body: Bytes) -> Result<Answer, Status> {
        let request = Request::from_parts(parts, axum::body::Body::from(body));
        let answered = async {
            let response = self.serve(request).await?;
            let (head, mut body) = response.into_parts();
            let mut frames = Vec::new();
            while let Some(frame) = body.frame().await {
                frames.push(frame.map_err(|error| lost(&error.to_string()))?);
            }
            Ok((head, frames))
        };
        tokio::select! {
            biased;
            () = self.machine.dead.cancelled() => Err(lost("the connection was reset")),
            answer = answered => answer,
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// When the plane dies before it answers, or does not let the host in.
    pub(crate) async fn open(&self, request: Request<axum::body::Body>) -> Result<Response<axum::body::Body>, Status> {
        tokio::select! {
            biased;
            () = self.machine.dead.cancelled() => Err(lost("the connection was reset")),
            response = self.serve(request) => response,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self { blocked: watch::Sender::new(false), cut: Mutex::default() }
    }
}

impl Link {
    /// Lets nothing through, or everything again.
    pub(crate) fn block(&self, blocked: bool) {
        self.blocked.send_replace(blocked);
    }

    /// Cuts all streams that are open.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *lock(&self.cut)).cancel();
    }

    /// Over when the streams of now are cut.
    pub(crate) fn token(&self) -> CancellationToken {
        lock(&self.cut).clone()
    }

    /// Waits until a packet passes, for as long as a connection lives without one.
    ///
    /// # Errors
    /// When none passed.
    pub(crate) async fn passes(&self) -> Result<(), Status> {
        let mut blocked = self.blocked.subscribe();
        let open = tokio::time::timeout(PATIENCE, blocked.wait_for(|blocked| !blocked)).await;
        open.map(drop).map_err(|_| lost("the network carries nothing"))
    }

    /// Waits until nothing has passed for as long as a connection lives.
    pub(crate) async fn starves(&self) {
        let mut blocked = self.blocked.subscribe();
        loop {
            let _ = blocked.wait_for(|blocked| *blocked).await;
            if tokio::time::timeout(PATIENCE, blocked.wait_for(|blocked| !blocked)).await.is_err() {
                return;
            }
        }
    }
}
