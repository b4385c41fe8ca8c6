//! What a bulk transfer promises: the right bytes, resumed where possible, or an error that says why.

use std::{fs::File, io::Read, path::PathBuf};

use crate::support::World;
use fettle_model::digest::Digest;
use fettle_supply::{BlobDownload, DownloadError, Downloaded, Manifest, Outage, testing::Misbehaviour};

/// Several batches, and no multiple of anything.
const SIZE: usize = (5 << 20) + 12_345;

type Expected = fn(&DownloadError) -> bool;

struct Big {
    world: World,
    content: Vec<u8>,
    digest: Digest,
    path: PathBuf,
}

impl Big {
    async fn new() -> Self {
        let world = World::new().await;
        let content: Vec<u8> =
            (0..SIZE).map(|index| (index.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        let source = world.home.path().join("source");
        std::fs::write(&source, &content).unwrap();
        let files = [("first".to_owned(), source.clone()), ("second".to_owned(), source)];
        let reference = world.client.push_files(&world.direct(), &files).await.unwrap();
        let raw = world.client.fetch_manifest(&reference, 1 << 20).await.unwrap();
        let manifest = Manifest::parse(&raw.content).unwrap();
        let titles: Vec<_> = manifest.layers.iter().map(|layer| layer.title.as_deref().unwrap()).collect();
        assert_eq!(titles, ["first", "second"]);
        let (digest, size) = (manifest.layers[0].digest, manifest.layers[0].size);
        assert_eq!((digest, size), (Digest::of(&content), SIZE as u64));
        let path = world.home.path().join("destination");
        Self { world, content, digest, path }
    }

    fn destination(&self) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(&self.path).unwrap()
    }

    async fn fetch(&self, resume_from: u64) -> Result<Downloaded, DownloadError> {
        let (repository, size) = (self.world.repository(), SIZE as u64);
        let destination = self.destination();
        let download = BlobDownload { repository: &repository, digest: self.digest, size, destination, resume_from };
        self.world.client.download_blob(download, |_| ()).await
    }

    fn written(&self) -> Vec<u8> {
        let mut content = Vec::new();
        self.destination().read_to_end(&mut content).unwrap();
        content
    }

    fn blob(&self) -> String {
        format!("blobs/{}", self.digest)
    }
}

#[tokio::test]
async fn the_right_bytes_arrive_and_progress_is_told() {
    let big = Big::new().await;
    std::fs::write(&big.path, vec![7; SIZE + 1000]).unwrap();
    let mut told = Vec::new();
    let (repository, size) = (big.world.repository(), SIZE as u64);
    let destination = big.destination();
    let download = BlobDownload { repository: &repository, digest: big.digest, size, destination, resume_from: 0 };
    let done = big.world.client.download_blob(download, |bytes| told.push(bytes)).await.unwrap();
    assert_eq!(done, Downloaded { fetched: size, resumed: 0 });
    assert!(big.written() == big.content, "other bytes, or what was there before is still behind them");
    assert_eq!((told.first(), told.last()), (Some(&0), Some(&size)));
    assert!(told.len() > 3 && told.is_sorted(), "{told:?}");
}

#[tokio::test]
async fn a_download_that_broke_off_is_resumed_from_where_it_stopped() {
    let big = Big::new().await;
    big.world.proxy.misbehave(&big.blob(), Misbehaviour::Truncate(3 << 20));
    let error = big.fetch(0).await.unwrap_err();
    let DownloadError::Unavailable { reason: Outage::BrokeOff { received }, kept, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(kept, received);
    assert!(big.content.starts_with(&big.written()) && big.written().len() as u64 == kept && kept > 0);
    big.world.proxy.behave();
    let done = big.fetch(kept).await.unwrap();
    assert_eq!(done, Downloaded { fetched: SIZE as u64 - kept, resumed: kept });
    assert!(big.written() == big.content);
    assert!(big.world.proxy.heads().iter().any(|head| head.to_lowercase().contains(&format!("range: bytes={kept}-"))));
    // And what is whole needs no network.
    let before = big.world.proxy.requests();
    assert_eq!(big.fetch(SIZE as u64).await.unwrap(), Downloaded { fetched: 0, resumed: SIZE as u64 });
    assert_eq!(big.world.proxy.requests(), before);
}

#[tokio::test]
async fn what_cannot_be_resumed_is_fetched_anew() {
    let big = Big::new().await;
    let whole = Downloaded { fetched: SIZE as u64, resumed: 0 };
    let half = SIZE / 2;
    for (name, left, resume_from, no_range) in [
        ("a registry without ranges", big.content[..half].to_vec(), half, true),
        ("a wrong beginning", vec![7; half], half, false),
        ("wrong and whole", vec![7; SIZE], SIZE, false),
        ("more than there can be", vec![7; SIZE + 1], SIZE + 1, false),
        ("less than was said", Vec::new(), half, false),
    ] {
        std::fs::write(&big.path, left).unwrap();
        if no_range {
            big.world.proxy.misbehave(&big.blob(), Misbehaviour::NoRange);
        } else {
            big.world.proxy.behave();
        }
        assert_eq!(big.fetch(resume_from as u64).await.unwrap(), whole, "{name}");
        assert!(big.written() == big.content, "{name}");
    }
}

#[tokio::test]
async fn each_way_to_fail_has_its_error_and_wrong_bytes_do_not_stay() {
    let big = Big::new().await;
    let ways: [(Misbehaviour, Expected); 9] = [
        (Misbehaviour::Flip(SIZE - 1), |error| matches!(error, DownloadError::Corrupt { .. })),
        (Misbehaviour::Shorten(SIZE - 1), |error| matches!(error, DownloadError::Corrupt { .. })),
        (Misbehaviour::Endless, |error| matches!(error, DownloadError::Corrupt { .. })),
        (Misbehaviour::EndEarly(SIZE - 1), |error| matches!(error, DownloadError::Unavailable { .. })),
        (Misbehaviour::Truncate(0), |error| matches!(error, DownloadError::Unavailable { kept: 0, .. })),
        (Misbehaviour::Stall(2 << 20), |error| {
            matches!(error, DownloadError::Unavailable { reason: Outage::Silent(_), .. })
        }),
        (Misbehaviour::Status(503, String::new()), |error| matches!(error, DownloadError::Unavailable { kept: 0, .. })),
        (Misbehaviour::Redirect("http://127.0.0.1:1/".to_owned()), |error| {
            matches!(error, DownloadError::Unavailable { reason: Outage::Redirected(_), .. })
        }),
        (Misbehaviour::Status(404, String::new()), |error| matches!(error, DownloadError::NotFound { .. })),
    ];
    for (way, expected) in ways {
        let _ = std::fs::remove_file(&big.path);
        let shown = format!("{way:?}");
        big.world.proxy.misbehave(&big.blob(), way);
        let error = big.fetch(0).await.unwrap_err();
        assert!(expected(&error), "{shown}: {error}");
        let corrupt = matches!(error, DownloadError::Corrupt { .. });
        let left = big.written();
        assert!(
            if corrupt { left.is_empty() } else { big.content.starts_with(&left) },
            "{shown}: {} bytes",
            left.len()
        );
        assert!(error.to_string().contains(&big.digest.to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_full_disk_is_its_own_error() {
    let big = Big::new().await;
    let (repository, size) = (big.world.repository(), SIZE as u64);
    let destination = File::options().read(true).write(true).open("/dev/full").unwrap();
    let download = BlobDownload { repository: &repository, digest: big.digest, size, destination, resume_from: 0 };
    let error = big.world.client.download_blob(download, |_| ()).await.unwrap_err();
    assert!(matches!(error, DownloadError::NoSpace { .. }), "{error}");
}

#[tokio::test]
async fn a_dropped_download_ends_and_lets_go_of_the_file() {
    let big = Big::new().await;
    big.world.proxy.misbehave(&big.blob(), Misbehaviour::Stall(4 << 20));
    let (started, ended) = tokio::sync::oneshot::channel();
    let (repository, size, mut started) = (big.world.repository(), SIZE as u64, Some(started));
    let destination = big.destination();
    let download = BlobDownload { repository: &repository, digest: big.digest, size, destination, resume_from: 0 };
    let transfer = big.world.client.download_blob(download, |bytes| {
        if bytes > 0
            && let Some(started) = started.take()
        {
            started.send(()).unwrap();
        }
    });
    tokio::select! {
        result = transfer => panic!("ended by itself: {result:?}"),
        _ = ended => {}
    }
    let held = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|target| target == big.path)
    };
    let released = async {
        while held() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), released).await.expect("a thread still holds the file");
    big.world.proxy.behave();
    assert_eq!(big.fetch(0).await.unwrap(), Downloaded { fetched: size, resumed: 0 });
    assert!(big.written() == big.content);
}

#[tokio::test]
async fn an_empty_blob_is_a_blob() {
    let big = Big::new().await;
    let source = big.world.home.path().join("empty");
    std::fs::write(&source, b"").unwrap();
    big.world.client.push_files(&big.world.direct(), &[("empty".to_owned(), source)]).await.unwrap();
    let (repository, digest) = (big.world.repository(), Digest::of(b""));
    let destination = big.destination();
    let download = BlobDownload { repository: &repository, digest, size: 0, destination, resume_from: 0 };
    let done = big.world.client.download_blob(download, |_| ()).await.unwrap();
    assert_eq!(done, Downloaded { fetched: 0, resumed: 0 });
}
