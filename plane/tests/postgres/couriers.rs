//! Several planes over one database deliver a webhook one at a time, and take over from one another.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fettle_plane::{Plane, PlaneConfig, RunningPlane, database::Database};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{
    plane_with,
    receiver::{Receiver, Reply},
    request,
    shelf::Shelf,
    within,
};

/// A plane on threads of its own, so that it can be stopped in the middle of everything.
struct Member {
    running: RunningPlane,
    threads: Option<Runtime>,
    _data: TempDir,
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

fn configure(config: &mut PlaneConfig) {
    let networks = config.webhooks.private.private.entry("127.0.0.1".to_owned()).or_default();
    networks.insert("127.0.0.0/8".parse().unwrap());
    config.webhooks.first_delay = Duration::from_millis(20);
    config.webhooks.claim = Duration::from_secs(5);
}

async fn start(database: &Database, shelf: &Arc<Shelf>) -> Member {
    let data = tempfile::tempdir().unwrap();
    let mut config = PlaneConfig::new(data.path());
    config.database = database.clone();
    configure(&mut config);
    let shelf: Arc<dyn fettle_plane::artifact::ArtifactSource> = Arc::<Shelf>::clone(shelf);
    let started = tokio::task::spawn_blocking(move || {
        let threads = Runtime::new().unwrap();
        let running = threads.block_on(Plane::start_with(config, shelf)).unwrap();
        (threads, running)
    });
    let (threads, running) = started.await.unwrap();
    Member { running, threads: Some(threads), _data: data }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_plane_delivers_at_a_time_and_another_goes_on_when_it_is_killed() {
    let plane = plane_with(configure).await;
    if matches!(plane.database, Database::DataDirectory) {
        return;
    }
    plane.with_definition().await;
    plane.host("node-a", 1).await;
    let mut replies = vec![Reply::Status(200); 8];
    replies.push(Reply::Hang);
    let receiver = Receiver::start(&replies).await;
    let body = json!({ "url": receiver.url });
    let (status, made) = plane.call(&plane.admin, Method::POST, "/api/v1/projects/demo/webhooks", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    plane.submitted("node-a").await;
    receiver.arrived(1).await;
    let path = format!("/api/v1/projects/demo/webhooks/{}", made["webhook_id"].as_str().unwrap());
    within(async {
        while plane.call(&plane.admin, Method::GET, &path, None).await.1["last_answer"].is_null() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // The first plane gives its claim back; the one that starts then has it for itself.
    let (http, member, database, shelf) = (plane.http, plane.member, plane.database, plane.shelf);
    plane.running.shutdown().await;
    let first = start(&database, &shelf).await;
    let submit = async |address: std::net::SocketAddr| {
        let url = format!("http://{address}/api/v1/projects/demo/operations");
        let answer = http.post(url).bearer_auth(&member).json(&request("node-a")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
    };
    submit(first.running.http_address()).await;
    receiver.arrived(2).await;
    let second = start(&database, &shelf).await;
    for number in 3..9 {
        // What the second plane accepts, the first one tells.
        submit(second.running.http_address()).await;
        receiver.arrived(number).await;
    }
    let alone = receiver.arrived(8).await;
    let ids: BTreeSet<String> = alone.iter().map(|one| one.id().to_owned()).collect();
    assert_eq!((alone.len(), ids.len()), (8, 8), "nothing was told twice while both lived");
    submit(second.running.http_address()).await;
    receiver.arrived(9).await;
    drop(first);
    let arrived = receiver.arrived(10).await;
    assert_eq!(arrived[8].id(), arrived[9].id(), "the second plane tells it again");
    submit(second.running.http_address()).await;
    receiver.arrived(11).await;
}
