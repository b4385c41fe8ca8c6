//! The one place where results are written, so that `--json` stays JSON.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

/// How results are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Output {
    /// As JSON.
    pub json: bool,
}

impl Output {
    /// Shows one result: as JSON, or as the text that `text` makes of it.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn show<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        if self.json {
            write(&(json_text(&serde_json::to_string_pretty(value)?) + "\n"))
        } else {
            write(&harmless(&text(value)))
        }
    }

    /// Shows one of many results that come one after another: one JSON value per line, or a text line.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn line<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        write(&(if self.json { json_text(&serde_json::to_string(value)?) } else { harmless(&text(value)) } + "\n"))
    }
}

/// Whether a character could steer a terminal, or make a line read as another one: control characters
/// of both sets (C0, C1), and those that turn the direction of text.
pub(crate) fn steers(character: char) -> bool {
    let turns =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns
}

/// Lines without what could steer a terminal.
fn harmless(text: &str) -> String {
    text.chars().filter(|character| *character == '\n' || !steers(*character)).collect()
}

/// The same JSON with what could steer a terminal written as `\uXXXX`. Outside of strings JSON has no
/// such character but line ends.
pub(crate) fn json_text(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && steers(character) {
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        } else {
            text.push(character);
        }
    }
    text
}

/// Writes to standard output. `BrokenPipe` says that the reader has seen enough (`| head`).
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

/// Where the work goes on without a reader: one that has seen enough is no error.
pub(crate) fn even_if_unread(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Whether nobody reads standard output any more.
pub(crate) fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    // Errors are told whatever is asked for; a full pipe is none.
    poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && asked[0].revents().contains(PollFlags::ERR)
}

/// Writes a remark to standard error; losing one is no reason to fail.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", harmless(text));
}

/// Aligns cells in columns, two spaces between them; the last column is not padded.
#[must_use]
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading = heading.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    let all = || std::iter::once(&heading).chain(rows);
    let width = |column: usize| {
        all().filter_map(|row| row.get(column)).map(|cell| console::measure_text_width(cell)).max().unwrap_or(0)
    };
    let widths = (0..heading.len()).map(width).collect::<Vec<_>>();
    let mut text = String::new();
    for row in all() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width.saturating_sub(console::measure_text_width(cell)) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Columns of a line.
pub const WIDTH: usize = 80;

/// Words in lines of at most [`WIDTH`] columns: the first begins with `first`, the others are indented as far.
#[must_use]
pub fn wrap(first: &str, words: &str) -> String {
    let indent = console::measure_text_width(first);
    let mut text = String::new();
    let mut line = first.to_owned();
    let mut used = indent;
    for word in words.split_whitespace() {
        let width = console::measure_text_width(word);
        if used > indent && used + 1 + width > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(indent);
            used = indent;
        }
        if used > indent {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += width;
    }
    text.push_str(line.trim_end());
    text.push('\n');
    text
}

/// Bytes as people read them.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_steers_a_terminal() {
        let hostile = "a\u{9b}2J\u{1b}[31m\u{7f}\u{202e}txt.exe\u{2066}\u{61c}\r";
        assert_eq!(harmless(&format!("{hostile}\nb")), "a2J[31mtxt.exe\nb");
        let value = serde_json::json!({ "key\u{85}": hostile });
        let shown = json_text(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.chars().any(|character| character != '\n' && steers(character)), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn columns_align_and_lines_do_not_end_in_spaces() {
        let rows = vec![vec!["a".to_owned(), String::new()], vec!["longer".to_owned(), "x".to_owned()]];
        assert_eq!(table(&["ID", "NAME"], &rows), "ID      NAME\na\nlonger  x\n");
    }

    #[test]
    fn words_are_wrapped_below_their_beginning() {
        let text = wrap("  why  ", &"word ".repeat(40));
        assert!(
            text.starts_with("  why  word word") && text.lines().skip(1).all(|line| line.starts_with("       word"))
        );
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(text.matches("word").count(), 40);
        let long = "x".repeat(100);
        assert_eq!(wrap("a ", &long), format!("a {long}\n"), "a word is never broken: it may be a digest");
    }

    #[test]
    fn bytes_are_short() {
        for (count, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (98_304, "96.0 KiB"), (5 << 40, "5.0 TiB")]
        {
            assert_eq!(bytes(count), text);
        }
    }
}
