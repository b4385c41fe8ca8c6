//! Lists in pages.

use fettle_model::violation::Violation;

use crate::api::Problem;

/// Entries of a page when nothing is said, and at most.
const DEFAULT_SIZE: u32 = 50;
const LARGEST_SIZE: u32 = 1000;

/// The asked size, or the default.
pub(super) fn size(asked: Option<u32>) -> Result<u32, Problem> {
    let size = asked.unwrap_or(DEFAULT_SIZE);
    if (1..=LARGEST_SIZE).contains(&size) {
        return Ok(size);
    }
    Err(Problem::invalid(vec![Violation::new("page_size", format!("write 1 to {LARGEST_SIZE}"))]))
}

/// Reads a cursor that an earlier page answered.
pub(super) fn cursor<T: std::str::FromStr>(asked: Option<&str>) -> Result<Option<T>, Problem> {
    asked.map(str::parse).transpose().map_err(|_| {
        let message = "is no cursor; pass `next_cursor` of the page before, or leave it out";
        Problem::invalid(vec![Violation::new("cursor", message)])
    })
}

/// The cursor of the next page; none when this page is the last.
pub(super) fn next<T>(items: &[T], size: u32, cursor: impl Fn(&T) -> String) -> Option<String> {
    let full = u32::try_from(items.len()).is_ok_and(|count| count >= size);
    items.last().filter(|_| full).map(cursor)
}
