//! Reading server-sent events.

use futures::StreamExt as _;
use serde_json::Value;

use super::{TestPlane, within};

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// An open stream of events.
pub(crate) struct Events {
    chunks: futures::stream::BoxStream<'static, Vec<u8>>,
    text: String,
}

impl TestPlane {
    /// Opens a stream as the member, perhaps after the last event seen.
    pub(crate) async fn follow(&self, path: &str, last: Option<&str>) -> Events {
        let mut request = self.http.get(self.url(path)).bearer_auth(&self.member);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let chunks = response.bytes_stream().map(|chunk| chunk.map(|bytes| bytes.to_vec()).unwrap_or_default());
        Events { chunks: chunks.boxed(), text: String::new() }
    }
}

impl Events {
    /// The next event; none when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                if block.starts_with(':') {
                    continue;
                }
                let field = |name: &str| {
                    block.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
                };
                return Some(Sent {
                    id: field("id:"),
                    event: field("event:").unwrap_or_default(),
                    data: field("data:").map_or(Value::Null, |text| serde_json::from_str(&text).unwrap()),
                });
            }
            let chunk = within(self.chunks.next()).await?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Everything up to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(event) = self.next().await {
            sent.push(event);
        }
        sent
    }
}
