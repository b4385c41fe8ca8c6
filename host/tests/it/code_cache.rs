//! The cache of compiled code: what somebody who can write its files may try, with each protection and
//! without it.

use crate::common;
use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, SystemTime},
};

use fettle_host::{
    mutation::{Protection, without},
    sandbox::{COMPILATIONS, COMPONENT_LIMIT, CacheCounts, CodeCache, Limits, LoadError, Sandbox},
};
use fettle_model::digest::Digest;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tokio::sync::Mutex;
use wasmtime::{Store, component::Linker};

const LIMIT: u64 = 100 << 20;
const HEADER: usize = 100;
const SEAL: usize = 32;
const HONEST: i32 = 0x1234_5678;
const INTRUDER: i32 = 0x6543_2100;

/// Protections are taken out for the whole process: tests that do so or feel it run one by one.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A component that answers a number.
fn component(answer: i32) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module $m (func (export "answer") (result i32) i32.const {answer}))
            (core instance $i (instantiate $m))
            (func (export "answer") (result s32) (canon lift (core func $i "answer"))))"#
    );
    wat::parse_str(text).unwrap()
}

fn fresh_key() -> std::io::Result<[u8; 32]> {
    static KEYS: AtomicU8 = AtomicU8::new(1);
    Ok([KEYS.fetch_add(1, Ordering::Relaxed); 32])
}

/// A process with the cache in `directory`.
struct Process {
    sandbox: Sandbox,
    cache: CodeCache,
}

impl Process {
    fn start(directory: &Path) -> Self {
        Self::with_limit(directory, LIMIT)
    }

    fn with_limit(directory: &Path, limit: u64) -> Self {
        let cache = CodeCache::open(directory, limit, fresh_key).unwrap();
        let sandbox = Sandbox::new(1, Limits::default()).unwrap().with_code_cache(cache.clone());
        Self { sandbox, cache }
    }

    /// Runs a component and answers what it answers, when everything is written.
    async fn run(&self, component: &[u8]) -> i32 {
        let compiled = self.sandbox.compile(component.to_vec().into()).await.unwrap();
        self.cache.settled().await;
        let engine = self.sandbox.engine().engine();
        let mut store = Store::new(engine, ());
        store.set_epoch_deadline(1_000);
        let linker = Linker::new(engine);
        let instance = linker.instantiate_async(&mut store, compiled.component()).await.unwrap();
        let answer = instance.get_typed_func::<(), (i32,)>(&mut store, "answer").unwrap();
        answer.call_async(&mut store, ()).await.unwrap().0
    }

    fn counts(&self) -> CacheCounts {
        self.cache.counts()
    }
}

fn entry(directory: &Path, component: &[u8]) -> PathBuf {
    directory.join("entries").join(Digest::of(component).hex())
}

/// A cache that knows both components, and the key that an attacker can only know in this test.
struct Scene {
    directory: tempfile::TempDir,
    honest: Vec<u8>,
    intruder: Vec<u8>,
}

impl Scene {
    async fn new() -> Self {
        let scene =
            Self { directory: tempfile::tempdir().unwrap(), honest: component(HONEST), intruder: component(INTRUDER) };
        let process = Process::start(scene.directory.path());
        assert_eq!(process.run(&scene.honest).await, HONEST);
        assert_eq!(process.run(&scene.intruder).await, INTRUDER);
        assert_eq!(process.counts(), CacheCounts { misses: 2, kept: 2, ..CacheCounts::default() });
        scene
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn target(&self) -> PathBuf {
        entry(self.path(), &self.honest)
    }

    fn key(&self) -> Vec<u8> {
        fs::read(self.path().join("key")).unwrap()
    }

    /// The intruder's code, in an entry that says it is the honest component's.
    fn disguised(&self) -> Vec<u8> {
        let mut disguised = fs::read(entry(self.path(), &self.intruder)).unwrap();
        disguised[60..92].copy_from_slice(Digest::of(&self.honest).as_bytes());
        disguised
    }

    fn replace(&self, content: &[u8]) {
        fs::write(self.target(), content).unwrap();
    }
}

/// Makes the seal of an entry right under this key.
fn seal(key: &[u8], mut entry: Vec<u8>) -> Vec<u8> {
    let end = entry.len() - SEAL;
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(&entry[..end]).finalize().into_bytes();
    entry[end..].copy_from_slice(&mac);
    entry
}

/// What somebody does who can write the files of the cache.
type Attack = fn(&Scene);

/// What came of an attack: what was run, and what the cache made of it.
async fn outcome(attack: Attack) -> (i32, CacheCounts) {
    let scene = Scene::new().await;
    attack(&scene);
    let process = Process::start(scene.path());
    let answer = process.run(&scene.honest).await;
    let counts = process.counts();
    if counts.hits == 0 {
        let after = Process::start(scene.path());
        assert_eq!(after.run(&scene.honest).await, HONEST);
        assert_eq!(after.counts().hits, 1, "what replaced the refused entry is used");
    }
    (answer, counts)
}

/// With the protection the component is compiled again; without it, what the attacker wants is run.
async fn keeps_out(protection: Protection, wanted: i32, attack: Attack) {
    let _alone = ALONE.lock().await;
    let (answer, counts) = outcome(attack).await;
    assert_eq!((answer, counts.hits, counts.kept), (HONEST, 0, 1), "{protection:?}: {counts:?}");
    assert_eq!(counts.refused + counts.stale, 1, "{protection:?}: {counts:?}");
    let without = without(protection);
    let (answer, counts) = outcome(attack).await;
    assert_eq!((answer, counts.hits), (wanted, 1), "{protection:?} keeps nothing out: {counts:?}");
    drop(without);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_nothing_is_compiled_again() {
    let scene = Scene::new().await;
    let process = Process::start(scene.path());
    assert_eq!(process.run(&scene.honest).await, HONEST);
    assert_eq!(process.run(&scene.honest).await, HONEST);
    assert_eq!(process.counts(), CacheCounts { hits: 1, ..CacheCounts::default() });
    assert_eq!(process.sandbox.compiled_at_once(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_can_read_what_is_kept() {
    let scene = Scene::new().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(scene.path()), 0o700);
    assert_eq!(mode(&scene.path().join("entries")), 0o700);
    assert_eq!(mode(&scene.path().join("key")), 0o600);
    assert_eq!(mode(&scene.target()), 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_never_run() {
    let flipped = HONEST ^ 1;
    keeps_out(Protection::CodeIsAuthenticated, flipped, |scene| {
        let mut content = fs::read(scene.target()).unwrap();
        let number = content.windows(4).position(|bytes| bytes == HONEST.to_le_bytes()).unwrap();
        content[number] ^= 1;
        scene.replace(&content);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_code_under_the_header_of_a_component_is_never_run() {
    keeps_out(Protection::CodeIsAuthenticated, INTRUDER, |scene| scene.replace(&scene.disguised())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_made_with_another_key_is_never_run() {
    keeps_out(Protection::CodeIsAuthenticated, INTRUDER, |scene| {
        scene.replace(&seal(&[99; 32], scene.disguised()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entry_of_another_component_is_never_run() {
    keeps_out(Protection::CodeNamesItsComponent, INTRUDER, |scene| {
        fs::copy(entry(scene.path(), &scene.intruder), scene.target()).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_another_release_of_wasmtime_is_never_run() {
    keeps_out(Protection::CodeNamesItsEngine, INTRUDER, |scene| {
        let mut older = scene.disguised();
        let end = older[12..28].iter().position(|byte| *byte == 0).unwrap();
        older[12 + end - 1] ^= 1;
        scene.replace(&seal(&scene.key(), older));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_another_configuration_is_never_run() {
    keeps_out(Protection::CodeNamesItsEngine, INTRUDER, |scene| {
        let mut other = scene.disguised();
        other[28] ^= 1;
        scene.replace(&seal(&scene.key(), other));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_is_not_followed() {
    keeps_out(Protection::CodeFilesArePlain, HONEST, |scene| {
        let elsewhere = scene.path().join("elsewhere");
        fs::rename(scene.target(), &elsewhere).unwrap();
        symlink(elsewhere, scene.target()).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_neither_read_nor_waited_for() {
    keeps_out(Protection::CodeFilesArePlain, HONEST, |scene| {
        let content = fs::read(scene.target()).unwrap();
        let target = scene.target();
        fs::remove_file(&target).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &target, rustix::fs::Mode::from(0o600)).unwrap();
        // Waits in the kernel for a reader; where none comes, it is gone with the process.
        std::thread::spawn(move || {
            let opened = fs::OpenOptions::new().write(true).open(target);
            opened.and_then(|mut pipe| pipe.write_all(&content))
        });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_others_can_write_is_not_used() {
    keeps_out(Protection::CodeFilesAreOurs, HONEST, |scene| {
        fs::set_permissions(scene.target(), fs::Permissions::from_mode(0o606)).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_others_could_read_or_write_is_replaced() {
    keeps_out(Protection::CodeKeyIsPrivate, INTRUDER, |scene| {
        fs::set_permissions(scene.path().join("key"), fs::Permissions::from_mode(0o606)).unwrap();
        scene.replace(&seal(&scene.key(), scene.disguised()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_entry_at_all_costs_one_compilation() {
    let _alone = ALONE.lock().await;
    let attacks: [(&str, Attack); 5] = [
        ("nothing in it", |scene| scene.replace(b"")),
        ("a cut entry", |scene| {
            let content = fs::read(scene.target()).unwrap();
            scene.replace(&content[..content.len() / 2]);
        }),
        ("a cut entry under the right key", |scene| {
            let content = fs::read(scene.target()).unwrap();
            scene.replace(&seal(&scene.key(), content[..content.len() / 2].to_vec()));
        }),
        ("a sealed entry that is no machine code", |scene| {
            let mut content = fs::read(scene.target()).unwrap();
            let end = content.len() - SEAL;
            content[HEADER..end].fill(0x90);
            scene.replace(&seal(&scene.key(), content));
        }),
        ("a directory", |scene| {
            fs::remove_file(scene.target()).unwrap();
            fs::create_dir(scene.target()).unwrap();
        }),
    ];
    for (name, attack) in attacks {
        let (answer, counts) = outcome(attack).await;
        assert_eq!((answer, counts.hits, counts.refused, counts.kept), (HONEST, 0, 1, 1), "{name}: {counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_used_for_longest_makes_room() {
    let directory = tempfile::tempdir().unwrap();
    let components = [component(1), component(2), component(3)];
    let size = {
        let process = Process::start(directory.path());
        process.run(&components[0]).await;
        fs::metadata(entry(directory.path(), &components[0])).unwrap().len()
    };
    let limit = size * 2 + size / 2;
    Process::with_limit(directory.path(), limit).run(&components[1]).await;
    for (old, day) in components[..2].iter().zip(1_u64..) {
        let file = fs::File::options().write(true).open(entry(directory.path(), old)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400)).unwrap();
    }
    let process = Process::with_limit(directory.path(), limit);
    assert_eq!(process.run(&components[0]).await, 1);
    assert_eq!(process.run(&components[2]).await, 3);
    assert_eq!(process.counts(), CacheCounts { hits: 1, misses: 1, kept: 1, evicted: 1, ..CacheCounts::default() });
    let kept = components.each_ref().map(|one| entry(directory.path(), one).exists());
    assert_eq!(kept, [true, false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_larger_than_the_whole_cache_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let process = Process::with_limit(directory.path(), 1_000);
    assert_eq!(process.run(&component(1)).await, 1);
    assert_eq!(process.counts(), CacheCounts { misses: 1, ..CacheCounts::default() });
    assert_eq!(fs::read_dir(directory.path().join("entries")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_together_share_a_key_and_what_they_compile() {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let path = directory.path().to_owned();
        std::thread::spawn(move || Process::start(&path))
    };
    let processes: Vec<Process> = [(); 8].map(|()| start()).map(|thread| thread.join().unwrap()).into();
    assert_eq!(processes[0].run(&component(1)).await, 1);
    for process in &processes[1..] {
        assert_eq!(process.run(&component(1)).await, 1);
        assert_eq!(process.counts(), CacheCounts { hits: 1, ..CacheCounts::default() });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_half_written_is_removed() {
    let scene = Scene::new().await;
    let left = scene.path().join("entries/.incoming-left");
    fs::write(&left, b"half").unwrap();
    let process = Process::start(scene.path());
    assert!(!left.exists());
    assert_eq!(process.run(&scene.honest).await, HONEST);
    assert_eq!(process.counts().hits, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_the_cache_only() {
    let directory = tempfile::tempdir().unwrap();
    let disk = match common::TinyDisk::mount(directory.path(), "64k") {
        Ok(disk) => disk,
        Err(error) => return common::skip(&format!("a small file system cannot be mounted: {error}")),
    };
    let process = Process::start(directory.path());
    fs::write(directory.path().join("ballast"), vec![0; 52 << 10]).unwrap();
    assert_eq!(process.run(&component(1)).await, 1);
    assert_eq!(process.counts(), CacheCounts { misses: 1, failed: 1, ..CacheCounts::default() });
    assert_eq!(fs::read_dir(directory.path().join("entries")).unwrap().count(), 0, "nothing is left behind");
    drop(disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_a_link_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, directory.path().join("link")).unwrap();
    let Err(error) = CodeCache::open(&directory.path().join("link"), LIMIT, fresh_key) else { panic!("it was opened") };
    assert!(error.to_string().contains("a directory of this user"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_code_of_this_very_engine_is_no_component() {
    let scene = Scene::new().await;
    let process = Process::start(scene.path());
    let content = fs::read(scene.target()).unwrap();
    let code = content[HEADER..content.len() - SEAL].to_vec();
    let Err(error) = process.sandbox.compile(code.into()).await else { panic!("it was loaded") };
    assert!(error.to_string().contains("compiled machine code"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_run_is_the_buffer_that_was_hashed_whatever_becomes_of_the_file() {
    let scene = Scene::new().await;
    let directory = tempfile::tempdir().unwrap();
    let store = fettle_supply::ContentStore::open(directory.path()).unwrap();
    let digest = store.write(scene.honest.clone().into()).await.unwrap();
    let verified = store.read(digest, 1 << 20).await.unwrap().unwrap();
    fs::write(directory.path().join("blobs/sha256").join(digest.hex()), &scene.intruder).unwrap();
    assert_eq!(Process::start(scene.path()).run(&verified).await, HONEST);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Process::start(empty.path()).run(&verified).await, HONEST, "compiled from the buffer, too");
    assert_eq!(store.read(digest, 1 << 20).await.unwrap(), None, "the changed file is not used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_over_the_limit_is_refused_before_it_is_looked_at() {
    let sandbox = Sandbox::new(1, Limits::default()).unwrap();
    let Err(error) = sandbox.compile(vec![0; COMPONENT_LIMIT + 1].into()).await else { panic!("it was compiled") };
    assert!(matches!(error, LoadError::TooLarge { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_components_are_compiled_at_once() {
    let sandbox = Sandbox::new(1, Limits::default()).unwrap();
    let base = common::component("noop");
    let compilations = (0..8_u8).map(|number| {
        let sandbox = sandbox.clone();
        // A custom section makes it another component.
        let content = [&base[..], &[0, 3, 1, b'n', number]].concat();
        tokio::spawn(async move { sandbox.compile(content.into()).await.map(|_| ()) })
    });
    for compilation in compilations.collect::<Vec<_>>() {
        compilation.await.unwrap().unwrap();
    }
    assert!((1..=COMPILATIONS).contains(&sandbox.compiled_at_once()), "{}", sandbox.compiled_at_once());
}
