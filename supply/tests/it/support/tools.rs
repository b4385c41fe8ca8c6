//! Programs of others. They are fetched into `target/tools` once, because the machine's own lack
//! something: Debian 12 builds skopeo without signatures, and Sigstore's verifier for JavaScript is no
//! package of it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Where tools are kept; held by one test process at a time.
fn tools() -> (PathBuf, File) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    fs::create_dir_all(&directory).unwrap();
    let lock = File::create(directory.join(".lock")).unwrap();
    lock.lock().unwrap();
    (directory.canonicalize().unwrap(), lock)
}

/// A test that cannot run is counted as skipped, and an error where all must run.
fn skip(why: &str) {
    assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "{why}");
    println!("skipped: {why}");
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// How to start skopeo.
pub(crate) struct Skopeo {
    program: Vec<PathBuf>,
}

impl Skopeo {
    /// One that can sign and verify; none, and a remark, where none can be had.
    pub(crate) fn find() -> Option<Self> {
        let own = Self { program: vec!["skopeo".into()] };
        if own.can_sign() {
            return Some(own);
        }
        let (tools, _lock) = tools();
        let root = tools.join("skopeo-trixie");
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let arguments = ["--library-path".into(), libraries.clone(), root.join("usr/bin/skopeo")];
        let fetched = Self { program: [libraries.join("ld-linux-x86-64.so.2")].into_iter().chain(arguments).collect() };
        if !root.exists()
            && let Err(why) = fetch_skopeo(&tools, &root)
        {
            skip(&format!("there is no skopeo that can sign: {why}"));
            return None;
        }
        if !fetched.can_sign() {
            skip("neither the skopeo of this machine nor that of Debian 13 can sign here");
            return None;
        }
        Some(fetched)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let (program, first) = self.program.split_first().unwrap();
        Command::new(program).args(first).args(arguments).output().unwrap()
    }

    /// Whether this build was made with signatures.
    fn can_sign(&self) -> bool {
        let (program, first) = self.program.split_first().unwrap();
        let home = tempfile::tempdir().unwrap();
        let (key, public) = (home.path().join("probe"), home.path().join("probe.pub"));
        let mut make = Command::new(program);
        make.args(first).arg("generate-sigstore-key").arg("--output-prefix").arg(&key);
        make.arg("--passphrase-file").arg("/dev/null");
        make.output().is_ok_and(|output| output.status.success()) && public.is_file()
    }
}

/// Takes skopeo and its libraries from Debian 13, verified by apt, without installing anything.
fn fetch_skopeo(tools: &Path, root: &Path) -> Result<(), String> {
    let work = tempfile::tempdir_in(tools).map_err(|error| error.to_string())?;
    let at = |name: &str| work.path().join(name);
    for directory in ["state/lists/partial", "cache/archives/partial", "debs"] {
        fs::create_dir_all(at(directory)).map_err(|error| error.to_string())?;
    }
    let source = "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                  http://deb.debian.org/debian trixie main\n";
    fs::write(at("sources.list"), source).map_err(|error| error.to_string())?;
    fs::write(at("status"), "").map_err(|error| error.to_string())?;
    let apt = || {
        let mut command = Command::new("apt-get");
        command.current_dir(at("debs")).args(["-q", "-o", "Dir::Etc::SourceParts=/dev/null"]);
        for (option, name) in [
            ("Dir::State", "state"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::State::status", "status"),
        ] {
            command.arg("-o").arg(format!("{option}={}", at(name).display()));
        }
        command
    };
    run(apt().arg("update"))?;
    let packages = ["skopeo", "libc6", "libgpgme11t64", "libassuan9", "libgpg-error0", "libsqlite3-0", "libsubid5"];
    run(apt().arg("download").args(packages))?;
    let unpacked = at("root");
    for entry in fs::read_dir(at("debs")).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        run(Command::new("dpkg").arg("-x").arg(entry.path()).arg(&unpacked))?;
    }
    fs::rename(unpacked, root).map_err(|error| error.to_string())
}

/// A directory in which `node` finds Sigstore's own verifier; none, and a remark, without npm.
pub(crate) fn sigstore_js() -> Option<PathBuf> {
    let (tools, _lock) = tools();
    let directory = tools.join("sigstore-js");
    let marker = directory.join("installed");
    if !marker.exists() {
        fs::create_dir_all(&directory).unwrap();
        let packages = ["@sigstore/verify@3.1.1", "@sigstore/bundle@4.0.0", "@sigstore/protobuf-specs@0.5.0"];
        let mut npm = Command::new("npm");
        npm.current_dir(&directory).args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "."]);
        if let Err(why) = run(npm.args(packages)) {
            skip(&format!("Sigstore's verifier cannot be installed: {why}"));
            return None;
        }
        fs::write(marker, "").unwrap();
    }
    Some(directory)
}
