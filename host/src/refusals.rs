//! What this node did not do for its plane, and why: one line of JSON for each, chained by hashes, in a file that only
//! the host's user can write. No message of a plane changes or removes anything in it.
//!
//! Bounded: at most 60 lines a minute, the next one saying how many were left out, and two files of 64 MiB.
//! Whoever can write the file can also write a new chain; each line's hash is in the host's own log, which belongs on
//! another machine.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use fettle_model::{canonical, digest::Digest, task::Task};
use fettle_wire::node::Envelope;
use serde::{Deserialize, Serialize};

use crate::clock::Milliseconds;

/// Lines in a minute at most: a plane that was taken over cannot push what it did first out of the files in a day.
const A_MINUTE: u32 = 60;

/// Bytes of a file at most; then it becomes the older one of two.
const LARGEST: u64 = 64 << 20;

/// Bytes of each text at most.
const LONGEST: usize = 1024;

/// The names of the newer and of the older file.
const NAMES: [&str; 2] = ["refusals.jsonl", "refusals.1.jsonl"];

/// One refusal, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// 1 for the first of this node.
    pub number: u64,
    /// When, by the node's clock (RFC 3339).
    pub at: String,
    /// Why, for programs.
    pub code: String,
    /// Why, for people.
    pub reason: String,
    /// What it was about.
    #[serde(flatten)]
    pub about: About,
    /// Others in the same minute that are not written down.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The hash of the one before; of nothing for the first.
    pub previous: Digest,
    /// Of all the above: SHA-256 over the record without this field, as canonical JSON (RFC 8785).
    pub hash: Digest,
}

/// What a refusal is about. What a plane says of itself is kept as it said it, cut to a bounded length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The operation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// The project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// The plan that the plane asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<Digest>,
    /// What the plane had signed, or not: the payload's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Digest>,
}

/// Something that is not done.
pub struct Refusal<'a> {
    /// Why, for programs.
    pub code: &'a str,
    /// Why, for people.
    pub reason: &'a str,
    /// What it is about.
    pub about: About,
}

/// Why refusals cannot be read or written down.
#[derive(Debug, thiserror::Error)]
pub enum RefusalsError {
    /// A file cannot be used.
    #[error("the record of refusals {} cannot be used; check its permissions", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A line is not what a host writes.
    #[error(
        "the record of refusals {} was changed: line {line} is none of a host; move the file away, and find out who changed it",
        path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// 1 for the first.
        line: usize,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
}

/// Where refusals are written down; cheap to clone.
#[derive(Clone)]
pub struct Refusals(Arc<Mutex<Book>>);

struct Book {
    directory: PathBuf,
    file: File,
    size: u64,
    number: u64,
    head: Digest,
    minute: Milliseconds,
    written: u32,
    left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The beginning of a text that somebody else wrote.
fn cut(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(LONGEST).collect()
}

impl About {
    /// A lease that was not opened.
    #[must_use]
    pub fn lease(task_id: &str, envelope: Option<&Envelope>) -> Self {
        let payload = envelope.map(|envelope| Digest::of(&envelope.payload));
        Self { task_id: Some(cut(task_id)), payload, ..Self::default() }
    }

    /// A task.
    #[must_use]
    pub fn task(task: &Task) -> Self {
        Self {
            task_id: Some(cut(&task.task_id)),
            operation_id: Some(cut(&task.operation_id)),
            project_id: Some(cut(&task.project_id)),
            definition: Some(cut(&task.sources.definition.to_string())),
            plan_digest: Some(task.plan_digest),
            payload: None,
        }
    }
}

impl Record {
    /// What its hash should be.
    fn expected_hash(&self) -> Digest {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("hash");
        }
        Digest::of(&canonical::to_bytes(&value).unwrap_or_default())
    }

    /// Whether it is as it was written, and follows on that one.
    fn follows(&self, before: Option<&Self>) -> bool {
        let place = match before {
            Some(before) => (before.number + 1, before.hash),
            // The first that is kept: older ones may have gone with their file.
            None if self.number == 1 => (1, Digest::of(b"")),
            None => (self.number, self.previous),
        };
        (self.number, self.previous) == place && self.hash == self.expected_hash()
    }
}

/// The number of the first record that was changed, or that something is missing before.
#[must_use]
pub fn first_broken(records: &[Record]) -> Option<u64> {
    let before = std::iter::once(None).chain(records.iter().map(Some));
    records.iter().zip(before).find(|(record, before)| !record.follows(*before)).map(|(record, _)| record.number)
}

/// What is written down in a host's data directory, oldest first. The host may run meanwhile.
///
/// # Errors
/// When a file cannot be read, or a line is none.
pub fn read(directory: &Path) -> Result<Vec<Record>, RefusalsError> {
    let mut all = Vec::new();
    for name in NAMES.iter().rev() {
        let path = directory.join(name);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(RefusalsError::File { path, source }),
        };
        for (index, line) in whole(&text).lines().enumerate() {
            let record = serde_json::from_str(line);
            all.push(record.map_err(|source| RefusalsError::Damaged {
                path: path.clone(),
                line: index + 1,
                source,
            })?);
        }
    }
    Ok(all)
}

/// All lines that have an end: the last one may be on its way, or the machine stopped while it was written.
fn whole(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

impl Refusals {
    /// Goes on with what is in this directory.
    ///
    /// # Errors
    /// When the files cannot be used, or were changed.
    pub fn open(directory: &Path) -> Result<Self, RefusalsError> {
        let last = read(directory)?.pop();
        let path = directory.join(NAMES[0]);
        let open = || -> io::Result<(File, u64)> {
            let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
            // What a stop in the middle of a line left.
            let size = whole(&std::fs::read_to_string(&path)?).len() as u64;
            file.set_len(size)?;
            Ok((file, size))
        };
        let (file, size) = open().map_err(|source| RefusalsError::File { path: path.clone(), source })?;
        let (number, head) = last.map_or((0, Digest::of(b"")), |record| (record.number, record.hash));
        let directory = directory.to_owned();
        let book = Book { directory, file, size, number, head, minute: 0, written: 0, left_out: 0 };
        Ok(Self(Arc::new(Mutex::new(book))))
    }

    /// Writes a refusal down, and says it in the host's log. It is on the disk when this returns; a disk that fails is
    /// told of in the log, because there is nowhere else.
    pub fn note(&self, refusal: &Refusal<'_>, now: Milliseconds) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match book.note(refusal, now) {
            Ok(hash) => {
                let hash = hash.map(|hash| hash.to_string()).unwrap_or_default();
                let task_id = refusal.about.task_id.as_deref().unwrap_or_default();
                tracing::error!(
                    number = book.number,
                    code = refusal.code,
                    reason = refusal.reason,
                    task_id,
                    hash,
                    "refused"
                );
            }
            Err(error) => {
                let (code, reason) = (refusal.code, refusal.reason);
                tracing::error!(%error, code, reason, "refused, and it cannot be written down; check the disk");
            }
        }
    }
}

impl Book {
    fn note(&mut self, refusal: &Refusal<'_>, now: Milliseconds) -> io::Result<Option<Digest>> {
        let minute = now / 60_000;
        if minute != self.minute {
            (self.minute, self.written) = (minute, 0);
        }
        if self.written >= A_MINUTE {
            self.left_out += 1;
            return Ok(None);
        }
        let at = jiff::Timestamp::from_millisecond(now).unwrap_or_default().to_string();
        let mut record = Record {
            number: self.number + 1,
            at,
            code: cut(refusal.code),
            reason: cut(refusal.reason),
            about: refusal.about.clone(),
            left_out: self.left_out,
            previous: self.head,
            hash: self.head,
        };
        record.hash = record.expected_hash();
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        self.make_room()?;
        if let Err(error) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // Nothing of it stays, so that the next one follows on the one before.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += line.len() as u64;
        (self.number, self.head) = (record.number, record.hash);
        self.written += 1;
        self.left_out = 0;
        Ok(Some(record.hash))
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.size < LARGEST {
            return Ok(());
        }
        let [newer, older] = NAMES.map(|name| self.directory.join(name));
        std::fs::rename(&newer, older)?;
        self.file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(newer)?;
        self.size = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(refusals: &Refusals, code: &str, at: Milliseconds) {
        let about = About { task_id: Some("t".to_owned()), ..About::default() };
        refusals.note(&Refusal { code, reason: "because\nof it", about }, at);
    }

    fn codes(directory: &Path) -> Vec<String> {
        read(directory).unwrap().into_iter().map(|record| record.code).collect()
    }

    #[test]
    fn refusals_are_chained_across_restarts_and_a_line_that_was_cut_off_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        note(&Refusals::open(directory.path()).unwrap(), "a", 0);
        let path = directory.path().join(NAMES[0]);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"number\": 2, \"at").unwrap();
        assert_eq!(codes(directory.path()), ["a"], "a reader takes whole lines only");
        note(&Refusals::open(directory.path()).unwrap(), "b", 1);
        let records = read(directory.path()).unwrap();
        assert_eq!(records.iter().map(|record| record.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(records[1].previous, records[0].hash);
        assert_eq!(records[0].reason, "becauseof it");
        assert_eq!(first_broken(&records), None);
    }

    #[test]
    fn whatever_is_done_to_a_record_shows() {
        let directory = tempfile::tempdir().unwrap();
        let refusals = Refusals::open(directory.path()).unwrap();
        for code in ["a", "b", "c", "d"] {
            note(&refusals, code, 0);
        }
        let whole = read(directory.path()).unwrap();
        assert_eq!(first_broken(&whole), None);
        type Change = fn(&mut Vec<Record>);
        let changes: [(Change, u64); 6] = [
            (|records| records[1].reason.push('!'), 2),
            (|records| records[1].about.task_id = None, 2),
            (|records| drop(records.remove(1)), 3),
            (|records| records.swap(1, 2), 3),
            (|records| records[0].previous = Digest::of(b"other"), 1),
            (
                |records| {
                    records[2].left_out = 7;
                    records[2].hash = records[2].expected_hash();
                },
                4,
            ),
        ];
        for (change, broken) in changes {
            let mut records = whole.clone();
            change(&mut records);
            assert_eq!(first_broken(&records), Some(broken));
        }
    }

    #[test]
    fn a_flood_is_counted_and_not_written_down() {
        let directory = tempfile::tempdir().unwrap();
        let refusals = Refusals::open(directory.path()).unwrap();
        for _ in 0..A_MINUTE + 500 {
            note(&refusals, "flood", 1_000);
        }
        note(&refusals, "later", 61_000);
        let records = read(directory.path()).unwrap();
        assert_eq!(records.len(), A_MINUTE as usize + 1);
        assert_eq!(records.last().map(|record| (record.code.as_str(), record.left_out)), Some(("later", 500)));
        assert_eq!(first_broken(&records), None);
    }

    #[test]
    fn the_older_file_goes_and_the_chain_stays() {
        let directory = tempfile::tempdir().unwrap();
        let refusals = Refusals::open(directory.path()).unwrap();
        for code in ["a", "b", "c"] {
            note(&refusals, code, 0);
            refusals.0.lock().unwrap().size = LARGEST;
        }
        assert_eq!(codes(directory.path()), ["b", "c"]);
        drop(refusals);
        let refusals = Refusals::open(directory.path()).unwrap();
        note(&refusals, "d", 0);
        let records = read(directory.path()).unwrap();
        assert_eq!(records.iter().map(|record| record.number).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(first_broken(&records), None);
    }

    #[test]
    fn a_line_that_no_host_wrote_keeps_the_host_from_starting_and_is_named() {
        let directory = tempfile::tempdir().unwrap();
        note(&Refusals::open(directory.path()).unwrap(), "a", 0);
        let path = directory.path().join(NAMES[0]);
        std::fs::write(&path, format!("{}nonsense\n", std::fs::read_to_string(&path).unwrap())).unwrap();
        let error = Refusals::open(directory.path()).err().unwrap().to_string();
        assert!(error.contains("line 2") && error.contains("refusals.jsonl"), "{error}");
    }
}
