//! The key of the authority on a device: SoftHSM, which speaks PKCS #11 as security modules do and keeps keys in files.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use fettle_tests::{Fleet, Supply, eventually, fleet::PATIENCE};
use serde_json::Value;

use crate::{
    PROGRAMS,
    identity::{authority, certificate, started, try_authority, work_through},
};

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &str = "8316-never-in-a-log";

/// A device with one token, whose PIN is in a file.
struct Device {
    directory: tempfile::TempDir,
}

impl Device {
    #[expect(clippy::disallowed_methods, reason = "what an administrator does")]
    fn new() -> Self {
        let device = Self { directory: tempfile::tempdir().unwrap() };
        let tokens = device.directory.path().join("tokens");
        std::fs::create_dir(&tokens).unwrap();
        std::fs::write(device.configuration(), format!("directories.tokendir = {}\n", tokens.display())).unwrap();
        device.write_pin(PIN, 0o600);
        let mut command = Command::new("softhsm2-util");
        command.env("SOFTHSM2_CONF", device.configuration());
        command.args(["--init-token", "--free", "--label", "fettle", "--so-pin", "12345678", "--pin", PIN]);
        // Where it is missing: apt-get install softhsm2.
        let made = command.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        device
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("softhsm2.conf")
    }

    fn pin_file(&self) -> PathBuf {
        self.directory.path().join("pin")
    }

    fn write_pin(&self, pin: &str, mode: u32) {
        std::fs::write(self.pin_file(), format!("{pin}\n")).unwrap();
        std::fs::set_permissions(self.pin_file(), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// How commands name it.
    fn arguments<'a>(&'a self, command: &'a str, token: &'a str, pin_file: &'a str) -> [&'a str; 7] {
        [command, "--pkcs11-module", MODULE, "--pkcs11-token", token, "--pkcs11-pin-file", pin_file]
    }
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path()) }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_takes_over_from_the_authority_in_a_file_with_the_host_connected() {
    let supply = Supply::with(&["command-exec-allowlisted", "file-render", "noop"]).await;
    let device = Device::new();
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    let configuration = device.configuration().display().to_string();
    fleet.planes.environment.push(("SOFTHSM2_CONF".to_owned(), configuration));
    let fleet = started(fleet, &supply, "1h").await;
    let (_, in_a_file) = certificate(&fleet).await.unwrap();
    let pin_file = device.pin_file().display().to_string();
    authority(&fleet, &device.arguments("begin-rotation", "fettle", &pin_file));
    let other_than = async |serial: String| {
        let newer = async || certificate(&fleet).await.filter(|(newer, _)| *newer != serial);
        eventually("a newer certificate", PATIENCE, newer).await
    };
    let (first, _) = certificate(&fleet).await.unwrap();
    authority(&fleet, &["activate"]);
    let mut newest = other_than(first).await;
    while newest.1 == in_a_file {
        newest = other_than(newest.0).await;
    }
    authority(&fleet, &["finish-rotation", "--keep", &newest.1]);
    assert!(work_through(&fleet, 1).await > 0, "what the device certified signs tasks");
    let kept = files(&fleet.planes.directory().join("authority"));
    assert!(!kept.iter().any(|path| path.ends_with("key.pem")), "{kept:?}");
    assert!(kept.iter().any(|path| path.ends_with("device.json")), "{kept:?}");
    for path in kept.iter().filter(|path| path.is_file()) {
        assert!(!std::fs::read_to_string(path).unwrap_or_default().contains(PIN), "{}", path.display());
    }
    assert!(!fleet.logs().contains(PIN));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_does_not_sign_is_named_with_its_reason_and_nothing_is_changed() {
    let supply = Supply::with(&["noop"]).await;
    let device = Device::new();
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    let configuration = device.configuration().display().to_string();
    fleet.planes.environment.push(("SOFTHSM2_CONF".to_owned(), configuration));
    let before = authority(&fleet, &["show", "--json"]);
    let pin_file = device.pin_file().display().to_string();
    let gone = device.directory.path().join("gone").display().to_string();
    let refused = |arguments: &[&str]| {
        let output = try_authority(&fleet, arguments);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains(PIN), "{said}");
        said
    };
    let begin = |token, pin_file| refused(&device.arguments("begin-rotation", token, pin_file));
    assert!(begin("another", &pin_file).contains("has no token `another`"));
    assert!(begin("fettle", &gone).contains("cannot be read"));
    device.write_pin(PIN, 0o644);
    assert!(begin("fettle", &pin_file).contains("chmod 600"));
    device.write_pin("wrong-pin", 0o600);
    assert!(begin("fettle", &pin_file).contains("does not take the PIN"));
    device.write_pin(PIN, 0o600);
    let nothing =
        ["begin-rotation", "--pkcs11-module", "/dev/null", "--pkcs11-token", "x", "--pkcs11-pin-file", &pin_file];
    assert!(refused(&nothing).contains("/dev/null cannot be used as a PKCS #11 library"));
    assert!(refused(&device.arguments("create", "fettle", &pin_file)).contains("signs already"));
    assert_eq!(authority(&fleet, &["show", "--json"]), before);
    let listed: Value = serde_json::from_str(&before).unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    // A device whose PIN was changed meanwhile: the plane does not start, and says why.
    authority(&fleet, &device.arguments("begin-rotation", "fettle", &pin_file));
    authority(&fleet, &["activate"]);
    device.write_pin("wrong-pin", 0o600);
    fleet.planes.restart();
    eventually("the plane to end", PATIENCE, async || fleet.planes.has_ended().then_some(())).await;
    let log = fleet.logs();
    assert!(log.contains("token `fettle` does not take the PIN"), "{log}");
}
