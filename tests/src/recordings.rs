//! What a node recorded, replayed: after a scenario every attempt is run again with the recorded answers.

use std::{collections::BTreeMap, path::PathBuf, sync::LazyLock};

use fettle_host::{
    executor::journal::{Archive, Entry, Filter},
    replay::{Replayed, replay},
    sandbox::{Limits, Sandbox},
};
use fettle_model::{cassette::Cassette, digest::Digest};

use crate::{Fleet, supply};

/// What replays run in: as many slots as hosts of scenarios have, the same limits, each component compiled
/// once however many hosts recorded it.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new(4, Limits::default()).unwrap());

static COMPONENTS: LazyLock<BTreeMap<Digest, PathBuf>> = LazyLock::new(components);

/// One attempt of a scenario, and its replay.
pub struct Recording {
    /// How it is kept.
    pub entry: Entry,
    /// What was recorded.
    pub cassette: Cassette,
    /// What the replay found.
    pub replayed: Replayed,
}

impl Fleet {
    /// The journal of the host.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.host_directory().join("journal.sqlite")
    }

    /// Replays every attempt that the host has recorded, and insists that all of them do the same again.
    pub async fn replay_all(&self) -> Vec<Recording> {
        let archive = Archive::open(&self.journal()).await.unwrap();
        let kept = archive.export(&Filter::default()).await.unwrap();
        let mut recordings = Vec::new();
        for (entry, content) in kept {
            let cassette = Cassette::read(&content).unwrap_or_else(|error| panic!("{entry:?}: {error}"));
            let path = COMPONENTS.get(&cassette.header.component);
            let path = path.unwrap_or_else(|| panic!("nothing was built with {}", cassette.header.component));
            let compiled = SANDBOX.compile(std::fs::read(path).unwrap().into()).await.unwrap();
            let replayed = replay(&SANDBOX, &compiled, &cassette).await.unwrap();
            assert!(replayed.same, "{entry:?}: {replayed:#?}");
            assert_eq!(cassette.digest, entry.digest);
            recordings.push(Recording { entry, cassette, replayed });
        }
        recordings
    }

    /// The same at the end of a scenario, on a thread of its own: a value that is dropped cannot wait.
    pub(crate) fn insist_on_replay(&self) {
        if !self.journal().exists() {
            return;
        }
        let replay = || tokio::runtime::Runtime::new().unwrap().block_on(self.replay_all()).len();
        let replayed = std::thread::scope(|scope| scope.spawn(replay).join());
        let replayed = replayed.unwrap_or_else(|_| panic!("a recorded attempt of this scenario replays differently"));
        println!("{replayed} recorded attempts replayed the same");
    }
}

/// All built components, by what their bytes hash to.
fn components() -> BTreeMap<Digest, PathBuf> {
    let directory = supply::components();
    let files = std::fs::read_dir(&directory).unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "wasm"));
    files.map(|path| (Digest::of(&std::fs::read(&path).unwrap()), path)).collect()
}
