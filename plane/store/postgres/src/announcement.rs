//! Changes as text: what one plane tells the others when it commits.

use fettle_store::change::Change;

/// The channel of PostgreSQL that carries them.
pub(crate) const CHANNEL: &str = "fettle_changes";

/// PostgreSQL refuses 8000 bytes and more.
const LONGEST: usize = 7_900;

/// A letter, and the identifier that it is about.
fn word(change: &Change) -> String {
    match change {
        Change::TaskReady(id) => format!("T{id}"),
        Change::CancelRequested(id) => format!("C{id}"),
        Change::NodeRevoked(id) => format!("R{id}"),
        Change::Lease => "L".to_owned(),
        Change::Deadline => "D".to_owned(),
        Change::Operation(id) => format!("O{id}"),
        Change::Webhooks => "W".to_owned(),
        Change::Everything => "E".to_owned(),
    }
}

/// As few texts as hold all of them.
pub(crate) fn write<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for change in changes {
        let word = word(change);
        match texts.last_mut().filter(|text| text.len() + 1 + word.len() <= LONGEST) {
            Some(text) => {
                text.push(' ');
                text.push_str(&word);
            }
            None => texts.push(word),
        }
    }
    texts
}

/// The changes of a text. What this version does not know may be anything, so it wakes everybody.
pub(crate) fn read(text: &str) -> Vec<Change> {
    text.split(' ').map(|word| change(word).unwrap_or(Change::Everything)).collect()
}

fn change(word: &str) -> Option<Change> {
    let (kind, id) = word.split_at_checked(1)?;
    match kind {
        "T" => id.parse().ok().map(Change::TaskReady),
        "C" => id.parse().ok().map(Change::CancelRequested),
        "R" => id.parse().ok().map(Change::NodeRevoked),
        "O" => id.parse().ok().map(Change::Operation),
        "L" => Some(Change::Lease),
        "D" => Some(Change::Deadline),
        "W" => Some(Change::Webhooks),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fettle_store::id::{NodeId, OperationId};
    use ulid::Ulid;

    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written_however_many() {
        let node = NodeId::new(Ulid::from_parts(1, 2));
        let mut changes = vec![
            Change::TaskReady(node),
            Change::CancelRequested(node),
            Change::NodeRevoked(node),
            Change::Lease,
            Change::Deadline,
            Change::Webhooks,
        ];
        changes.extend((0..1000).map(|number| Change::Operation(OperationId::new(Ulid::from_parts(1, number)))));
        let texts = write(changes.iter());
        assert!(texts.len() > 1 && texts.iter().all(|text| text.len() < 8000));
        assert_eq!(texts.iter().flat_map(|text| read(text)).collect::<Vec<_>>(), changes);
    }

    #[test]
    fn what_is_not_understood_wakes_everybody() {
        for text in ["", "Tnobody", "Z", "ä"] {
            assert_eq!(read(text), [Change::Everything], "{text}");
        }
    }
}
