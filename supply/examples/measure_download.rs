//! Fetches a large layer from a loopback registry, in turn with `skopeo copy`, and prints both times.
//!
//! `cargo run -p fettle-supply --features testing --example measure_download [MEBIBYTES] [ROUNDS]`
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a measurement, not a program")]

use std::{fs::File, io::Write, process::Command, time::Instant};

use fettle_supply::{BlobDownload, Manifest, RegistryClient, RegistryOptions, testing::TestRegistry};

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::main]
async fn main() {
    let argument = |index, default| std::env::args().nth(index).map_or(default, |text| text.parse().unwrap());
    let (mebibytes, rounds) = (argument(1, 1024), argument(2, 3));
    let registry = TestRegistry::start();
    let directory = tempfile::tempdir().unwrap();
    let layer = directory.path().join("layer");
    let mut file = File::create(&layer).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..mebibytes {
        let mut block = Vec::with_capacity(1 << 20);
        while block.len() < 1 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    let repository = registry.repository("bench/large");
    let start = Instant::now();
    let reference = client.push_files(&repository, &[("layer".to_owned(), layer.clone())]).await.unwrap();
    println!("push        {:6.2} s", start.elapsed().as_secs_f64());
    std::fs::remove_file(&layer).unwrap();
    let manifest = Manifest::parse(&client.fetch_manifest(&reference, 1 << 20).await.unwrap().content).unwrap();
    for _ in 0..rounds {
        let target = directory.path().join("skopeo");
        let start = Instant::now();
        let status = Command::new("skopeo")
            .args(["copy", "--quiet", "--src-tls-verify=false"])
            .args([format!("docker://{reference}"), format!("dir:{}", target.display())])
            .status()
            .unwrap();
        assert!(status.success());
        println!("skopeo copy {:6.2} s", start.elapsed().as_secs_f64());
        std::fs::remove_dir_all(&target).unwrap();

        let target = directory.path().join("fettle");
        let start = Instant::now();
        let destination = File::options().read(true).write(true).create_new(true).open(&target).unwrap();
        let layer = &manifest.layers[0];
        let download = BlobDownload {
            repository: &repository,
            digest: layer.digest,
            size: layer.size,
            destination,
            resume_from: 0,
        };
        client.download_blob(download, |_| ()).await.unwrap();
        println!("fettle      {:6.2} s   peak {} MiB", start.elapsed().as_secs_f64(), peak_kib() >> 10);
        std::fs::remove_file(&target).unwrap();
    }
}
