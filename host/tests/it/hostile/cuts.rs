//! What is cut instead of stopped: log lines, each of their limits alone and with just that one lifted.

use std::{sync::Arc, time::Duration};

use fettle_host::{
    capabilities::report::{Caps, Report},
    clock::Clock,
    sandbox::Limits,
};
use serde_json::json;

use super::{
    attacks::{Attack, Field},
    common::Heard,
};

/// Nothing is cut.
const NONE: Caps = Caps { line: usize::MAX, total: usize::MAX, lines_per_second: u32::MAX };

/// The lines of the step itself, and whether the log says that others were dropped.
struct Logged {
    lines: Vec<String>,
    dropped: bool,
}

impl Logged {
    fn bytes(&self) -> usize {
        self.lines.iter().map(String::len).sum()
    }
}

/// What is kept of what an attack logs within one second.
async fn logged(attack: &Attack, caps: Caps) -> Logged {
    let field = Field::new(Limits::default()).await;
    let heard = Arc::new(Heard::default());
    let report = Report::with_caps(Arc::<Heard>::clone(&heard), Clock::from_fn(|| 1_000), caps);
    field.hostile.run(field.reporting(Duration::from_secs(60), report), &attack.input.to_string()).await.unwrap();
    let all: Vec<String> = heard.lines.lock().unwrap().iter().map(|line| line.text.clone()).collect();
    let is_notice = |text: &String| text.ends_with("is dropped") || text.ends_with("were dropped");
    let (notices, lines): (Vec<_>, Vec<_>) = all.into_iter().partition(is_notice);
    assert!([0, 2].contains(&notices.len()), "what is dropped is said at once, and its number at the end: {notices:?}");
    Logged { lines, dropped: !notices.is_empty() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_cut_and_whole_without_its_limit() {
    let attack = Attack::of("a long line", json!({"attack": "argument", "count": 1}));
    let line = Caps::default().line;
    let cut = logged(&attack, Caps { line, ..NONE }).await;
    assert_eq!(cut.lines, [format!("{}…", "x".repeat(line))]);
    assert_eq!(logged(&attack, NONE).await.lines, ["x".repeat(1 << 20)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_ends_at_its_size_and_goes_on_without_that_limit() {
    let attack = Attack::of("a long log", json!({"attack": "log", "count": 25_000}));
    let total = Caps::default().total;
    let cut = logged(&attack, Caps { total, ..NONE }).await;
    let line = cut.lines[0].len();
    assert!(cut.dropped && (total - line..=total).contains(&cut.bytes()), "{} bytes", cut.bytes());
    let whole = logged(&attack, NONE).await;
    assert!(!whole.dropped && whole.lines.len() == 25_000, "{} lines", whole.lines.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_holds_so_many_lines_and_more_without_that_limit() {
    let attack = Attack::of("a fast log", json!({"attack": "log", "count": 1_000}));
    let lines_per_second = Caps::default().lines_per_second;
    let cut = logged(&attack, Caps { lines_per_second, ..NONE }).await;
    assert!(cut.dropped && cut.lines.len() == lines_per_second as usize, "{} lines", cut.lines.len());
    let whole = logged(&attack, NONE).await;
    assert!(!whole.dropped && whole.lines.len() == 1_000, "{} lines", whole.lines.len());
}
