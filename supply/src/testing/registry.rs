//! Debian's `docker-registry` on a port of its own, in a directory of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use fettle_model::{digest::Digest, reference::Repository};

/// A registry process; it ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub struct TestRegistry {
    process: Option<Child>,
    address: String,
    directory: tempfile::TempDir,
}

impl TestRegistry {
    /// Whether the program is installed.
    #[must_use]
    pub fn is_installed() -> bool {
        let found = |directory: PathBuf| directory.join("docker-registry").is_file();
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(found))
    }

    /// Starts one and waits until it listens.
    ///
    /// # Panics
    /// When it cannot be started; install the Debian package `docker-registry`.
    #[must_use]
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (process, address) = spawn(directory.path(), 0, "");
        Self { process: Some(process), address, directory }
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A repository in it.
    ///
    /// # Panics
    /// When `path` is no repository path.
    #[must_use]
    pub fn repository(&self, path: &str) -> Repository {
        format!("{}/{path}", self.address).parse().unwrap()
    }

    /// Ends the process; its content stays.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again with the same content on the same port.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn restart(&mut self) {
        self.stop();
        let port = self.address.rsplit(':').next().unwrap().parse().unwrap();
        let (process, address) = spawn(self.directory.path(), port, "");
        assert_eq!(address, self.address);
        self.process = Some(process);
    }

    /// Starts it again with the same content on the same port, and lets in only who shows a token for its service
    /// `registry` that `issuer` signed under this certificate (PEM).
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn require_tokens(&mut self, issuer: &str, certificate: &str) {
        self.stop();
        let bundle = self.directory.path().join("tokens.pem");
        fs::write(&bundle, certificate).unwrap();
        // Nobody asks at the realm: a host comes with its token.
        let auth = format!(
            "auth: {{ token: {{ realm: \"http://127.0.0.1:9/token\", service: registry, issuer: {issuer}, rootcertbundle: {} }} }}\n",
            bundle.display()
        );
        let port = self.address.rsplit(':').next().unwrap().parse().unwrap();
        let (process, address) = spawn(self.directory.path(), port, &auth);
        assert_eq!(address, self.address);
        self.process = Some(process);
    }

    /// Where a blob's bytes are on disk.
    #[must_use]
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let blobs = self.directory.path().join("docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(&hex).join("data")
    }

    /// Changes one byte of a blob behind the registry's back.
    ///
    /// # Panics
    /// When the blob is not there.
    pub fn corrupt(&self, digest: &Digest) {
        let path = self.blob_path(digest);
        let mut content = fs::read(&path).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        fs::write(&path, content).unwrap();
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(directory: &Path, port: u16, more: &str) -> (Child, String) {
    let config = directory.join("config.yml");
    let root = directory.display();
    let text = format!(
        "version: 0.1\nlog: {{ level: info }}\nstorage: {{ filesystem: {{ rootdirectory: {root} }} }}\nhttp: {{ addr: \
         \"127.0.0.1:{port}\" }}\n{more}"
    );
    fs::write(&config, text).unwrap();
    let mut process = Command::new("docker-registry")
        .arg("serve")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("install the Debian package `docker-registry`");
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    let address = lines.by_ref().find_map(|line| {
        let address =
            line.split_once("listening on ").map(|(_, rest)| rest.split(['"', ' ', ',']).next().unwrap().to_owned());
        seen.push(line);
        address
    });
    let address = address.unwrap_or_else(|| panic!("the registry did not start: {seen:?}"));
    // A full pipe would stop it.
    std::thread::spawn(move || lines.for_each(drop));
    (process, address)
}
