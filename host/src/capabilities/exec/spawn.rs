//! Starting a program: execve, no shell, nothing inherited, the whole process group killed.
//!
//! Programs are started from one thread that lives as long as the host: the kernel's parent-death
//! signal is sent when the *thread* that started a child ends.

use std::{
    collections::BTreeMap,
    fmt, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::Stdio,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;

use super::{
    capture::{Captured, capture, drained},
    cgroup::{Cgroups, Leaf},
    confine::{Confinement, confine},
    leftovers,
};
use crate::{
    capabilities::credentials::Credential,
    mutation::{Protection, off},
    queue::{Pressure, Queue},
};

/// How long a killed program is waited for.
const DRAIN: Duration = Duration::from_millis(500);

/// Everything about a program that is started.
pub struct Program {
    /// Absolute path.
    pub executable: String,
    /// After the program's name.
    pub arguments: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Beside these: variables that hold a part of a credential.
    pub secrets: Vec<SecretVariable>,
    /// Where it starts.
    pub directory: String,
    /// Then its process group is killed.
    pub timeout: Duration,
    /// Most bytes kept of standard output.
    pub capture_stdout: usize,
    /// Most bytes kept of standard error.
    pub capture_stderr: usize,
    /// How it is held.
    pub confinement: Confinement,
}

/// A variable that holds a part of a credential.
#[derive(Clone)]
pub struct SecretVariable {
    /// Its name.
    pub name: String,
    /// The credential.
    pub credential: Arc<Credential>,
    /// Which part of it.
    pub part: String,
}

impl Finished {
    /// Overwrites what the program printed of these.
    pub(super) fn hide(&mut self, secrets: &[SecretVariable]) {
        let printed = secrets.iter().filter(|_| !off(Protection::PrintedSecretsAreHidden));
        for (_, secret) in printed.filter_map(SecretVariable::value) {
            self.stdout.hide(secret);
            self.stderr.hide(secret);
        }
    }
}

impl SecretVariable {
    fn value(&self) -> Option<(&str, &str)> {
        Some((self.name.as_str(), self.credential.part(&self.part)?.expose()))
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
    /// By the host, after its timeout.
    TimedOut,
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit code {code}"),
            Self::Signaled(signal) => write!(f, "was ended by signal {signal}"),
            Self::TimedOut => f.write_str("did not end within its timeout"),
        }
    }
}

/// What a program left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub termination: Termination,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// How long it ran.
    pub duration: Duration,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The system refused.
    #[error("{executable} cannot be started: {reason}")]
    Refused {
        /// The program.
        executable: String,
        /// The system's words.
        reason: String,
    },
    /// The thread that starts programs is gone.
    #[error("the host is shutting down")]
    Stopped,
}

type Job = Box<dyn FnOnce() + Send>;

/// Programs of all attempts at once, those that ask the GPU driver included: each is a process with pipes,
/// and a node has other work.
pub const NODE_CHILDREN: usize = 32;

/// Starts programs from one thread, and so many at once.
#[derive(Clone)]
pub struct Spawner {
    starts: mpsc::Sender<Job>,
    /// Looks through all processes of the node, which takes milliseconds: never on the runtime's threads.
    ends: mpsc::Sender<Job>,
    children: Queue,
    cgroups: Option<Cgroups>,
}

impl Spawner {
    /// Starts the threads. Without control groups, a program that leaves its process group and clears its
    /// environment is not found again. Who waits because too many programs run is felt in `pressure`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(cgroups: Option<Cgroups>, pressure: &Pressure) -> io::Result<Self> {
        Self::with_children(NODE_CHILDREN, cgroups, pressure)
    }

    /// The same, for so many programs at once.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn with_children(children: usize, cgroups: Option<Cgroups>, pressure: &Pressure) -> io::Result<Self> {
        let children = Queue::new(children, pressure);
        Ok(Self { starts: thread("fettle-spawn")?, ends: thread("fettle-reap")?, children, cgroups })
    }

    /// Whether everything that a program starts is held in a control group.
    #[must_use]
    pub const fn holds_everything(&self) -> bool {
        self.cgroups.is_some()
    }

    /// Runs a program to its end. Dropping the future kills the program's process group.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn run(&self, program: Program) -> Result<Finished, SpawnError> {
        self.run_until(program, &CancellationToken::new()).await
    }

    /// The same; once `stop` is canceled the program is asked to end, with SIGTERM, and nothing is started.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn run_until(&self, program: Program, stop: &CancellationToken) -> Result<Finished, SpawnError> {
        let timeout = program.timeout;
        let limits = (program.capture_stdout, program.capture_stderr);
        let mark = program.environment.get(leftovers::MARK).cloned();
        let executable = program.executable.clone();
        let _place = self.children.enter().await.map_err(|_| SpawnError::Stopped)?;
        if stop.is_cancelled() {
            let reason = "the operation was canceled".to_owned();
            return Err(SpawnError::Refused { executable, reason });
        }
        let spawned = tokio::time::timeout(timeout, self.spawn(program, mark)).await;
        let mut group = spawned.map_err(|_| {
            let reason = format!("the node started nothing within {} s", timeout.as_secs());
            SpawnError::Refused { executable, reason }
        })??;
        let begin = Instant::now();
        let stdout = tokio::spawn(capture(group.child.stdout.take(), limits.0));
        let stderr = tokio::spawn(capture(group.child.stderr.take(), limits.1));
        let termination = match tokio::time::timeout(timeout, group.wait(stop)).await {
            Ok(Ok(status)) => status
                .code()
                .map_or_else(|| Termination::Signaled(status.signal().unwrap_or_default()), Termination::Exited),
            Ok(Err(_)) => Termination::Signaled(0),
            Err(_) => Termination::TimedOut,
        };
        let duration = begin.elapsed();
        // What it forked and left behind goes with it, however it ended.
        if let Some(reaped) = group.kill() {
            let _ = reaped.await;
        }
        group.ended().await;
        if termination == Termination::TimedOut {
            // A process in the middle of a broken system call cannot be killed; it is not waited for.
            let _ = tokio::time::timeout(DRAIN, group.child.wait()).await;
        }
        Ok(Finished { termination, stdout: drained(stdout).await, stderr: drained(stderr).await, duration })
    }

    async fn spawn(&self, program: Program, mark: Option<String>) -> Result<Group, SpawnError> {
        let (answer, answered) = oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        let (cgroups, ends) = (self.cgroups.clone(), self.ends.clone());
        let job = Box::new(move || {
            let _entered = runtime.enter();
            let executable = program.executable.clone();
            let spawned = start(program, cgroups.as_ref(), mark, ends);
            let spawned = spawned.map_err(|error| SpawnError::Refused { executable, reason: error.to_string() });
            // When nobody waits any more, the group is dropped here and killed.
            let _ = answer.send(spawned);
        });
        self.starts.send(job).map_err(|_| SpawnError::Stopped)?;
        answered.await.map_err(|_| SpawnError::Stopped)?
    }
}

/// A thread that does one job after the other, for as long as somebody can send one.
fn thread(name: &str) -> io::Result<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(sender)
}

fn start(
    program: Program,
    cgroups: Option<&Cgroups>,
    mark: Option<String>,
    ends: mpsc::Sender<Job>,
) -> io::Result<Group> {
    let leaf = cgroups.map(Cgroups::leaf).transpose()?;
    let entrance = leaf.as_ref().map(Leaf::entrance).transpose()?;
    let child = command(program, entrance).spawn()?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    Ok(Group { child, leader, mark, leaf, ends })
}

/// A running child and everything that it started.
struct Group {
    child: Child,
    leader: Option<Pid>,
    mark: Option<String>,
    leaf: Option<Leaf>,
    ends: mpsc::Sender<Job>,
}

impl Group {
    /// Waits for the child, and asks all of its process group to end when that is wanted.
    async fn wait(&mut self, stop: &CancellationToken) -> io::Result<std::process::ExitStatus> {
        tokio::select! {
            status = self.child.wait() => return status,
            () = stop.cancelled() => {}
        }
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, Signal::TERM);
        }
        self.child.wait().await
    }

    /// Kills all of it at once. Answers what tells when those that left the process group are gone as well,
    /// where they have to be looked for: nothing gets out of a control group.
    fn kill(&mut self) -> Option<oneshot::Receiver<usize>> {
        if let Some(leader) = self.leader.take() {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        if let Some(leaf) = &self.leaf {
            leaf.kill();
            return None;
        }
        let mark = self.mark.take()?;
        let (answer, reaped) = oneshot::channel();
        let job = Box::new(move || {
            let _ = answer.send(leftovers::kill(&mark));
        });
        self.ends.send(job).ok().map(|()| reaped)
    }

    /// Waits until what was killed is gone, as far as that can be seen.
    async fn ended(&self) {
        if let Some(leaf) = &self.leaf {
            leaf.emptied().await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody waits: the reaper does it in its own time.
        let _ = self.kill();
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that starts programs")]
fn command(program: Program, entrance: Option<OwnedFd>) -> Command {
    // The file that was checked is executed, whatever is at the path by now.
    let started = match &program.confinement.checked {
        Some(checked) => format!("/proc/self/fd/{}", checked.as_raw_fd()),
        None => program.executable.clone(),
    };
    let mut command = std::process::Command::new(started);
    command
        .arg0(program.executable)
        .args(program.arguments)
        .env_clear()
        .envs(program.environment)
        .envs(program.secrets.iter().filter_map(SecretVariable::value))
        .current_dir(program.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    confine(&mut command, program.confinement, entrance);
    let mut command = Command::from(command);
    command.kill_on_drop(true);
    command
}
