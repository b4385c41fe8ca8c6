//! From a command profile to a program that can be started.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use fettle_model::{
    command::Argument,
    policy::{CommandProfile, PathPassing},
};
use rustix::fs::{FileType, Mode, OFlags};

use super::{Confinement, Program, executable, leftovers, users};
use crate::capabilities::files::{Error, NodePath, Root};

/// Looks up users, resolves paths and checks the executable.
pub(super) fn build(
    profile: &CommandProfile,
    vector: Vec<Argument>,
    roots: &BTreeMap<String, PathBuf>,
    attempt: &str,
) -> Result<Program, String> {
    let mut confinement = Confinement { limits: profile.limits, ..Confinement::default() };
    confinement.checked = executable::check(profile)?;
    identify(profile, &mut confinement)?;
    let mut arguments = Vec::with_capacity(vector.len());
    for argument in vector {
        arguments.push(match argument {
            Argument::Literal(text) => text,
            // In the environment, where it is not seen by everybody.
            Argument::Credential { .. } => continue,
            Argument::Path { path, pass } => {
                let (descriptor, name) = resolve(&path, roots)?;
                match pass {
                    PathPassing::Name => name,
                    PathPassing::Descriptor => {
                        let passed = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
                        confinement.inherited.push(descriptor);
                        passed
                    }
                }
            }
        });
    }
    let mut environment = profile.environment.clone();
    for name in &profile.env_passthrough {
        if let Ok(value) = std::env::var(name) {
            environment.insert(name.clone(), value);
        }
    }
    environment.insert(leftovers::MARK.to_owned(), attempt.to_owned());
    Ok(Program {
        executable: profile.command.clone(),
        arguments,
        environment,
        secrets: Vec::new(),
        directory: profile.working_directory.clone().unwrap_or_else(|| "/".to_owned()),
        timeout: Duration::from_secs(profile.timeout_seconds.into()),
        capture_stdout: if profile.capture_stdout { profile.capture_limit_bytes as usize } else { 0 },
        capture_stderr: if profile.capture_stderr { profile.capture_limit_bytes as usize } else { 0 },
        confinement,
    })
}

/// Whom the program runs as. Only root can be somebody else.
fn identify(profile: &CommandProfile, confinement: &mut Confinement) -> Result<(), String> {
    let unknown = |what: &str, name: &str| {
        format!("profile `{}` runs as {what} `{name}`, and this node has none of that name", profile.id)
    };
    if let Some(name) = &profile.user {
        let user = users::user(name).ok_or_else(|| unknown("user", name))?;
        confinement.user = Some(user.user);
        confinement.group = Some(user.group);
    }
    if let Some(name) = &profile.group {
        confinement.group = Some(users::group(name).ok_or_else(|| unknown("group", name))?);
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        return Ok(());
    }
    if confinement.user.is_some_and(|wanted| wanted != user) || confinement.group.is_some_and(|wanted| wanted != group)
    {
        let wanted = profile.user.as_ref().or(profile.group.as_ref()).map_or("", String::as_str);
        return Err(format!(
            "profile `{}` runs as `{wanted}`, and this host runs as user {}, who cannot become anybody else; start the \
             host as root, or take `user` and `group` out of the profile",
            profile.id,
            user.as_raw()
        ));
    }
    // It is that user already.
    (confinement.user, confinement.group) = (None, None);
    Ok(())
}

/// Opens a checked `root/below/it` without following a link. Answers the descriptor and the absolute path.
fn resolve(path: &str, roots: &BTreeMap<String, PathBuf>) -> Result<(OwnedFd, String), String> {
    let parsed = NodePath::parse(path).map_err(|rule| format!("`{path}` {rule}"))?;
    let directory = roots.get(parsed.root()).ok_or_else(|| format!("this node has no root `{}`", parsed.root()))?;
    let unusable = |error: std::io::Error| format!("root `{}` cannot be used: {error}", parsed.root());
    // The administrator's own path may lead through links; nothing below it may.
    let directory = std::fs::canonicalize(directory).map_err(unusable)?;
    let descriptor = rustix::fs::open(&directory, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH, Mode::empty())
        .map_err(|errno| unusable(errno.into()))?;
    let found = parsed.open(&Root::of(descriptor), OFlags::PATH).map_err(|error| match error {
        Error::InvalidPath(rule) => format!("`{path}` {rule}"),
        Error::NotFound => format!("`{path}` cannot be used: nothing is there"),
        other => format!("`{path}` cannot be used: {other}"),
    })?;
    // A descriptor that only names a file is opened for a link too.
    let kind = rustix::fs::fstat(&found).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if kind == Ok(FileType::Symlink) {
        return Err(format!("`{path}` leads through a symbolic link; links are not followed"));
    }
    let name = if parsed.relative() == "." { directory } else { directory.join(parsed.relative()) };
    Ok((found, name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use fettle_model::policy::CommandProfile;

    use super::*;
    use crate::{
        capabilities::exec::{Cgroups, Spawner, Termination},
        queue::Pressure,
    };

    fn profile(text: &str) -> CommandProfile {
        fettle_model::document::read(text).unwrap()
    }

    fn path(path: &str, pass: PathPassing) -> Vec<Argument> {
        vec![Argument::Path { path: path.to_owned(), pass }]
    }

    /// A directory `below` with a file `a` in it, in a root of its own.
    fn root() -> (tempfile::TempDir, BTreeMap<String, PathBuf>) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("below")).unwrap();
        std::fs::write(directory.path().join("below/a"), "mine").unwrap();
        let roots = BTreeMap::from([("data".to_owned(), directory.path().to_owned())]);
        (directory, roots)
    }

    async fn output(program: Program) -> (Termination, String) {
        let finished = Spawner::start(None, &Pressure::default()).unwrap().run(program).await.unwrap();
        (finished.termination, finished.stdout.text())
    }

    /// Puts a link to somebody else's file where a checked path was.
    fn swap(directory: &tempfile::TempDir, outside: &tempfile::TempDir) {
        std::fs::write(outside.path().join("a"), "somebody else's").unwrap();
        std::fs::remove_dir_all(directory.path().join("below")).unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("below")).unwrap();
    }

    #[tokio::test]
    async fn a_path_that_changes_after_it_was_checked_leads_nowhere_else() {
        let cat = profile("{ id: cat, command: /usr/bin/cat }");
        for (pass, expected) in [(PathPassing::Descriptor, "mine"), (PathPassing::Name, "somebody else's")] {
            let ((directory, roots), outside) = (root(), tempfile::tempdir().unwrap());
            // Held open, as a program that works on it would; the name is gone all the same.
            let program = build(&cat, path("data/below/a", pass), &roots, "swap").unwrap();
            swap(&directory, &outside);
            assert_eq!(output(program).await, (Termination::Exited(0), expected.to_owned()), "{pass:?}");
        }
    }

    #[tokio::test]
    async fn an_executable_that_changes_after_it_was_checked_is_not_executed() {
        let directory = tempfile::tempdir().unwrap();
        let command = directory.path().join("tool");
        std::fs::copy("/usr/bin/echo", &command).unwrap();
        let sha256 = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(std::fs::read(&command).unwrap()));
        let replace = || {
            let other = directory.path().join("other");
            std::fs::copy("/usr/bin/printenv", &other).unwrap();
            std::fs::rename(other, &command).unwrap();
        };
        let command_line = format!("{{ id: tool, command: {}, environment: {{ A: stolen }}", command.display());
        let argument = || vec![Argument::Literal("A".to_owned())];
        let pinned = profile(&format!("{command_line}, sha256: {sha256} }}"));
        let program = build(&pinned, argument(), &BTreeMap::new(), "pinned").unwrap();
        replace();
        assert_eq!(output(program).await.1, "A\n", "the checked file was not the one that was executed");
        // Without the pin, the same change gets through.
        std::fs::copy("/usr/bin/echo", directory.path().join("echo")).unwrap();
        std::fs::rename(directory.path().join("echo"), &command).unwrap();
        let program = build(&profile(&format!("{command_line} }}")), argument(), &BTreeMap::new(), "free").unwrap();
        replace();
        assert_eq!(output(program).await.1, "stolen\n");
    }

    #[test]
    fn an_executable_that_a_hash_cannot_hold_is_refused_with_the_reason() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("script"), "#!/bin/sh\necho\n").unwrap();
        std::fs::copy("/usr/bin/true", at("writable")).unwrap();
        std::fs::set_permissions(at("script"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(at("writable"), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink("/bin/sh", at("tool")).unwrap();
        let pin = format!("sha256: {}", "0".repeat(64));
        for (name, pin, words) in [
            ("script", pin.as_str(), "it is a script"),
            ("writable", &pin, "can be changed by others"),
            ("tool", "", "which is a shell"),
            ("gone", "", "cannot be used"),
        ] {
            let profile = profile(&format!("{{ id: a, command: {}, {pin} }}", at(name).display()));
            let refused = build(&profile, Vec::new(), &BTreeMap::new(), "held").map(|program| program.executable);
            assert!(refused.clone().is_err_and(|reason| reason.contains(words)), "{name}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn limits_of_the_profile_hold_in_the_child() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("large");
        let limited = profile(&format!(
            "{{ id: dd, command: /usr/bin/dd, limits: {{ file_size_bytes: 1000 }}, allowed_args: [if=/dev/zero, of={}, \
             bs=4096, count=4, status=none] }}",
            file.display()
        ));
        let vector = fettle_model::command::arguments(&limited, &[]).unwrap();
        let program = build(&limited, vector, &BTreeMap::new(), "limits").unwrap();
        let (termination, _) = output(program).await;
        assert_ne!(termination, Termination::Exited(0));
        assert!(std::fs::metadata(&file).unwrap().len() <= 1000);
        let limited = profile(
            "{ id: p, command: /usr/bin/prlimit, limits: { open_files: 77, memory_bytes: 99999744, processor_seconds: 9 }, allowed_args: [--noheadings, --raw, '--output=RESOURCE,HARD'] }",
        );
        let vector = fettle_model::command::arguments(&limited, &[]).unwrap();
        let (_, text) = output(build(&limited, vector, &BTreeMap::new(), "limits").unwrap()).await;
        for expected in ["NOFILE 77", "AS 99999744", "CPU 9", "CORE 0"] {
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        }
    }

    #[tokio::test]
    async fn nothing_leaves_its_control_group_and_without_one_it_would() {
        let Ok((cgroups, _)) = Cgroups::open(&format!("test-{}", std::process::id())) else {
            assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "this machine has no control groups");
            return;
        };
        // Leaves its process group and its session, and clears its environment.
        let escape = |seconds: &str| Program {
            executable: "/bin/sh".to_owned(),
            arguments: vec![
                "-c".to_owned(),
                format!("setsid --fork env -i sh -c 'echo out; exec sleep {seconds} >/dev/null 2>&1' | head -n 1"),
            ],
            environment: BTreeMap::from([(leftovers::MARK.to_owned(), format!("escape-{seconds}"))]),
            secrets: Vec::new(),
            directory: "/".to_owned(),
            timeout: Duration::from_secs(10),
            capture_stdout: 100,
            capture_stderr: 100,
            confinement: Confinement::default(),
        };
        let unique = format!("{}", 100_000 + std::process::id());
        for (cgroups, seconds, survivors) in
            [(None, format!("{unique}.1"), 1), (Some(cgroups), format!("{unique}.2"), 0)]
        {
            let spawner = Spawner::start(cgroups, &Pressure::default()).unwrap();
            let finished = spawner.run(escape(&seconds)).await.unwrap();
            assert_eq!(finished.stdout.text(), "out\n");
            // It may not have become `sleep` yet when its first line was read.
            for _ in 0..500 {
                if sleepers(&seconds).len() == survivors {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let found = sleepers(&seconds);
            for pid in &found {
                let _ = rustix::process::kill_process(*pid, rustix::process::Signal::KILL);
            }
            assert_eq!(found.len(), survivors);
        }
    }

    fn sleepers(seconds: &str) -> Vec<rustix::process::Pid> {
        let all = procfs::process::all_processes().unwrap().filter_map(Result::ok);
        let sleeping = all.filter(|process| process.cmdline().is_ok_and(|line| line == ["sleep", seconds]));
        sleeping.filter_map(|process| rustix::process::Pid::from_raw(process.pid)).collect()
    }
}
