//! A connection to a plane, over TLS that somebody else has set up.

use std::{io, sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, pki_types::ServerName},
};
use tonic::transport::{Channel, Endpoint, Error, Uri};
use tower::service_fn;

/// How long a connection may take, TLS and all.
const PATIENCE: Duration = Duration::from_secs(5);

/// A channel to a plane at `host:port`, which must show a certificate for `name`. Connects when first used, and again
/// when the connection breaks.
///
/// # Errors
/// When `authority` is not `host:port`.
pub fn lazy(authority: &str, name: ServerName<'static>, config: Arc<ClientConfig>) -> Result<Channel, Error> {
    // What tonic would do with TLS the connector does; so it is told of none.
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))?;
    let (connector, authority) = (TlsConnector::from(config), authority.to_owned());
    let connect = service_fn(move |_: Uri| {
        let (connector, authority, name) = (connector.clone(), authority.clone(), name.clone());
        async move { open(&connector, &authority, name).await.map(TokioIo::new) }
    });
    let endpoint = endpoint
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true);
    Ok(endpoint.connect_with_connector_lazy(connect))
}

async fn open(
    connector: &TlsConnector,
    authority: &str,
    name: ServerName<'static>,
) -> io::Result<TlsStream<TcpStream>> {
    let open = async {
        let stream = TcpStream::connect(authority).await?;
        // Small messages in both directions: waiting to fill a packet only adds delay.
        stream.set_nodelay(true)?;
        connector.connect(name, stream).await
    };
    let slow = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, open).await.unwrap_or_else(|_| Err(slow()))
}
