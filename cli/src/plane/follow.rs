//! Following an operation: server-sent events, over as many connections as it takes.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Response;
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{Event, LogLine, PlaneClient, PlaneError};

/// How long the plane may be away.
const PATIENCE: Duration = Duration::from_secs(120);
/// The first and the longest wait before another connection.
const WAITS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

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
    pub fn of_operation(client: &PlaneClient, id: &str) -> Self {
        let (sender, heard) = mpsc::channel(256);
        for channel in [Channel::Events, Channel::Logs] {
            tokio::spawn(run(client.clone(), id.to_owned(), channel, None, sender.clone()));
        }
        Self { heard }
    }

    /// Follows the logs of an operation, or of one step of it, from the beginning.
    #[must_use]
    pub fn of_logs(client: &PlaneClient, id: &str, step: Option<&str>) -> Self {
        let (sender, heard) = mpsc::channel(256);
        tokio::spawn(run(client.clone(), id.to_owned(), Channel::Logs, step.map(str::to_owned), sender));
        Self { heard }
    }

    /// What happened next; none when the operation is over and everything was heard.
    pub async fn next(&mut self) -> Option<Result<Followed, PlaneError>> {
        self.heard.recv().await
    }
}

type Sender = mpsc::Sender<Result<Followed, PlaneError>>;

async fn run(client: PlaneClient, id: String, channel: Channel, step: Option<String>, sender: Sender) {
    let follow = follow(&client, &id, channel, step.as_deref(), &sender);
    let result = tokio::select! {
        result = follow => result,
        () = sender.closed() => return,
    };
    if let Err(error) = result {
        let _ = sender.send(Err(error)).await;
    }
}

async fn follow(
    client: &PlaneClient,
    id: &str,
    channel: Channel,
    step: Option<&str>,
    sender: &Sender,
) -> Result<(), PlaneError> {
    let what = match channel {
        Channel::Events => "events",
        Channel::Logs => "logs",
    };
    let mut last = None;
    let mut away_since: Option<Instant> = None;
    let mut wait = WAITS.0;
    loop {
        match client.open(id, what, step, last.as_deref()).await {
            Ok(response) => {
                if away_since.take().is_some() {
                    let _ = sender.send(Ok(Followed::Back)).await;
                }
                let before = last.clone();
                if read(response, channel, &mut last, client, sender).await? {
                    return Ok(());
                }
                if last != before {
                    wait = WAITS.0;
                }
            }
            Err(PlaneError::Unreachable { .. }) => {}
            Err(PlaneError::Refused(problem)) if problem.status >= 500 => {}
            Err(error) => return Err(error),
        }
        let since = *away_since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            return Err(PlaneError::Lost { address: client.address(), seconds: PATIENCE.as_secs() });
        }
        let _ = sender.send(Ok(Followed::Lost)).await;
        sleep(wait).await;
        wait = (wait * 2).min(WAITS.1);
    }
}

/// Reads one connection; true when the plane says that this was all.
async fn read(
    response: Response,
    channel: Channel,
    last: &mut Option<String>,
    client: &PlaneClient,
    sender: &Sender,
) -> Result<bool, PlaneError> {
    let mut stream = SseStream::from_bytes_stream(response.bytes_stream());
    while let Some(Ok(event)) = stream.next().await {
        match event.event.as_deref() {
            Some("end") => return Ok(true),
            Some("error") => return Ok(false),
            Some(_) | None => {}
        }
        let heard =
            decode(&event, channel).map_err(|source| PlaneError::Answer { address: client.address(), source })?;
        if event.id.is_some() {
            last.clone_from(&event.id);
        }
        if let Some(heard) = heard
            && sender.send(Ok(heard)).await.is_err()
        {
            return Ok(true);
        }
    }
    Ok(false)
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
