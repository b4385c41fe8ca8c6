//! Texts that keep a limit.

const MARK: &str = "…";

/// `text`, cut at a character so that it holds at most `limit` bytes; a cut is marked.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let mut end = limit.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}
