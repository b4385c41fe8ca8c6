//! What stands before several planes: it gives each connection to the next plane that takes one.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// A round-robin balancer of TCP connections, on loopback. Ends with all its connections when dropped.
pub struct Balancer {
    address: SocketAddr,
    planes: Arc<Mutex<Vec<String>>>,
    accepting: AbortHandle,
}

impl Balancer {
    /// Listens; nobody stands behind it yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let planes = Arc::<Mutex<Vec<String>>>::default();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&planes))).abort_handle();
        Self { address, planes, accepting }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Who stands behind it from now on.
    pub fn stand_before(&self, planes: Vec<String>) {
        *self.planes.lock().unwrap() = planes;
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Owns the connections, so that they end with it.
async fn accept(listener: TcpListener, planes: Arc<Mutex<Vec<String>>>) {
    let mut connections = JoinSet::new();
    for turn in 0_usize.. {
        let Ok((client, _)) = listener.accept().await else { continue };
        let mut planes = planes.lock().unwrap().clone();
        let first = turn % planes.len().max(1);
        planes.rotate_left(first);
        connections.spawn(join(client, planes));
        while connections.try_join_next().is_some() {}
    }
}

/// Joins a client with the first of these planes that takes connections; hangs up on it where none does.
async fn join(mut client: TcpStream, planes: Vec<String>) {
    for address in planes {
        if let Ok(mut plane) = TcpStream::connect(&address).await {
            // Both ends send small messages and wait for the answer.
            let _ = (client.set_nodelay(true), plane.set_nodelay(true));
            // That one end is killed is what some scenarios are about.
            let _ = copy_bidirectional(&mut client, &mut plane).await;
            return;
        }
    }
}
