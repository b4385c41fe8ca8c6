//! What a program prints, as much of it as is kept.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How long output is still read after the program has ended: a grandchild may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(500);

/// What stands in place of a secret.
const HIDDEN: u8 = b'*';

/// Fewer bytes are no secret, and stand everywhere.
const SHORTEST: usize = 4;

/// Output of a program, as much as is kept.
#[derive(Debug, Default)]
pub struct Captured {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// Whether there were more.
    pub truncated: bool,
}

impl Captured {
    /// Overwrites a secret wherever the program printed it: what is kept goes to the step and into logs. Of one that is
    /// cut off at the end, what is left.
    pub(super) fn hide(&mut self, secret: &str) {
        let secret = secret.as_bytes();
        if secret.len() < SHORTEST {
            return;
        }
        let mut from = 0;
        while let Some(window) = self.bytes.get_mut(from..) {
            let whole = window.windows(secret.len()).position(|here| here == secret);
            let Some(place) = whole else { break };
            window.iter_mut().skip(place).take(secret.len()).for_each(|byte| *byte = HIDDEN);
            from += place + secret.len();
        }
        let longest = secret.len().min(self.bytes.len());
        let cut = (SHORTEST..longest)
            .rev()
            .find(|length| secret.get(..*length).is_some_and(|head| self.bytes.ends_with(head)));
        if let (true, Some(length)) = (self.truncated, cut) {
            self.bytes.iter_mut().rev().take(length).for_each(|byte| *byte = HIDDEN);
        }
    }

    /// As text; bytes that are not UTF-8 are replaced. What was cut ends with a line that says so.
    #[must_use]
    pub fn text(&self) -> String {
        if !self.truncated || self.bytes.is_empty() {
            return String::from_utf8_lossy(&self.bytes).into_owned();
        }
        // The cut may be in the middle of a character, which then is no error of the program.
        let whole = match std::str::from_utf8(&self.bytes) {
            Err(error) if error.error_len().is_none() => self.bytes.get(..error.valid_up_to()).unwrap_or_default(),
            _ => &self.bytes,
        };
        let mut text = String::from_utf8_lossy(whole).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[cut: the first {} bytes were kept]\n", self.bytes.len()));
        text
    }
}

/// Reads to the end, and keeps `limit` bytes.
pub(super) async fn capture(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Captured {
    let Some(mut pipe) = pipe else { return Captured::default() };
    let mut captured = Captured::default();
    let mut buffer = vec![0; 16 << 10];
    // What is over the limit is read and dropped: a program that prints for ever must not block on it.
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let room = limit.saturating_sub(captured.bytes.len()).min(count);
        captured.bytes.extend(buffer.iter().take(room));
        captured.truncated |= room < count;
    }
    captured
}

/// What was captured, once the program has ended.
pub(super) async fn drained(mut task: tokio::task::JoinHandle<Captured>) -> Captured {
    match tokio::time::timeout(DRAIN, &mut task).await {
        Ok(Ok(captured)) => captured,
        Ok(Err(_)) => Captured { bytes: Vec::new(), truncated: true },
        Err(_) => {
            task.abort();
            Captured { bytes: Vec::new(), truncated: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Captured;

    #[test]
    fn a_secret_that_is_printed_is_not_kept() {
        for (printed, truncated, kept) in [
            ("token=s3cret!\n", false, "token=*******\n"),
            ("s3cret!s3cret! s3cret", false, "************** s3cret"),
            ("s3cret!s3cre", true, "************"),
            ("a s3c", true, "a s3c"),
            ("", true, ""),
            ("nothing", true, "nothing"),
        ] {
            let mut captured = Captured { bytes: printed.as_bytes().to_vec(), truncated };
            captured.hide("s3cret!");
            assert_eq!(String::from_utf8(captured.bytes).unwrap(), kept, "{printed}");
        }
        let mut captured = Captured { bytes: b"abcabc".to_vec(), truncated: false };
        captured.hide("abc");
        captured.hide("");
        assert_eq!(captured.bytes, b"abcabc");
    }

    #[test]
    fn what_was_cut_says_so_and_ends_with_a_whole_character() {
        let text = |bytes: &[u8], truncated| Captured { bytes: bytes.to_vec(), truncated }.text();
        assert_eq!(text("aä".as_bytes(), false), "aä");
        assert_eq!(text(b"a\xff", false), "a\u{fffd}");
        assert_eq!(text(b"a\xc3", true), "a\n[cut: the first 2 bytes were kept]\n");
        assert_eq!(text(b"a\n", true), "a\n[cut: the first 2 bytes were kept]\n");
        assert_eq!(text(b"", true), "", "nothing was to be kept");
    }
}
