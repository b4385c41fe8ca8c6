//! A proxy before a registry that does one thing wrong.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use fettle_model::reference::Repository;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What the proxy does to answers whose path contains a text.
#[derive(Clone, Debug)]
pub enum Misbehaviour {
    /// Breaks the connection after this many bytes of the body.
    Truncate(usize),
    /// Sends this many bytes of the body, declares no length, and ends the connection properly.
    EndEarly(usize),
    /// Declares and sends only this many bytes of the body.
    Shorten(usize),
    /// Sends this many bytes of the body, then nothing, and keeps the connection.
    Stall(usize),
    /// Sends one byte at a time with this pause in milliseconds.
    Drip(u64),
    /// Changes the byte at this place of the body.
    Flip(usize),
    /// Declares no length and sends zeros without end.
    Endless,
    /// Answers with this status and text.
    Status(u16, String),
    /// Answers 307 with this place.
    Redirect(String),
    /// Ignores `Range`.
    NoRange,
    /// Answers with this media type and body.
    Answer(String, Vec<u8>),
    /// Answers 202 and names this place for an upload.
    UploadTo(String),
}

/// Listens on loopback until dropped.
#[derive(Debug)]
pub struct FaultyProxy {
    address: String,
    task: JoinHandle<()>,
    requests: Arc<AtomicUsize>,
    rule: Arc<Mutex<Option<(String, Misbehaviour)>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl FaultyProxy {
    /// Starts one before `upstream` (`host:port`). It behaves until told otherwise.
    ///
    /// # Panics
    /// When there is no port left.
    pub async fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (requests, rule) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
        let log = Arc::new(Mutex::new(Vec::new()));
        let (upstream, counter, rules, heads) =
            (upstream.to_owned(), Arc::clone(&requests), Arc::clone(&rule), Arc::clone(&log));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, counter) = (upstream.clone(), Arc::clone(&counter));
                let (rules, heads) = (Arc::clone(&rules), Arc::clone(&heads));
                tokio::spawn(async move {
                    let _ = serve(client, &upstream, &counter, &rules, &heads).await;
                });
            }
        });
        Self { address, task, requests, rule, log }
    }

    /// Misbehaves from now on with every request whose path contains `part`.
    ///
    /// # Panics
    /// When a connection's task panicked.
    pub fn misbehave(&self, part: &str, how: Misbehaviour) {
        *self.rule.lock().unwrap() = Some((part.to_owned(), how));
    }

    /// Behaves from now on.
    ///
    /// # Panics
    /// When a connection's task panicked.
    pub fn behave(&self) {
        *self.rule.lock().unwrap() = None;
    }

    /// A repository behind it.
    ///
    /// # Panics
    /// When `path` is no repository path.
    #[must_use]
    pub fn repository(&self, path: &str) -> Repository {
        format!("{}/{path}", self.address).parse().unwrap()
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many requests came so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// The heads of all requests so far.
    ///
    /// # Panics
    /// When a connection's task panicked.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Rule = Mutex<Option<(String, Misbehaviour)>>;

async fn serve(
    mut client: TcpStream,
    upstream: &str,
    requests: &AtomicUsize,
    rule: &Rule,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let head = read_head(&mut client).await?;
    requests.fetch_add(1, Ordering::SeqCst);
    log.lock().unwrap().push(head.clone());
    let path = head.split(' ').nth(1).unwrap_or_default();
    let rule = rule.lock().unwrap().clone().filter(|(part, _)| path.contains(part)).map(|(_, how)| how);
    match rule {
        None => {
            let mut server = forward(&head, upstream, |_| true).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await?;
            Ok(())
        }
        Some(how) => misbehave(&mut client, &head, upstream, how).await,
    }
}

async fn forward(head: &str, upstream: &str, keep: impl Fn(&str) -> bool) -> std::io::Result<TcpStream> {
    let mut server = TcpStream::connect(upstream).await?;
    let mut request = String::new();
    for line in head.lines().filter(|line| !line.is_empty()) {
        // One request per connection, so that each one is seen.
        if !line.to_ascii_lowercase().starts_with("connection:") && keep(&line.to_ascii_lowercase()) {
            request.push_str(line);
            request.push_str("\r\n");
        }
    }
    request.push_str("connection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    Ok(server)
}

async fn misbehave(client: &mut TcpStream, head: &str, upstream: &str, how: Misbehaviour) -> std::io::Result<()> {
    match how {
        Misbehaviour::Status(status, text) => client.write_all(&answer(status, "x-nothing: 1", text.as_bytes())).await,
        Misbehaviour::Redirect(place) => client.write_all(&answer(307, &format!("location: {place}"), b"")).await,
        Misbehaviour::UploadTo(place) => client.write_all(&answer(202, &format!("location: {place}"), b"")).await,
        Misbehaviour::Answer(media_type, body) => {
            client.write_all(&answer(200, &format!("content-type: {media_type}"), &body)).await
        }
        Misbehaviour::Endless => {
            client.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            loop {
                client.write_all(&[0; 65_536]).await?;
            }
        }
        Misbehaviour::NoRange => {
            let mut server = forward(head, upstream, |line| !line.starts_with("range:")).await?;
            tokio::io::copy_bidirectional(client, &mut server).await.map(drop)
        }
        Misbehaviour::Truncate(_)
        | Misbehaviour::EndEarly(_)
        | Misbehaviour::Shorten(_)
        | Misbehaviour::Stall(_)
        | Misbehaviour::Drip(_)
        | Misbehaviour::Flip(_) => spoil(client, forward(head, upstream, |_| true).await?, &how).await,
    }
}

fn answer(status: u16, header: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Passes on the true answer, spoiled.
async fn spoil(client: &mut TcpStream, mut server: TcpStream, how: &Misbehaviour) -> std::io::Result<()> {
    let mut head = read_head(&mut server).await?;
    let mut body = Vec::new();
    server.read_to_end(&mut body).await?;
    let with_length = |length: Option<usize>| {
        let kept = |line: &&str| !line.to_ascii_lowercase().starts_with("content-length") && !line.is_empty();
        let lines = head.lines().filter(kept).collect::<Vec<_>>().join("\r\n");
        length
            .map_or_else(|| format!("{lines}\r\n\r\n"), |length| format!("{lines}\r\ncontent-length: {length}\r\n\r\n"))
    };
    if let Misbehaviour::EndEarly(_) = how {
        head = with_length(None);
    } else if let Misbehaviour::Shorten(count) = how {
        head = with_length(Some(*count));
    } else if let Misbehaviour::Flip(place) = how {
        body[*place] ^= 1;
    }
    client.write_all(head.as_bytes()).await?;
    if let Misbehaviour::Drip(pause) = how {
        for byte in body {
            client.write_all(&[byte]).await?;
            tokio::time::sleep(std::time::Duration::from_millis(*pause)).await;
        }
        return Ok(());
    }
    if let Misbehaviour::Truncate(count)
    | Misbehaviour::EndEarly(count)
    | Misbehaviour::Shorten(count)
    | Misbehaviour::Stall(count) = how
    {
        body.truncate(*count);
    }
    client.write_all(&body).await?;
    if let Misbehaviour::Stall(_) = how {
        // Until the other side has had enough.
        let _ = client.read_u8().await;
    }
    Ok(())
}

async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
