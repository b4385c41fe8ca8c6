//! The one place where results are written, so that `--json` stays JSON.

use std::io::{self, Write};

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
            let mut json = serde_json::to_string_pretty(value)?;
            json.push('\n');
            write(&json)
        } else {
            write(&text(value))
        }
    }

    /// Shows one of many results that come one after another: one JSON value per line, or a text line.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn line<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> io::Result<()> {
        let mut line = if self.json { serde_json::to_string(value)? } else { text(value) };
        line.push('\n');
        write(&line)
    }
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a remark to standard error; losing one is no reason to fail.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
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
