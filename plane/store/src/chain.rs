//! The chain of the audit trail: each row names the one before it by digest, so that a row that was removed,
//! changed, added or moved shows.
//!
//! Whoever can write the database can write the whole chain anew; only a head that was noted elsewhere tells
//! that, and that the end was cut off ([`Chain::with_head`]).

use fettle_model::{
    canonical::{self, NotCanonical},
    digest::Digest,
};
use serde::Serialize;
use serde_json::Value;

use crate::audit::AuditRecord;

/// What a row is linked with: the digest of the canonical JSON of this.
#[derive(Serialize)]
struct Linked<'a> {
    previous: Option<Digest>,
    /// Milliseconds since the Unix epoch.
    at: i64,
    actor: &'a str,
    scope: &'a str,
    action: &'a str,
    resource_name: &'a str,
    result: &'a str,
    correlation_id: &'a str,
    details: Option<&'a Value>,
}

/// The link of a row that follows one whose link is `previous`; none is the first row of all. The row's own
/// number and link have no part in it.
///
/// # Errors
/// When the details hold an integer that canonical JSON cannot.
pub fn link(previous: Option<Digest>, row: &AuditRecord) -> Result<Digest, NotCanonical> {
    canonical::digest(&Linked {
        previous,
        at: row.at.as_millisecond(),
        actor: &row.actor,
        scope: &row.scope,
        action: &row.action,
        resource_name: &row.resource_name,
        result: &row.result,
        correlation_id: &row.correlation_id,
        details: row.details.as_ref(),
    })
}

/// Where the trail is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A row's link is not that of its content and of the row before it.
    #[error(
        "audit row {0} does not follow the row before it: it was changed, or rows before it were removed, added or moved"
    )]
    Link(i64),
    /// A row without a link after one that has one.
    #[error("audit row {0} has no link, and rows before it have one: it was not written by a plane")]
    Unlinked(i64),
    /// The head that was noted is not in the trail.
    #[error("no audit row has the link {0}: the trail was cut off before it, or written anew")]
    Head(Digest),
}

/// Follows a trail from its first row.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    head: Option<Digest>,
    expected: Option<Digest>,
    linked: u64,
    unlinked: u64,
}

impl Chain {
    /// Expects that a row has this link: what was the head when it was noted.
    #[must_use]
    pub fn with_head(head: Option<Digest>) -> Self {
        Self { expected: head, ..Self::default() }
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// When it does not follow.
    pub fn follow(&mut self, row: &AuditRecord) -> Result<(), Broken> {
        let Some(found) = row.link else {
            if self.linked > 0 {
                return Err(Broken::Unlinked(row.sequence));
            }
            self.unlinked += 1;
            return Ok(());
        };
        // Details that have no canonical form were never written.
        if link(self.head, row).ok() != Some(found) {
            return Err(Broken::Link(row.sequence));
        }
        self.head = Some(found);
        self.linked += 1;
        if self.expected == self.head {
            self.expected = None;
        }
        Ok(())
    }

    /// Ends the trail. Answers its head, none when no row has a link.
    ///
    /// # Errors
    /// When a head that was expected was not met.
    pub fn end(&self) -> Result<Option<Digest>, Broken> {
        self.expected.map_or(Ok(self.head), |missing| Err(Broken::Head(missing)))
    }

    /// How many rows have a link, and how many do not: those that a version without the chain has written.
    #[must_use]
    pub const fn rows(&self) -> (u64, u64) {
        (self.linked, self.unlinked)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// A trail of so many rows, the first of them without links.
    fn trail(unlinked: i64, linked: i64) -> Vec<AuditRecord> {
        let mut head = None;
        (1..=unlinked + linked)
            .map(|sequence| {
                let mut row = AuditRecord {
                    sequence,
                    at: Timestamp::from_second(sequence).unwrap(),
                    actor: "user:a".to_owned(),
                    scope: "platform".to_owned(),
                    action: "token.create".to_owned(),
                    resource_name: format!("tokens/{sequence}"),
                    result: "ok".to_owned(),
                    correlation_id: "c".to_owned(),
                    details: (sequence % 2 == 0).then(|| serde_json::json!({"z": sequence, "a": "b"})),
                    link: None,
                };
                if sequence > unlinked {
                    head = Some(link(head, &row).unwrap());
                    row.link = head;
                }
                row
            })
            .collect()
    }

    fn judge(rows: &[AuditRecord], expected: Option<Digest>) -> Result<Option<Digest>, Broken> {
        let mut chain = Chain::with_head(expected);
        rows.iter().try_for_each(|row| chain.follow(row))?;
        chain.end()
    }

    #[test]
    fn a_whole_trail_ends_in_its_head_also_behind_rows_of_before() {
        for (unlinked, linked) in [(0, 0), (0, 1), (0, 5), (3, 4), (2, 0)] {
            let rows = trail(unlinked, linked);
            let head = rows.last().and_then(|row| row.link);
            assert_eq!(judge(&rows, head), Ok(head), "{unlinked} and {linked}");
        }
        let rows = trail(0, 5);
        assert!(judge(&rows, rows[2].link).is_ok(), "a trail grows after its head was noted");
    }

    #[test]
    fn whatever_is_done_to_a_row_shows() {
        let attack = |change: fn(&mut Vec<AuditRecord>)| {
            let mut rows = trail(0, 5);
            change(&mut rows);
            judge(&rows, None)
        };
        assert_eq!(attack(|rows| drop(rows.remove(2))), Err(Broken::Link(4)));
        assert_eq!(attack(|rows| drop(rows.remove(0))), Err(Broken::Link(2)));
        assert_eq!(attack(|rows| rows.swap(1, 2)), Err(Broken::Link(3)));
        assert_eq!(attack(|rows| rows[3].actor = "user:b".to_owned()), Err(Broken::Link(4)));
        assert_eq!(attack(|rows| rows[1].details = None), Err(Broken::Link(2)));
        assert_eq!(attack(|rows| rows[2].at = Timestamp::from_second(9).unwrap()), Err(Broken::Link(3)));
        assert_eq!(attack(|rows| rows.insert(1, rows[0].clone())), Err(Broken::Link(1)));
        assert_eq!(attack(|rows| rows[4].link = None), Err(Broken::Unlinked(5)));
    }

    #[test]
    fn a_trail_that_was_cut_off_lacks_the_head_that_was_noted() {
        let mut rows = trail(0, 5);
        let head = rows.pop().unwrap().link.unwrap();
        assert!(judge(&rows, None).is_ok(), "nothing in a trail tells what came after it");
        assert_eq!(judge(&rows, Some(head)), Err(Broken::Head(head)));
    }
}
