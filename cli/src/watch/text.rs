//! Small pieces of text.

use std::time::Duration;

use crate::output;

/// Text of others (a step, a node) on one line, without anything that could steer a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    let stripped = console::strip_ansi_codes(text);
    let line = stripped.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|character| !output::steers(*character)).collect()
}

/// A duration in at most six columns: `0.4s`, `59.9s`, `1m05s`, `3h07m`, `2d03h`.
#[must_use]
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        return format!("{seconds}.{}s", duration.subsec_millis() / 100);
    }
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if hours == 0 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else if days == 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else {
        format!("{days}d{:02}h", hours % 24)
    }
}

/// Cuts to a width in columns and fills up with spaces to exactly that width.
pub(super) fn fit(text: &str, width: usize, tail: &str) -> String {
    let tail = if console::measure_text_width(tail) > width { "" } else { tail };
    let cut = console::truncate_str(text, width, tail);
    let fill = width.saturating_sub(console::measure_text_width(&cut));
    format!("{cut}{}", " ".repeat(fill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let shown = [0, 440, 59_990, 60_000, 3_599_000, 3_600_000, 11_220_000, 183_600_000]
            .map(|milliseconds| duration(Duration::from_millis(milliseconds)));
        assert_eq!(shown, ["0.0s", "0.4s", "59.9s", "1m00s", "59m59s", "1h00m", "3h07m", "2d03h"]);
    }

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m\r\n\tb\u{7}\u{9b}2J!"), "ared b!");
        assert_eq!(clean("ok \u{202e}txt.exe"), "ok txt.exe");
    }

    #[test]
    fn fitting_gives_exactly_the_width_whatever_the_script() {
        for text in ["", "short", "a text that is much longer", "模型下载完成了一半"] {
            assert_eq!(console::measure_text_width(&fit(text, 9, "…")), 9, "{text}");
        }
    }
}
