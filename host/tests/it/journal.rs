//! The journal: what was said is written, in order, once.

use std::{str::FromStr as _, sync::Arc};

use fettle_host::{
    capabilities::report::Sink,
    executor::journal::{
        Accepted, Archive, AttemptState, Attempts, Bounds, Filter, Finished, Journal, Kept, Recorder, Subject,
    },
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

fn kept(number: u32, failed: bool, size: usize) -> Kept {
    let content = vec![u8::try_from(number).unwrap(); size];
    Kept {
        operation_id: "o".to_owned(),
        step_id: step(),
        attempt: number,
        kind: "noop@v1".parse().unwrap(),
        recorded_at: 0,
        outcome: if failed { "failed" } else { "succeeded" },
        failed,
        digest: Digest::of(&content),
        content,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cassettes_are_kept_up_to_a_bound_failures_longest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let attempts = async |bounds: Bounds, added: &[(u32, bool)]| {
        let journal = Journal::open_bounded(&path, bounds).await.unwrap();
        for (number, failed) in added {
            journal.keep("t", kept(*number, *failed, 100)).await.unwrap();
        }
        drop(journal);
        let kept = Archive::open(&path).await.unwrap().list(&Filter::default()).await.unwrap();
        kept.iter().map(|entry| entry.attempt).collect::<Vec<_>>()
    };
    let few = Bounds { count: 3, bytes: 1_000_000 };
    assert_eq!(attempts(few, &[(1, true), (2, false), (3, false), (4, false)]).await, [1, 3, 4]);
    // What was there before the start counts.
    assert_eq!(attempts(few, &[(5, true), (6, true)]).await, [1, 5, 6]);
    assert_eq!(attempts(few, &[(7, true)]).await, [5, 6, 7]);
    let small = Bounds { count: 100, bytes: 250 };
    assert_eq!(attempts(small, &[(8, true)]).await, [7, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cassette_outlives_its_task_and_is_found_by_what_it_is_of() {
    let (journal, directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    let outcome = StepOutcome::Succeeded { output: json!(1), changed: true };
    let event = StepEvent::Finished { step_id: step(), attempt: 1, result: outcome.clone(), duration_ms: 0, at: 0 };
    let finished = Finished { step_id: step(), attempt: 1, outcome, event, cassette: Some(kept(1, false, 10)) };
    journal.finish_step("t", finished).await.unwrap().durable().await.unwrap();
    journal.forget("t").await.unwrap();
    let archive = Archive::open(&directory.path().join("journal.sqlite")).await.unwrap();
    let filter = Filter { step_id: Some("pull".to_owned()), attempt: Some(1), ..Filter::default() };
    let [(entry, content)] = &archive.export(&filter).await.unwrap()[..] else { panic!("it is gone") };
    assert_eq!((entry.digest, content.len()), (Digest::of(content), 10));
    let other = Filter { task_id: Some("other".to_owned()), ..Filter::default() };
    assert!(archive.list(&other).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_undone_is_known_after_a_restart() {
    let (journal, directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    let other = StepId::from_str("other").unwrap();
    journal.begin_undo("t", &step()).await.unwrap();
    journal.finish_undo("t", &step(), None).await.unwrap();
    journal.begin_undo("t", &other).await.unwrap();
    drop(journal);
    let journal = Journal::open(&directory.path().join("journal.sqlite")).await.unwrap();
    assert_eq!(journal.progress("t").await.unwrap().undone, [step()].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_got_to_run_is_known_whatever_came_after() {
    let (journal, _directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    journal.start_attempt("t", &step(), 1, started(1)).await.unwrap().durable().await.unwrap();
    assert!(!journal.progress("t").await.unwrap().attempts[&step()].ran);
    journal.run_attempt("t", &step(), 1).await.unwrap().durable().await.unwrap();
    let retrying = StepEvent::Progress { step_id: step(), percent: 1, message: None };
    journal.fail_attempt("t", &step(), 1, retrying, None).await.unwrap();
    journal.start_attempt("t", &step(), 2, started(2)).await.unwrap().durable().await.unwrap();
    let attempts = journal.progress("t").await.unwrap().attempts;
    assert_eq!(attempts[&step()], Attempts { last: 2, state: AttemptState::Started, ran: true });
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_task_that_is_forgotten_do_not_spoil_those_of_others() {
    let (journal, _directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    let gone = journal.start_attempt("gone", &step(), 1, started(1)).await.unwrap();
    let here = journal.start_attempt("t", &step(), 1, started(1)).await.unwrap();
    gone.durable().await.unwrap();
    here.durable().await.unwrap();
    assert_eq!(journal.unreported("t", 0, 10).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_starts_runs_and_ends_between_two_writes_is_known_as_it_ended() {
    let (journal, _directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    let retrying = || StepEvent::Progress { step_id: step(), percent: 1, message: None };
    // Nobody waits for these, so they are written together.
    let _ = journal.start_attempt("t", &step(), 1, started(1)).await.unwrap();
    let _ = journal.run_attempt("t", &step(), 1).await.unwrap();
    journal.fail_attempt("t", &step(), 1, retrying(), None).await.unwrap();
    let attempts = journal.progress("t").await.unwrap().attempts;
    assert_eq!(attempts[&step()], Attempts { last: 1, state: AttemptState::Failed, ran: true });
    assert_eq!(journal.unreported("t", 0, 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_is_written_all_the_same() {
    let (journal, _directory) = journal().await;
    journal.accept(&task("t"), Epoch(1)).await.unwrap();
    let mut changes = journal.changes();
    let pending = journal.start_attempt("t", &step(), 1, started(1)).await.unwrap();
    // The change of the lease may be told only now.
    while journal.unreported("t", 0, 10).await.unwrap().is_empty() {
        changes.changed().await.unwrap();
    }
    pending.durable().await.unwrap();
}

/// Every earlier version of the file, with something in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_an_earlier_version_is_taken_over_whole() {
    static ALL: sqlx::migrate::Migrator = sqlx_macros::migrate!("./migrations");
    for version in 1..ALL.migrations.len() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.sqlite");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        let mut earlier = sqlx::migrate::Migrator::DEFAULT;
        earlier.migrations = ALL.migrations[..version].to_vec().into();
        earlier.run(&pool).await.unwrap();
        let rows = [
            "INSERT INTO attempts (task_id, step_id, attempt, state) VALUES ('t', 'a', 2, 'started')".to_owned(),
            "INSERT INTO outcomes (task_id, step_id, outcome) VALUES ('t', 'b', '{\"outcome\":\"canceled\"}')"
                .to_owned(),
            format!(
                "INSERT INTO events (task_id, sequence, event) VALUES ('t', 7, '{}')",
                serde_json::to_string(&started(2)).unwrap()
            ),
        ];
        let text = serde_json::to_string(&task("t")).unwrap();
        let task = sqlx::query("INSERT INTO tasks (task_id, task, epoch, next_sequence) VALUES ('t', $1, 3, 8)");
        task.bind(text).execute(&pool).await.unwrap();
        for row in rows {
            sqlx::query(sqlx::AssertSqlSafe(row)).execute(&pool).await.unwrap();
        }
        pool.close().await;
        let journal = Journal::open(&path).await.unwrap();
        assert_eq!(journal.held().await.unwrap()[0].epoch, Epoch(3), "from version {version}");
        assert_eq!(journal.unreported("t", 0, 10).await.unwrap()[0].0, 7, "from version {version}");
        let progress = journal.progress("t").await;
        let attempts = progress.unwrap().attempts;
        let expected = Attempts { last: 2, state: AttemptState::Started, ran: false };
        assert_eq!(attempts[&StepId::from_str("a").unwrap()], expected, "from version {version}");
    }
}
