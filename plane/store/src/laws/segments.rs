//! Laws of log segments: lines are found as before, wherever they are.

use fettle_model::task::TaskOutcome;
use serde_json::json;

use super::fixture::{all, key, logged, report, running, step, succeeded, when};
use crate::{
    Store,
    id::OperationId,
    log::{LogRecord, SegmentBounds},
    page::Page,
};

const BOUNDS: SegmentBounds = SegmentBounds { lines: 4, bytes: 1_000, node_bytes: 1_000_000 };

/// Eleven lines of two steps, in turn.
async fn written(store: &dyn Store) -> (OperationId, crate::task::LeaseKey) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    for number in 1..=11_u64 {
        let name = if number % 3 == 0 { "second" } else { "first" };
        report(store, lease, number, logged(name, &[&format!("line {number}")])).await;
    }
    (operation.id, lease)
}

async fn paged(store: &dyn Store, operation: OperationId, name: Option<&str>, size: u32) -> Vec<LogRecord> {
    let name = name.map(step);
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = store.logs(operation, None, name.as_ref(), Page { after, size }).await.unwrap();
        assert!(page.len() <= size as usize);
        let Some(last) = page.last() else { return found };
        after = Some(last.sequence);
        found.extend(page);
    }
}

/// Whatever is in segments, in how many, and how large a page is: the same lines with the same cursors.
pub async fn segments_change_no_line_and_no_cursor(store: &dyn Store) {
    let (operation, _) = written(store).await;
    let before = paged(store, operation, None, 1000).await;
    let of_second = paged(store, operation, Some("second"), 1000).await;
    assert_eq!((before.len(), of_second.len()), (11, 3));
    for closed in [4, 4, 3] {
        let segment = store.close_log_segment(operation, BOUNDS).await.unwrap().unwrap();
        assert_eq!((segment.lines, segment.dropped), (closed, 0));
        for size in [1, 2, 3, 4, 5, 1000] {
            assert_eq!(paged(store, operation, None, size).await, before, "pages of {size}");
            assert_eq!(paged(store, operation, Some("second"), size).await, of_second, "pages of {size}");
        }
    }
    assert_eq!(store.close_log_segment(operation, BOUNDS).await.unwrap(), None);
    let node = before[0].node_id;
    assert_eq!(store.logs(operation, Some(node), None, all()).await.unwrap(), before);
}

/// A follower that reads on while segments are closed misses nothing and sees nothing twice.
pub async fn a_follower_reads_on_across_a_segment_that_closes(store: &dyn Store) {
    let (operation, lease) = written(store).await;
    let (mut after, mut seen) = (None, Vec::new());
    for round in 0..20 {
        let page = store.logs(operation, None, None, Page { after, size: 2 }).await.unwrap();
        after = page.last().map(|last| last.sequence).or(after);
        seen.extend(page.into_iter().map(|record| record.line.text));
        if round % 2 == 0 {
            store.close_log_segment(operation, BOUNDS).await.unwrap();
        }
        if round < 3 {
            report(store, lease, 12 + round, logged("first", &[&format!("line {}", 12 + round)])).await;
        }
    }
    assert_eq!(seen, (1..=14).map(|number| format!("line {number}")).collect::<Vec<_>>());
}

/// A segment ends before it holds more bytes than it may.
pub async fn a_segment_is_bounded_in_bytes(store: &dyn Store) {
    let (operation, _) = written(store).await;
    let bounds = SegmentBounds { bytes: 13, ..BOUNDS };
    assert_eq!(store.close_log_segment(operation, bounds).await.unwrap().unwrap().lines, 2);
    assert_eq!(paged(store, operation, None, 3).await.len(), 11);
}

/// A node that writes more than it may loses the rest, visibly; what was kept stays.
pub async fn lines_over_the_bound_of_a_node_are_dropped_with_a_mark(store: &dyn Store) {
    let (operation, _) = written(store).await;
    let bounds = SegmentBounds { node_bytes: 30, ..BOUNDS };
    let mut dropped = 0;
    while let Some(segment) = store.close_log_segment(operation, bounds).await.unwrap() {
        dropped += segment.dropped;
    }
    assert_eq!(dropped, 6);
    let texts: Vec<String> = paged(store, operation, None, 2).await.into_iter().map(|one| one.line.text).collect();
    assert_eq!(texts[..5], ["line 1", "line 2", "line 3", "line 4", "line 5"]);
    assert!(texts[5].starts_with("3 lines were dropped here") && texts[6].starts_with("3 lines were"), "{texts:?}");
    assert_eq!(texts.len(), 7);
}

/// What is worth closing: a whole segment, or the rest of what is over.
pub async fn segments_are_closed_when_they_are_whole_or_the_operation_is_over(store: &dyn Store) {
    let (operation, lease) = written(store).await;
    let due = |lines| store.logs_to_close(SegmentBounds { lines, ..BOUNDS }, 10);
    assert_eq!(due(11).await.unwrap(), [operation]);
    assert!(due(12).await.unwrap().is_empty());
    report(store, lease, 20, succeeded("first", json!({}))).await;
    report(store, lease, 21, succeeded("second", json!({}))).await;
    store.finish_task(lease, TaskOutcome::Succeeded, when(30)).await.unwrap();
    assert_eq!(due(12).await.unwrap(), [operation]);
}
