//! Pages of docs/reference that tests of this crate write.

use std::path::Path;

/// Compares a page with what it should be, or writes it when `UPDATE_DOCS` is set.
pub(crate) fn holds(name: &str, page: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == page, "docs/reference/{name} is old; run `UPDATE_DOCS=1 cargo test -p fettle-plane --lib {test}`");
}
