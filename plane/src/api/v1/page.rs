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

/// A page of what there is as a whole: what comes after `after`, by its name, and the name after which the next
/// page begins.
pub(super) fn of<T, K: Ord>(
    items: impl IntoIterator<Item = T>,
    after: Option<&K>,
    size: u32,
    name: impl Fn(&T) -> K,
) -> (Vec<T>, Option<K>) {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut found: Vec<_> = items.into_iter().map(|item| (name(&item), item)).collect();
    found.retain(|(name, _)| after.is_none_or(|after| name > after));
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let has_more = found.len() > size;
    found.truncate(size);
    let mut last = None;
    let mut items = Vec::with_capacity(found.len());
    for (name, item) in found {
        last = Some(name);
        items.push(item);
    }
    (items, last.filter(|_| has_more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_in_order_and_the_last_has_no_next() {
        let names = ["c", "a", "e", "b", "d"];
        let page = |after: Option<&&'static str>| of(names, after, 2, |name| *name);
        assert_eq!(page(None), (vec!["a", "b"], Some("b")));
        assert_eq!(page(Some(&"b")), (vec!["c", "d"], Some("d")));
        assert_eq!(page(Some(&"d")), (vec!["e"], None));
        assert_eq!(page(Some(&"e")), (vec![], None));
    }
}
