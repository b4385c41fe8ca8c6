//! Segments of logs: lines that are not added to any more, compressed together.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Read as _,
};

use fettle_model::name::StepId;
use fettle_store::{
    StoreError,
    id::NodeId,
    log::{ClosedSegment, LogRecord, SegmentBounds},
    page::Page,
};
use sqlx_macros::FromRow;

use crate::{log::LogRow, row};

const WHAT: &str = "log segment";

/// Higher takes longer and saves little.
const LEVEL: i32 = 6;

/// Bytes of a segment at most when it is read: what is longer was not written by this program.
const LARGEST: u64 = 64 << 20;

/// What is known of a segment without reading its lines.
#[derive(Debug, FromRow)]
pub struct SegmentRow {
    /// Its first line.
    pub first_sequence: i64,
    /// Its last line.
    pub last_sequence: i64,
    places: String,
}

/// A segment that is being written.
#[derive(Debug)]
pub struct Segment {
    /// Its first line.
    pub first_sequence: i64,
    /// Its last line.
    pub last_sequence: i64,
    /// Lines in it, the marks of dropped ones included.
    pub lines: i64,
    /// Lines that were dropped.
    pub dropped: i64,
    /// How long its lines are.
    pub bytes: i64,
    /// JSON: which steps of which nodes wrote in it.
    pub places: String,
    /// How much each node has written now.
    pub totals: BTreeMap<String, i64>,
    /// Compressed.
    pub body: Vec<u8>,
}

impl Segment {
    /// What is told of it.
    ///
    /// # Errors
    /// Never, in truth.
    pub fn closed(&self) -> Result<ClosedSegment, StoreError> {
        Ok(ClosedSegment { lines: row::number(WHAT, self.lines)?, dropped: row::number(WHAT, self.dropped)? })
    }
}

/// Makes a segment of the first of these lines. `totals` says how much is kept of each node already; what is over
/// `bounds.node_bytes` is dropped, and a line says so.
///
/// # Errors
/// When it cannot be compressed.
pub fn close(
    rows: Vec<LogRow>,
    totals: &HashMap<String, i64>,
    bounds: SegmentBounds,
) -> Result<Option<Segment>, StoreError> {
    let taken = take(rows, bounds);
    let (Some(first), Some(last)) = (taken.first(), taken.last()) else { return Ok(None) };
    let (first_sequence, last_sequence) = (first.sequence, last.sequence);
    let mut totals: BTreeMap<String, i64> = totals.iter().map(|(node, bytes)| (node.clone(), *bytes)).collect();
    let mut marks: HashMap<String, (usize, i64)> = HashMap::new();
    let mut kept: Vec<LogRow> = Vec::with_capacity(taken.len());
    let mut bytes = 0;
    for row in taken {
        let total = totals.entry(row.node_id.clone()).or_default();
        if total.saturating_add(row.length()) > bounds.node_bytes {
            // The place of the first line that is missing.
            let place = kept.len();
            let mark = marks.entry(row.node_id.clone()).or_insert_with(|| (place, 0));
            mark.1 += 1;
            if mark.1 == 1 {
                kept.push(row);
            }
            continue;
        }
        *total += row.length();
        bytes += row.length();
        kept.push(row);
    }
    for (place, count) in marks.values() {
        if let Some(row) = kept.get_mut(*place) {
            row.become_mark(*count);
        }
    }
    let places: BTreeSet<(&str, &str)> = kept.iter().map(|row| (row.node_id.as_str(), row.step_id.as_str())).collect();
    Ok(Some(Segment {
        first_sequence,
        last_sequence,
        lines: i64::try_from(kept.len()).unwrap_or(i64::MAX),
        dropped: marks.values().map(|(_, count)| count).sum(),
        bytes,
        places: row::text(WHAT, &places)?,
        body: compress(&kept)?,
        totals,
    }))
}

/// As many lines as a segment may have.
fn take(rows: Vec<LogRow>, bounds: SegmentBounds) -> Vec<LogRow> {
    let mut bytes = 0_i64;
    let mut rows = rows;
    let fits = rows.iter().take(bounds.lines as usize).take_while(|row| {
        let first = bytes == 0;
        bytes = bytes.saturating_add(row.length());
        first || bytes <= bounds.bytes
    });
    let count = fits.count();
    rows.truncate(count);
    rows
}

fn compress(rows: &[LogRow]) -> Result<Vec<u8>, StoreError> {
    let text = row::text(WHAT, &rows)?;
    zstd::encode_all(text.as_bytes(), LEVEL).map_err(|error| StoreError::corrupt(WHAT, error))
}

/// The lines of a segment.
///
/// # Errors
/// When it is malformed.
pub fn read(body: &[u8]) -> Result<Vec<LogRow>, StoreError> {
    let malformed = |error| StoreError::corrupt(WHAT, error);
    let mut text = String::new();
    let decoder = zstd::Decoder::new(body).map_err(malformed)?;
    decoder.take(LARGEST).read_to_string(&mut text).map_err(malformed)?;
    row::document(WHAT, &text)
}

/// Which lines are wanted.
pub struct Wanted {
    after: i64,
    size: usize,
    node: Option<String>,
    step: Option<String>,
}

/// A page that is being filled: from segments first, then from what is in none yet.
pub struct Filling {
    wanted: Wanted,
    /// All up to here has been looked at.
    reached: i64,
    found: Vec<LogRow>,
}

impl Filling {
    /// An empty page.
    #[must_use]
    pub fn new(node: Option<NodeId>, step: Option<&StepId>, page: Page<i64>) -> Self {
        let after = page.after.unwrap_or(0);
        let wanted = Wanted {
            after,
            size: page.size as usize,
            node: node.map(|id| id.to_string()),
            step: step.map(ToString::to_string),
        };
        Self { wanted, reached: after, found: Vec::new() }
    }

    /// The last line that was looked at.
    #[must_use]
    pub const fn reached(&self) -> i64 {
        self.reached
    }

    /// Whether no more lines are needed.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.found.len() >= self.wanted.size
    }

    /// Passes a segment; answers whether its lines are needed.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn pass(&mut self, segment: &SegmentRow) -> Result<bool, StoreError> {
        self.reached = segment.last_sequence;
        let places: Vec<(String, String)> = row::document(WHAT, &segment.places)?;
        Ok(places.iter().any(|(node, step)| self.is_of(node, step)))
    }

    /// Takes what is wanted of a segment's lines.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn add(&mut self, body: &[u8]) -> Result<(), StoreError> {
        for row in read(body)? {
            if row.sequence > self.wanted.after && self.is_of(&row.node_id, &row.step_id) && !self.is_full() {
                self.found.push(row);
            }
        }
        Ok(())
    }

    fn is_of(&self, node: &str, step: &str) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| wanted == text);
        is(&self.wanted.node, node) && is(&self.wanted.step, step)
    }

    /// The page, with lines that were in no segment before segments were looked at. Those that are in one by now were
    /// found there.
    ///
    /// # Errors
    /// When a line is malformed.
    pub fn finish(mut self, rest: Vec<LogRow>) -> Result<Vec<LogRecord>, StoreError> {
        let reached = self.reached;
        self.found.extend(rest.into_iter().filter(|row| row.sequence > reached));
        self.found.truncate(self.wanted.size);
        self.found.into_iter().map(LogRow::record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: i64, text: &str) -> Vec<LogRow> {
        let row = |sequence| LogRow {
            sequence,
            node_id: if sequence % 2 == 0 { "even" } else { "odd" }.to_owned(),
            step_id: "first".to_owned(),
            attempt: 1,
            at: sequence,
            level: "info".to_owned(),
            text: text.to_owned(),
        };
        (1..=count).map(row).collect()
    }

    const BOUNDS: SegmentBounds = SegmentBounds { lines: 10, bytes: 1_000, node_bytes: 1_000_000 };

    #[test]
    fn a_segment_is_bounded_in_lines_and_bytes_and_reads_as_it_was_written() {
        let totals = HashMap::new();
        let by_lines = close(rows(30, "x"), &totals, BOUNDS).unwrap().unwrap();
        assert_eq!((by_lines.first_sequence, by_lines.last_sequence, by_lines.lines), (1, 10, 10));
        let by_bytes = close(rows(30, &"y".repeat(300)), &totals, BOUNDS).unwrap().unwrap();
        assert_eq!((by_bytes.last_sequence, by_bytes.bytes), (3, 900));
        let long = close(rows(30, &"z".repeat(5_000)), &totals, BOUNDS).unwrap().unwrap();
        assert_eq!(long.lines, 1, "one line always fits");
        assert!(close(Vec::new(), &totals, BOUNDS).unwrap().is_none());
        let read = read(&by_bytes.body).unwrap();
        assert_eq!(read.iter().map(|row| row.sequence).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(by_bytes.body.len() < 300 && read[0].text.len() == 300);
    }

    #[test]
    fn what_a_node_writes_over_its_bound_is_dropped_and_a_line_says_how_much() {
        let bounds = SegmentBounds { node_bytes: 200, ..BOUNDS };
        let totals = HashMap::from([("even".to_owned(), 150_i64)]);
        let segment = close(rows(10, &"x".repeat(50)), &totals, bounds).unwrap().unwrap();
        assert_eq!((segment.dropped, segment.totals["even"], segment.totals["odd"]), (5, 200, 200));
        let kept = read(&segment.body).unwrap();
        let told: Vec<_> = kept.iter().map(|row| (row.sequence, row.text.contains("dropped"))).collect();
        assert_eq!(told, [(1, false), (2, false), (3, false), (4, true), (5, false), (7, false), (9, true)]);
        assert!(kept[3].text.starts_with("4 lines"), "{}", kept[3].text);
    }

    #[test]
    fn a_bomb_is_no_segment() {
        let bomb = zstd::encode_all(std::io::repeat(b' ').take(LARGEST + 10), 1).unwrap();
        assert!(bomb.len() < 100_000 && read(&bomb).is_err());
    }
}
