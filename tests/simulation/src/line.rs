//! What a host calls its plane through: single calls, and streams that are cut.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{Request, Response, request::Parts};
use bytes::Bytes;
use fettle_host::agent::{Connect, ConnectError, Dial, Shown, transport};
use futures::future::BoxFuture;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};
use tower::Service;

use crate::{
    machine::Machine,
    net::{Link, Net, Plane, Shows, lost},
};

/// Frames on their way in one direction.
const ON_THEIR_WAY: usize = 64;

type Carried = Result<Frame<Bytes>, Status>;

/// The line of one life of a host.
#[derive(Clone)]
pub(crate) struct Line {
    /// The network.
    pub(crate) net: Arc<Net>,
    /// The cable of the host.
    pub(crate) link: Arc<Link>,
    /// The host.
    pub(crate) machine: Arc<Machine>,
    /// What it shows.
    pub(crate) shows: Shows,
}

impl Dial for Line {
    fn dial(&self, shown: &Shown<'_>) -> Result<Connect, ConnectError> {
        let certificate = match *shown {
            Shown::Joining(_) | Shown::Expired(_) => None,
            Shown::Node { certificate, .. } => Some(certificate.clone()),
        };
        let line = Self { shows: Shows(certificate), ..self.clone() };
        Ok(Arc::new(move || Ok(transport(line.clone()))))
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Body>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let line = self.clone();
        request.extensions_mut().insert(self.shows.clone());
        Box::pin(async move {
            let over = line.machine.dead.clone();
            let answer = async {
                match request.uri().path().rsplit('/').next() {
                    Some("Pull" | "Report") => line.stream(request).await,
                    _ => line.single(request).await,
                }
            };
            tokio::select! {
                biased;
                () = over.cancelled() => std::future::pending().await,
                answer = answer => answer,
            }
        })
    }
}

impl Line {
    async fn single(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (head, frames) = self.net.call(&self.link, parts, body).await?;
        let frames = futures::stream::iter(frames.into_iter().map(Ok::<_, Status>));
        Ok(Response::from_parts(head, Body::new(StreamBody::new(frames))))
    }

    async fn stream(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        tokio::time::sleep(self.net.latency()).await;
        self.link.passes().await?;
        let stream = Arc::new(Stream::begin(self.clone(), self.net.plane()?));
        let (up, arriving) = mpsc::channel::<Carried>(ON_THEIR_WAY);
        let repeated = self.repeated(&parts);
        tokio::spawn(Arc::clone(&stream).carry_up(body, up, repeated));
        let sent = Request::from_parts(parts, axum::body::Body::new(StreamBody::new(ReceiverStream::new(arriving))));
        let response = stream.plane.open(sent).await.inspect_err(|_| stream.over.cancel())?;
        let (head, body) = response.into_parts();
        let (down, answers) = mpsc::channel::<Carried>(ON_THEIR_WAY);
        tokio::spawn(stream.carry_down(body, down));
        Ok(Response::from_parts(head, Body::new(StreamBody::new(ReceiverStream::new(answers)))))
    }

    /// Where the frames of a stream of reports are kept that will be sent once more by somebody on the way.
    fn repeated(&self, parts: &Parts) -> Option<Repeated> {
        let may = parts.uri.path().ends_with("Report") && !self.net.is_calm();
        (may && self.net.chance.percent(10)).then(|| Repeated { parts: parts.clone(), frames: Mutex::default() })
    }
}

/// What was sent on a stream, to be sent again.
struct Repeated {
    parts: Parts,
    frames: Mutex<Vec<u8>>,
}

/// A stream that is open.
struct Stream {
    line: Line,
    plane: Plane,
    /// The host knows that it is over.
    over: CancellationToken,
    /// What was on its way when it was cut arrives all the same, later.
    late: bool,
    /// The plane is not told that it is over.
    half_open: bool,
}

impl Stream {
    fn begin(line: Line, plane: Plane) -> Self {
        let (chance, calm) = (&line.net.chance, line.net.is_calm());
        let life = (!calm && chance.percent(30)).then(|| chance.milliseconds(0..20_000));
        let (late, half_open) = (chance.percent(50), chance.percent(40));
        let over = CancellationToken::new();
        let (watched, link) = (line.clone(), line.link.token());
        let (ended, dead) = (over.clone(), plane.machine.dead.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = dead.cancelled() => {}
                () = watched.machine.dead.cancelled() => {}
                () = link.cancelled() => {}
                () = watched.link.starves() => {}
                () = lives(life) => {}
                () = ended.cancelled() => {}
            }
            ended.cancel();
        });
        Self { line, plane, over, late, half_open }
    }

    /// Reads frames of one side, and notes when each arrives at the other: in order.
    async fn read<B>(&self, mut body: B, queue: &mpsc::UnboundedSender<(Instant, Frame<Bytes>)>) -> Result<(), Status>
    where
        B: http_body::Body<Data = Bytes> + Unpin + Send,
        B::Error: std::fmt::Display,
    {
        let mut last = Instant::now();
        loop {
            let frame = tokio::select! {
                biased;
                () = self.over.cancelled() => return Err(lost("the stream was cut")),
                frame = body.frame() => frame,
            };
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| lost(&error.to_string()))?;
            last = last.max(Instant::now() + self.line.net.latency());
            let _ = queue.send((last, frame));
        }
    }

    async fn carry_up(self: Arc<Self>, body: Body, plane: mpsc::Sender<Carried>, repeated: Option<Repeated>) {
        let (queue, mut queued) = mpsc::unbounded_channel();
        let stream = Arc::clone(&self);
        let reading = tokio::spawn(async move { stream.read(body, &queue).await });
        while let Some((at, frame)) = queued.recv().await {
            if !self.arrives(at, self.late).await {
                break;
            }
            if let (Some(repeated), Some(data)) = (&repeated, frame.data_ref()) {
                repeated.frames.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(data);
            }
            if plane.send(Ok(frame)).await.is_err() {
                break;
            }
        }
        let ended = reading.await.unwrap_or_else(|_| Err(lost("the stream was cut")));
        if let Some(repeated) = repeated {
            tokio::spawn(Arc::clone(&self).send_again(repeated));
        }
        match ended {
            Err(_) if self.half_open => {
                tokio::select! {
                    () = self.plane.machine.dead.cancelled() => {}
                    () = plane.closed() => {}
                }
            }
            Err(status) => drop(plane.send(Err(status)).await),
            Ok(()) => {}
        }
    }

    /// Waits until a frame arrives; false when it never does.
    async fn arrives(&self, at: Instant, late: bool) -> bool {
        let arrival = async {
            tokio::time::sleep_until(at).await;
            self.line.link.passes().await.is_ok()
        };
        tokio::select! {
            biased;
            () = self.plane.machine.dead.cancelled() => false,
            () = self.over.cancelled(), if !late => false,
            arrived = arrival => arrived,
        }
    }

    async fn carry_down(self: Arc<Self>, body: axum::body::Body, host: mpsc::Sender<Carried>) {
        let (queue, mut queued) = mpsc::unbounded_channel();
        let stream = Arc::clone(&self);
        let reading = tokio::spawn(async move { stream.read(body, &queue).await });
        while let Some((at, frame)) = queued.recv().await {
            if !self.arrives(at, false).await || host.send(Ok(frame)).await.is_err() {
                break;
            }
        }
        if self.over.is_cancelled() {
            reading.abort();
            let _ = host.send(Err(lost("the stream was cut"))).await;
        } else if let Ok(Err(status)) = reading.await {
            let _ = host.send(Err(status)).await;
        }
        self.over.cancel();
    }

    /// The same reports once more, to whoever is the plane then.
    async fn send_again(self: Arc<Self>, repeated: Repeated) {
        let net = &self.line.net;
        tokio::time::sleep(net.chance.milliseconds(0..30_000)).await;
        let Ok(plane) = net.plane() else { return };
        let frames = repeated.frames.into_inner().unwrap_or_else(PoisonError::into_inner);
        net.trace.note(&format!("reports of {} are sent again", self.line.machine.name));
        let Ok(response) = plane.open(Request::from_parts(repeated.parts, axum::body::Body::from(frames))).await else {
            return;
        };
        let mut body = response.into_body();
        let drained = async { while let Some(Ok(_)) = body.frame().await {} };
        let _ = tokio::time::timeout(Duration::from_secs(60), drained).await;
    }
}

async fn lives(life: Option<Duration>) {
    match life {
        Some(life) => tokio::time::sleep(life).await,
        None => std::future::pending().await,
    }
}
