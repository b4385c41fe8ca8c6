//! A connection at the door: bounded in number and in time until its other end has shown who it is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tls_listener::AsyncAccept;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tokio_util::sync::PollSemaphore;

/// Connections at once whose other end has shown no certificate: handshakes, and hosts that join.
const STRANGERS: usize = 2_000;

/// How long each of them may last.
const LASTS: Duration = Duration::from_secs(30);

/// How long the listener rests when it cannot take a connection: out of file descriptors, most likely.
const RESTS: Duration = Duration::from_secs(1);

/// Takes connections, no more strangers at once than there is room for.
pub(super) struct Entrance {
    listener: TcpListener,
    room: PollSemaphore,
    permit: Option<OwnedSemaphorePermit>,
    rest: Option<Pin<Box<Sleep>>>,
}

impl Entrance {
    pub(super) fn new(listener: TcpListener) -> Self {
        let room = PollSemaphore::new(std::sync::Arc::new(Semaphore::new(STRANGERS)));
        Self { listener, room, permit: None, rest: None }
    }

    pub(super) fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncAccept for Entrance {
    type Connection = Held;
    type Address = std::net::SocketAddr;
    type Error = io::Error;

    fn poll_accept(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Held, Self::Address), io::Error>> {
        loop {
            // Handshakes that are under way go on meanwhile, and their time runs.
            if let Some(rest) = &mut self.rest {
                std::task::ready!(rest.as_mut().poll(context));
                self.rest = None;
            }
            if self.permit.is_none() {
                self.permit = std::task::ready!(self.room.poll_acquire(context));
            }
            match std::task::ready!(self.listener.poll_accept(context)) {
                Ok((stream, address)) => {
                    // Small messages in both directions: waiting to fill a packet only adds delay.
                    let _ = stream.set_nodelay(true);
                    let stranger =
                        self.permit.take().map(|permit| Stranger { _permit: permit, until: Box::pin(sleep(LASTS)) });
                    return Poll::Ready(Ok((Held { stream, stranger }, address)));
                }
                Err(error) => {
                    tracing::error!(%error, "a connection could not be taken");
                    self.rest = Some(Box::pin(sleep(RESTS)));
                }
            }
        }
    }
}

struct Stranger {
    _permit: OwnedSemaphorePermit,
    until: Pin<Box<Sleep>>,
}

/// A connection.
pub(crate) struct Held {
    stream: TcpStream,
    stranger: Option<Stranger>,
}

impl Held {
    /// The other end has shown who it is.
    pub(super) fn is_known(&mut self) {
        self.stranger = None;
    }

    /// An error once its time is over.
    fn lasts(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(stranger) = &mut self.stranger else { return Ok(()) };
        match stranger.until.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "nobody has shown a certificate in time")),
        }
    }
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.lasts(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Held {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.lasts(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.lasts(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
