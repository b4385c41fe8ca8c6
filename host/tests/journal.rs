//! The journal: what was said is written, in order, once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{str::FromStr as _, sync::Arc};

use fettle_host::{
    capabilities::report::Sink,
    executor::journal::{Accepted, AttemptState, Attempts, Finished, Journal, Recorder, Subject},
};
use fettle_model::{
    digest::Digest,
    name::StepId,
    operation::StepOutcome,
    task::{Epoch, LogLevel, LogLine, StepEvent, Task, TaskOutcome},
};
use serde_json::json;

fn task(id: &str) -> Task {
    let reference = format!("localhost:1/a@{}", Digest::of(b""));
    serde_json::from_value(json!({
        "task_id": id, "operation_id": "o", "project_id": "p", "node_id": "n", "correlation_id": "c",
        "sources": {"definition": reference, "catalog": reference, "policy": reference},
        "inputs": {}, "plan_digest": Digest::of(b"")
    }))
    .unwrap()
}

async fn journal() -> (Journal, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (Journal::open(&directory.path().join("journal.sqlite")).await.unwrap(), directory)
}

fn step() -> StepId {
    StepId::from_str("pull").unwrap()
}

fn subject(attempt: u32) -> Subject {
    let text = str::to_owned;
    Subject {
        operation_id: text("o"),
        task_id: text("t"),
        correlation_id: text("c"),
        step_id: step(),
        attempt,
        component: Digest::of(b""),
    }
}

fn started(attempt: u32) -> StepEvent {
    StepEvent::Started { step_id: step(), attempt, at: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorder_loses_no_line_however_it_ends() {
    let (journal, _directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    let mut said = 0;
    for attempt in 1..=40 {
        let recorder = Recorder::start(journal.clone(), subject(attempt));
        for _ in 0..50 {
            recorder.line(LogLine { at: 0, level: LogLevel::Info, text: said.to_string() });
            said += 1;
            tokio::task::yield_now().await;
        }
        recorder.finish().await.unwrap();
    }
    let events = journal.unreported("t", 0, 10_000).await.unwrap();
    let mut lines = Vec::new();
    for (_, event) in events {
        if let Ok(StepEvent::Log { lines: some, .. }) = serde_json::from_str(&event) {
            lines.extend(some.into_iter().map(|line| line.text.parse::<i32>().unwrap()));
        }
    }
    assert_eq!(lines, (0..said).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_share_commits_and_each_sees_its_own() {
    let (journal, _directory) = journal().await;
    let journal = Arc::new(journal);
    let writers = (0..50).map(|number| {
        let journal = Arc::clone(&journal);
        tokio::spawn(async move {
            let id = format!("t{number}");
            assert_eq!(journal.accept(&task(&id), Epoch(1)).await.unwrap(), Accepted::New);
            journal.start_attempt(&id, &step(), 1, started(1)).await.unwrap().durable().await.unwrap();
            let attempts = journal.progress(&id).await.unwrap().attempts;
            assert_eq!(attempts[&step()], Attempts { last: 1, state: AttemptState::Started, ran: false });
            assert_eq!(journal.unreported(&id, 0, 10).await.unwrap().len(), 1);
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(journal.held().await.unwrap().len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_outcome_of_a_step_stays() {
    let (journal, _directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    let finish = async |output: i32| {
        let outcome = StepOutcome::Succeeded { output: json!(output), changed: true };
        let event = StepEvent::Finished { step_id: step(), attempt: 1, result: outcome.clone(), duration_ms: 0, at: 0 };
        journal
            .finish_step("t", Finished { step_id: step(), attempt: 1, outcome, event, cassette: None })
            .await
            .unwrap()
            .durable()
            .await
            .unwrap();
    };
    finish(1).await;
    finish(2).await;
    let finished = journal.progress("t").await.unwrap().finished;
    assert_eq!(finished.get(&step()), Some(&StepOutcome::Succeeded { output: json!(1), changed: true }));
    assert_eq!(journal.unreported("t", 0, 10).await.unwrap().len(), 1, "it was reported twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_held_until_it_is_forgotten() {
    let (journal, directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    assert_eq!(journal.accept(&task("t"), Epoch(3)).await.unwrap(), Accepted::Known);
    assert_eq!(journal.accept(&task("t"), Epoch(2)).await.unwrap(), Accepted::Known);
    journal.end_task("t", &TaskOutcome::Succeeded).await.unwrap();
    drop(journal);
    let journal = Journal::open(&directory.path().join("journal.sqlite")).await.unwrap();
    let held = journal.held().await.unwrap();
    assert_eq!((held[0].epoch, held[0].outcome.clone()), (Epoch(3), Some(TaskOutcome::Succeeded)));
    journal.forget("t").await.unwrap();
    assert!(journal.held().await.unwrap().is_empty());
    assert!(journal.unreported("t", 0, 10).await.unwrap().is_empty());
}
