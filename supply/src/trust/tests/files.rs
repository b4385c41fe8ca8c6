//! A policy in a file, while the file changes.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use super::{key, key_rule};
use crate::{
    kind::ArtifactKind,
    store::ContentStore,
    trust::{TrustError, TrustFiles},
};

#[test]
fn a_changed_file_counts_at_once_and_a_broken_one_trusts_nobody() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("trust.yaml");
    let policy = |name: &str| json!({ "step": { "anyOf": [key_rule(name, &key())] } }).to_string();
    fs::write(&file, policy("first")).unwrap();
    let trust = TrustFiles::new(file.clone(), None, None);
    let first = trust.current().unwrap();
    assert_eq!(trust.current().unwrap().digest(), first.digest());
    fs::write(&file, policy("other")).unwrap();
    let second = trust.current().unwrap();
    assert_ne!(first.digest(), second.digest());
    fs::write(&file, "step: {}").unwrap();
    assert!(matches!(trust.current(), Err(TrustError::Policy { .. })));
    assert!(matches!(trust.current(), Err(TrustError::Policy { .. })), "it is forgotten that it is broken");
    fs::remove_file(&file).unwrap();
    assert!(matches!(trust.current(), Err(TrustError::File { .. })));
    fs::write(&file, policy("third")).unwrap();
    trust.current().unwrap();
}

#[test]
fn a_change_that_the_times_of_a_file_do_not_show_is_seen_too() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("trust.yaml");
    let trust = TrustFiles::new(file.clone(), None, None);
    // All of one length, and faster than a file system's clock.
    for _ in 0..50 {
        let policy = json!({ "step": { "anyOf": [key_rule("team", &key())] } }).to_string();
        fs::write(&file, &policy).unwrap();
        assert_eq!(trust.current().unwrap().policy().digest(), super::TrustPolicy::read(&policy).unwrap().digest());
    }
}

#[tokio::test]
async fn the_newest_versions_are_remembered_across_openers_and_never_forgotten_silently() {
    let home = tempfile::tempdir().unwrap();
    let kind = ArtifactKind::Step;
    let version = |version: &str| vec![("render".to_owned(), version.parse().unwrap())];
    let open = || ContentStore::open(home.path()).unwrap();
    assert!(open().accept(kind, version("1.2")).await.unwrap());
    assert!(open().accept(kind, version("1.10")).await.unwrap());
    assert!(!open().accept(kind, version("1.9")).await.unwrap(), "an older one was accepted");
    assert!(open().accept(kind, version("1.10")).await.unwrap());
    assert_eq!(open().seen(kind).await.unwrap()["render"], "1.10".parse().unwrap());
    assert!(open().seen(ArtifactKind::Catalog).await.unwrap().is_empty());
    let file = home.path().join("versions.json");
    for damage in ["", "{", "[]", "{\"step\": 1}"] {
        fs::write(&file, damage).unwrap();
        let error = open().seen(kind).await.unwrap_err().to_string();
        assert!(error.contains("it is not known which versions are too old"), "{damage}: {error}");
        assert!(open().accept(kind, version("2")).await.is_err());
    }
    fs::remove_file(&file).unwrap();
    symlink("/dev/null", &file).unwrap();
    assert!(open().seen(kind).await.is_err(), "a link is not followed");
}
