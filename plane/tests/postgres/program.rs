//! The program on PostgreSQL, as a process.

use std::process::{Command, Output};

use fettle_identity::{Serial, Validity};
use fettle_postgres_cluster::Cluster;
use serde_json::Value;

fn program(environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fettle-plane"));
    command.env("FETTLE_PLANE_DATA", directory.path()).envs(environment.iter().copied()).args(arguments);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim()
}

#[test]
fn every_command_works_on_a_database_that_is_named_in_each_way() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.url("postgres");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{url}\n")).unwrap();
    let variable = [("FETTLE_DATABASE_URL", url.as_str())];
    let migrated = program(&variable, &["migrate"]);
    assert!(text(&migrated.stdout).ends_with("/postgres is up to date"), "{migrated:?}");
    let created = program(&[], &["--database", &url, "token", "create", "--name", "ci", "--role", "platform_admin"]);
    assert!(text(&created.stdout).starts_with("fettle_"), "{created:?}");
    assert!(program(&variable, &["project", "create", "demo"]).status.success());
    let lost = program(&variable, &["join-token", "create"]);
    assert!(text(&lost.stderr).contains("run this with the data directory of a plane that has started"), "{lost:?}");
    let authority = tempfile::tempdir().unwrap();
    let at = authority.path().to_str().unwrap();
    let nowhere = program(&variable, &["--authority", at, "join-token", "create"]);
    assert!(text(&nowhere.stderr).contains(at), "{nowhere:?}");
    assert_eq!(std::fs::read_dir(at).unwrap().count(), 0, "none was made");
    let (from, until) = (jiff::Timestamp::UNIX_EPOCH, jiff::Timestamp::from_second(4_000_000_000).unwrap());
    let directory = fettle_identity::Directory::new(authority.path().to_owned());
    directory.open_or_create(Validity { from, until }, Serial([1; 16])).unwrap();
    assert!(program(&variable, &["--authority", at, "join-token", "create"]).status.success());
    let listed = program(&[], &["--database-file", file.path().to_str().unwrap(), "token", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["items"][0]["name"], "ci");
    let verified = program(&variable, &["audit", "--verify", "--json"]);
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(verified["linked"], 3);
}

#[test]
fn what_cannot_be_done_is_refused_with_the_fix() {
    let secret = "postgres://fettle:sesame@127.0.0.1:1/plane";
    for (environment, arguments, expected) in [
        (&[] as &[_], vec!["--database", secret, "migrate"], "it may hold no password"),
        (&[], vec!["--database", "mysql://x", "migrate"], "postgres://user@host"),
        (&[("FETTLE_DATABASE_URL", secret)], vec!["migrate"], "nobody answers as PostgreSQL at 127.0.0.1:1/plane"),
        (&[("FETTLE_DATABASE_URL", secret)], vec!["serve", "--listen", "127.0.0.1:0"], "nobody answers"),
        (&[("FETTLE_DATABASE_URL", secret)], vec!["backup", "x"], "pg_dump --format=custom --no-owner --file=x --host"),
        (&[("FETTLE_DATABASE_URL", secret)], vec!["restore", "x"], "pg_restore --clean"),
        (&[], vec!["--database-file", "/nowhere", "migrate"], "cannot read /nowhere"),
    ] {
        let output = program(environment, &arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("sesame"), "{said}");
    }
}
