//! Following an operation: server-sent events, over as many connections as it takes.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::Response;
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{Event, LogLine, PlaneClient, PlaneError};

/// How long a follower bears with a plane.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long the plane may be away.
    pub away: Duration,
    /// The first wait before another connection; it doubles from one to the next.
    pub first_wait: Duration,
    /// The longest wait before another connection.
    pub longest_wait: Duration,
    /// How many streams in a row may break off without anything new.
    pub broken: u32,
    /// A stream that was heard of for this long did not break off: something between here and the plane
    /// ends connections after a while, and the operation has nothing to say.
    pub lives: Duration,
}

impl Default for Patience {
    /// Two minutes for a plane that is away. 20 broken streams take about a minute and a half.
    fn default() -> Self {
        Self {
            away: Duration::from_secs(120),
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(5),
            broken: 20,
            lives: Duration::from_secs(10),
        }
    }
}

/// What a follower hears.
#[derive(Clone, Debug)]
pub enum Followed {
    /// An event of the operation.
    Event {
        /// What it says, as far as it is drawn.
        event: Box<Event>,
        /// All of it.
        whole: Box<Value>,
    },
    /// A log line of a step.
    Log(LogLine),
    /// The connection broke off; another one is tried.
    Lost,
    /// It is back; nothing was missed.
    Back,
}

/// Hears of an operation until it is over. Dropping it ends the connections.
pub struct Follower {
    heard: mpsc::Receiver<Result<Followed, PlaneError>>,
}

#[derive(Clone, Copy)]
enum Channel {
    Events,
    Logs,
}

impl Follower {
    /// Follows the events and the logs of an operation from its beginning.
    #[must_use]
    pub fn of_operation(client: &PlaneClient, id: &str, patience: Patience) -> Self {
        Self::start(client, id, &[Channel::Events, Channel::Logs], None, patience)
    }

    /// Follows the logs of an operation, or of one step of it, from the beginning.
    #[must_use]
    pub fn of_logs(client: &PlaneClient, id: &str, step: Option<&str>, patience: Patience) -> Self {
        Self::start(client, id, &[Channel::Logs], step, patience)
    }

    fn start(client: &PlaneClient, id: &str, channels: &[Channel], step: Option<&str>, patience: Patience) -> Self {
        let (sender, heard) = mpsc::channel(256);
        for channel in channels {
            let following = Following {
                client: client.clone(),
                id: id.to_owned(),
                channel: *channel,
                step: step.map(str::to_owned),
                last: None,
                sender: sender.clone(),
            };
            tokio::spawn(following.run(patience));
        }
        Self { heard }
    }

    /// What happened next; none when the operation is over and everything was heard.
    pub async fn next(&mut self) -> Option<Result<Followed, PlaneError>> {
        self.heard.recv().await
    }
}

/// One channel that is followed.
struct Following {
    client: PlaneClient,
    id: String,
    channel: Channel,
    step: Option<String>,
    /// What was heard last: the plane goes on after it.
    last: Option<String>,
    sender: mpsc::Sender<Result<Followed, PlaneError>>,
}

/// How one connection ended.
enum Ended {
    /// The plane says that this was all, or nobody listens any more.
    Over,
    /// It broke off; whether anything was heard at all.
    Broken { heard: bool },
}

impl Following {
    async fn run(mut self, patience: Patience) {
        let sender = self.sender.clone();
        let result = tokio::select! {
            result = self.follow(patience) => result,
            () = sender.closed() => return,
        };
        if let Err(error) = result {
            let _ = sender.send(Err(error)).await;
        }
    }

    async fn follow(&mut self, patience: Patience) -> Result<(), PlaneError> {
        let mut away_since: Option<Instant> = None;
        let mut wait = patience.first_wait;
        let mut broken = 0;
        loop {
            match self.client.open(&self.id, self.channel.path(), self.step.as_deref(), self.last.as_deref()).await {
                Ok(response) => {
                    if away_since.take().is_some() {
                        let _ = self.sender.send(Ok(Followed::Back)).await;
                    }
                    let (before, opened) = (self.last.clone(), Instant::now());
                    let Ended::Broken { heard } = self.read(response).await? else { return Ok(()) };
                    if self.last != before || (heard && opened.elapsed() >= patience.lives) {
                        (broken, wait) = (0, patience.first_wait);
                    } else {
                        broken += 1;
                    }
                    if broken >= patience.broken {
                        return Err(PlaneError::Broken { address: self.client.address(), times: broken });
                    }
                }
                Err(PlaneError::Unreachable { .. }) => {}
                Err(PlaneError::Refused(problem)) if problem.status >= 500 => {}
                Err(error) => return Err(error),
            }
            let since = *away_since.get_or_insert_with(Instant::now);
            if since.elapsed() > patience.away {
                let seconds = patience.away.as_secs();
                return Err(PlaneError::Lost { address: self.client.address(), seconds });
            }
            let _ = self.sender.send(Ok(Followed::Lost)).await;
            sleep(wait).await;
            wait = (wait * 2).min(patience.longest_wait);
        }
    }

    /// Reads one connection.
    async fn read(&mut self, response: Response) -> Result<Ended, PlaneError> {
        let mut any = false;
        // Signs of life are comments, which no event tells of.
        let bytes = response.bytes_stream().inspect_ok(|bytes| any |= !bytes.is_empty());
        let mut stream = SseStream::from_bytes_stream(bytes);
        while let Some(Ok(event)) = stream.next().await {
            match event.event.as_deref() {
                Some("end") => return Ok(Ended::Over),
                Some("error") => break,
                Some(_) | None => {}
            }
            let wrong = |source| PlaneError::Answer { address: self.client.address(), source };
            let heard = decode(&event, self.channel).map_err(wrong)?;
            if event.id.is_some() {
                self.last.clone_from(&event.id);
            }
            if let Some(heard) = heard
                && self.sender.send(Ok(heard)).await.is_err()
            {
                return Ok(Ended::Over);
            }
        }
        drop(stream);
        Ok(Ended::Broken { heard: any })
    }
}

impl Channel {
    const fn path(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Logs => "logs",
        }
    }
}

fn decode(event: &Sse, channel: Channel) -> Result<Option<Followed>, serde_json::Error> {
    let Some(data) = event.data.as_deref().filter(|data| !data.is_empty()) else { return Ok(None) };
    Ok(Some(match channel {
        Channel::Events => {
            let whole: Value = serde_json::from_str(data)?;
            Followed::Event { event: Box::new(serde_json::from_value(whole.clone())?), whole: Box::new(whole) }
        }
        Channel::Logs => Followed::Log(serde_json::from_str(data)?),
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{
        Router,
        response::{IntoResponse as _, Response},
        routing::get,
    };
    use tokio::net::TcpListener;

    use super::*;

    const HASTY: Patience = Patience {
        away: Duration::from_secs(20),
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(2),
        broken: 5,
        lives: Duration::from_secs(3600),
    };

    /// A plane whose streams answer, one after the other, what `answer` makes of their number.
    async fn plane(answer: fn(usize) -> String) -> PlaneClient {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let stream = move || {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::future::ready::<Response>(answer(number).into_response())
        };
        let router = Router::new().route("/api/v1/projects/p/operations/x/logs", get(stream));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        PlaneClient::new(&address, "token", "p").unwrap()
    }

    /// Lines heard, and how it ended.
    async fn heard(client: &PlaneClient) -> (usize, Result<(), PlaneError>) {
        let mut follower = Follower::of_logs(client, "x", None, HASTY);
        let mut lines = 0;
        let all = async {
            while let Some(heard) = follower.next().await {
                lines += usize::from(matches!(heard?, Followed::Log(_)));
            }
            Ok(())
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), all).await.expect("it is followed for ever");
        (lines, ended)
    }

    fn line(number: usize) -> String {
        let log = serde_json::json!({"cursor": "", "step_id": "s", "attempt": 1, "level": "info", "text": "t"});
        format!("id: {number}\ndata: {log}\n\n")
    }

    #[tokio::test]
    async fn streams_that_break_off_without_anything_new_are_given_up() {
        for nothing in [|_| String::new(), |_| ": alive\n\n".to_owned(), |_| "event: error\ndata: {}\n\n".to_owned()] {
            let (lines, ended) = heard(&plane(nothing).await).await;
            let error = ended.unwrap_err();
            assert!(matches!(error, PlaneError::Broken { times: 5, .. }), "{error}");
            assert_eq!((lines, error.exit().code()), (0, 6));
        }
        // The same line again and again is nothing new either.
        let (_, ended) = heard(&plane(|_| line(7)).await).await;
        assert!(matches!(ended, Err(PlaneError::Broken { .. })), "{ended:?}");
    }

    #[tokio::test]
    async fn streams_that_break_off_after_something_new_are_followed_to_the_end() {
        let client =
            plane(|number| if number < 30 { line(number) } else { "event: end\ndata: {}\n\n".to_owned() }).await;
        let (lines, ended) = heard(&client).await;
        assert!(ended.is_ok(), "{ended:?}");
        assert_eq!(lines, 30);
    }
}
