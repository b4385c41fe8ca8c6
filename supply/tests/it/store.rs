//! What the content store promises when it is written, read, shared, crashed into and full.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use fettle_model::digest::Digest;
use fettle_supply::{ContentStore, StoreError};

const LIMIT: u64 = 1 << 20;

fn blob(directory: &Path, digest: &Digest) -> std::path::PathBuf {
    directory.join("blobs/sha256").join(digest.hex())
}

#[tokio::test]
async fn what_is_written_is_read_under_its_digest_also_by_a_second_opener() {
    let home = tempfile::tempdir().unwrap();
    let store = ContentStore::open(home.path()).unwrap();
    let digest = store.write("content".into()).await.unwrap();
    assert_eq!(digest, Digest::of(b"content"));
    store.write("content".into()).await.unwrap();
    for store in [store, ContentStore::open(home.path()).unwrap()] {
        assert_eq!(store.read(digest, LIMIT).await.unwrap().unwrap(), "content");
        assert_eq!(store.read(digest, 3).await.unwrap(), None, "more was read than was allowed");
        assert_eq!(store.read(Digest::of(b"other"), LIMIT).await.unwrap(), None);
    }
}

#[tokio::test]
async fn what_is_kept_is_listed_the_newest_first() {
    let home = tempfile::tempdir().unwrap();
    let store = ContentStore::open(home.path()).unwrap();
    assert_eq!(store.newest(9).await.unwrap(), []);
    let mut digests = Vec::new();
    for (age, content) in ["new", "middle", "old"].into_iter().enumerate() {
        let digest = store.write(content.into()).await.unwrap();
        let file = fs::File::options().write(true).open(blob(home.path(), &digest)).unwrap();
        let written = std::time::SystemTime::now() - std::time::Duration::from_secs(60 * age as u64);
        file.set_modified(written).unwrap();
        digests.push(digest);
    }
    fs::write(home.path().join("blobs/sha256/.half-written"), "x").unwrap();
    assert_eq!(store.newest(9).await.unwrap(), digests);
    assert_eq!(store.newest(2).await.unwrap(), digests[..2]);
}

#[tokio::test]
async fn nobody_else_can_enter() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("store");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let store = ContentStore::open(&directory).unwrap();
    let digest = store.write("content".into()).await.unwrap();
    for path in ["blobs", "signatures/sha256"] {
        fs::set_permissions(directory.join(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    ContentStore::open(&directory).unwrap();
    for path in ["", "blobs", "blobs/sha256", "signatures", "signatures/sha256"] {
        let mode = fs::metadata(directory.join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{path}");
    }
    assert_eq!(fs::metadata(blob(&directory, &digest)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn what_is_not_the_stores_own_is_removed_and_missed() {
    let home = tempfile::tempdir().unwrap();
    let store = ContentStore::open(home.path()).unwrap();
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "content").unwrap();
    let digest = Digest::of(b"content");
    let path = blob(home.path(), &digest);
    let plants: [(&str, &dyn Fn()); 4] = [
        ("changed", &|| fs::write(&path, "kontent").unwrap()),
        ("truncated", &|| fs::write(&path, "conten").unwrap()),
        ("link to the right content", &|| symlink(&elsewhere, &path).unwrap()),
        ("directory", &|| fs::create_dir(&path).unwrap()),
    ];
    for (name, plant) in plants {
        plant();
        assert_eq!(store.read(digest, LIMIT).await.unwrap(), None, "{name}");
        assert!(fs::symlink_metadata(&path).is_err(), "{name} stayed");
        store.write("content".into()).await.unwrap();
        assert_eq!(store.read(digest, LIMIT).await.unwrap().unwrap(), "content", "{name}");
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read(&elsewhere).unwrap(), b"content");
}

#[tokio::test]
async fn whoever_only_looks_is_given_what_is_whole_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let digest = Digest::of(b"content");
    assert_eq!(ContentStore::peek(home.path(), digest, LIMIT).await.unwrap(), None);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "a store was made");
    let store = ContentStore::open(home.path()).unwrap();
    store.write("content".into()).await.unwrap();
    let left = home.path().join("blobs/sha256/.incoming-left");
    fs::write(&left, "half").unwrap();
    assert_eq!(ContentStore::peek(home.path(), digest, LIMIT).await.unwrap().unwrap(), "content");
    assert_eq!(ContentStore::peek(home.path(), digest, 3).await.unwrap(), None, "more was read than was allowed");
    let path = blob(home.path(), &digest);
    fs::write(&path, "kontent").unwrap();
    assert_eq!(ContentStore::peek(home.path(), digest, LIMIT).await.unwrap(), None, "changed bytes were believed");
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "content").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(ContentStore::peek(home.path(), digest, LIMIT).await.unwrap(), None, "a link was followed");
    assert!(left.exists() && fs::symlink_metadata(&path).is_ok(), "something was removed");
}

#[test]
fn a_part_that_is_a_link_is_refused() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("elsewhere")).unwrap();
    symlink(home.path().join("elsewhere"), home.path().join("blobs")).unwrap();
    let error = ContentStore::open(home.path()).unwrap_err();
    assert!(matches!(&error, StoreError::NotADirectory { path } if path.ends_with("blobs")), "{error}");
}

#[tokio::test]
async fn what_a_crash_left_goes_and_what_another_writes_stays() {
    let home = tempfile::tempdir().unwrap();
    drop(ContentStore::open(home.path()).unwrap());
    let blobs = home.path().join("blobs/sha256");
    let (left, held) = (blobs.join(".incoming-left"), blobs.join(".incoming-held"));
    fs::write(&left, "half").unwrap();
    let writer = fs::File::create(&held).unwrap();
    writer.lock().unwrap();
    let kept = ContentStore::open(home.path()).unwrap().write("content".into()).await.unwrap();
    ContentStore::open(home.path()).unwrap();
    assert!(!left.exists(), "a leftover stayed");
    assert!(held.exists(), "a file that is being written was removed");
    assert!(blob(home.path(), &kept).exists());
    drop(writer);
    ContentStore::open(home.path()).unwrap();
    assert!(!held.exists());
}

struct Mount<'a>(&'a Path);

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_its_own_error_and_names_the_directory() {
    let home = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(home.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        assert!(
            std::env::var_os("FETTLE_TEST_ALL").is_none(),
            "a small file system cannot be mounted here: run as root"
        );
        eprintln!("SKIPPED: a small file system cannot be mounted here (not root)");
        return;
    }
    let _mount = Mount(home.path());
    let store = ContentStore::open(home.path()).unwrap();
    let error = store.write(vec![0; 1 << 20].into()).await.unwrap_err();
    let StoreError::NoSpace { directory } = &error else { panic!("{error}") };
    assert!(directory.starts_with(home.path()), "{error}");
    assert!(error.to_string().contains("is full; free some space"), "{error}");
    assert_eq!(fs::read_dir(home.path().join("blobs/sha256")).unwrap().count(), 0, "something was left behind");
    let small = store.write("small".into()).await.unwrap();
    assert_eq!(store.read(small, LIMIT).await.unwrap().unwrap(), "small");
}
