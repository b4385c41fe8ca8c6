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
    let write = |name: &str| {
        let mut file = file::temporary(place)?;
        file.write_all(&[7; 4096])?;
        file.as_file().sync_all()?;
        file.persist(place.join(name)).map(drop).map_err(|error| error.error)
    };
    std::thread::scope(|scope| {
        let writers = ["one", "two", "three"].map(|name| scope.spawn(move || (0..60).try_for_each(|_| write(name))));
        while writers.iter().any(|writer| !writer.is_finished()) {
            file::remove_leftovers(place).unwrap();
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
    });
    assert_eq!(fs::read_dir(place).unwrap().count(), 3, "something was left behind");
}
