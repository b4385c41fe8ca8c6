//! A real entry, changed at every byte.

use std::{fs, os::unix::fs::OpenOptionsExt as _};

use super::*;

#[tokio::test]
async fn a_real_entry_with_any_byte_changed_is_refused_removed_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let cache = CodeCache::open(directory.path(), 1 << 20, || Ok([7; 32])).unwrap();
    let engine = TickingEngine::new(1).unwrap();
    let bytes = wat::parse_str("(component)").unwrap();
    let digest = Digest::of(&bytes);
    cache.keep(&engine, digest, engine.precompile(&bytes).unwrap());
    cache.settled().await;
    let path = cache.0.path(digest);
    let content = fs::read(&path).unwrap();
    assert!(cache.load(&engine, digest).is_some());
    for place in 0..content.len() {
        let mut changed = content.clone();
        changed[place] ^= 1 << (place % 8);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(!path.exists()).truncate(true).mode(0o600);
        options.open(&path).unwrap().write_all(&changed).unwrap();
        assert!(cache.load(&engine, digest).is_none(), "byte {place} of {}", content.len());
        assert!(!path.exists());
    }
    assert_eq!((cache.counts().hits, cache.counts().refused), (1, content.len() as u64));
}

#[test]
fn whoever_opens_the_cache_takes_no_file_from_whoever_writes_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            (0..500).try_for_each(|_| {
                file::temporary(place)?.persist(place.join("entry")).map(drop).map_err(|error| error.error)
            })
        });
        while !writer.is_finished() {
            file::remove_leftovers(place).unwrap();
        }
        writer.join().unwrap().unwrap();
    });
    assert_eq!(fs::read_dir(place).unwrap().count(), 1);
}
