//! Measures pages of a long list: what `cargo xtask bench list` prints for each database.

use std::time::Instant;

use fettle_model::operation::OperationStatus;
use serde_json::json;

use super::fixture::{create, new_operation, node, project};
use crate::{Store, id::OperationId, node::Node, operation::Operation, page::Page};

/// Operations of the list.
pub const OPERATIONS: u64 = 1_000_000;

/// Entries of a page.
const PAGE: u32 = 100;

/// Pages that are measured, spread over the list.
const PAGES: u64 = 500;

/// The operation that the million are made of.
pub async fn template(store: &dyn Store) -> (Node, Operation) {
    let node = node(store, 1, 1).await;
    let operation = create(store, new_operation(1, &node, None)).await;
    (node, operation)
}

/// The id of the operation with this number, in the order of the list.
#[must_use]
pub fn id(number: u64) -> String {
    format!("01{number:024}")
}

/// Prints the slowest and the usual page, of all operations and of the one in a thousand that failed.
pub async fn measure(store: &dyn Store, database: &str) {
    let project = project("demo").project_id;
    for (name, status) in [("all", None), ("failed", Some(OperationStatus::Failed))] {
        let mut taken = Vec::new();
        for page in 0..PAGES {
            // From the newest to the one that has a whole page behind it.
            let number = OPERATIONS - page * (OPERATIONS - 200_000) / PAGES;
            let after: Option<OperationId> = id(number).parse().ok();
            assert!(after.is_some(), "{} is an id", id(number));
            let begin = Instant::now();
            let found = store.operations(&project, status, Page { after, size: PAGE }).await.unwrap();
            taken.push(begin.elapsed().as_secs_f64() * 1000.0);
            assert_eq!(found.len(), PAGE as usize, "a page from {number} on");
        }
        taken.sort_by(f64::total_cmp);
        let (usual, slowest) = (taken[taken.len() / 2], taken[taken.len() * 99 / 100]);
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        println!(
            "{}",
            json!({"bench": "list", "figure": format!("{database}_p99_page_of_{name}"), "value": round(slowest),
                "unit": "ms", "baseline": "the median page", "baseline_value": round(usual),
                "ratio": round(slowest / usual)})
        );
    }
}
