//! Starting a program: execve, no shell, nothing inherited, the whole process group killed.
//!
//! Programs are started from one thread that lives as long as the host: the kernel's parent-death
//! signal is sent when the *thread* that started a child ends.

use std::{
    collections::BTreeMap,
    io,
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
    sync::mpsc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    sync::oneshot,
};

use super::{leftovers, users::Identity};
use crate::queue::{Pressure, Queue};

/// How long output is still read after the program has ended: a grandchild may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(500);

/// Everything about a program that is started.
pub struct Program {
    /// Absolute path.
    pub executable: String,
    /// After the program's name.
    pub arguments: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Whom it runs as; none is the host's own user.
    pub user: Option<Identity>,
    /// Where it starts.
    pub directory: String,
    /// Then its process group is killed.
    pub timeout: Duration,
    /// Most bytes kept of standard output.
    pub capture_stdout: usize,
    /// Most bytes kept of standard error.
    pub capture_stderr: usize,
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

/// Output of a program, as much as is kept.
#[derive(Debug, Default)]
pub struct Captured {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// Whether there were more.
    pub truncated: bool,
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
const CHILDREN: usize = 32;

/// Starts programs from one thread, and so many at once.
#[derive(Clone)]
pub struct Spawner {
    starts: mpsc::Sender<Job>,
    /// Looks through all processes of the node, which takes milliseconds: never on the runtime's threads.
    ends: mpsc::Sender<Job>,
    children: Queue,
}

impl Spawner {
    /// Starts the threads. Who waits because too many programs run is felt in `pressure`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(pressure: &Pressure) -> io::Result<Self> {
        Self::with_children(CHILDREN, pressure)
    }

    /// The same, for so many programs at once.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn with_children(children: usize, pressure: &Pressure) -> io::Result<Self> {
        let children = Queue::new(children, pressure);
        Ok(Self { starts: thread("fettle-spawn")?, ends: thread("fettle-reap")?, children })
    }

    /// Runs a program to its end. Dropping the future kills the program's process group.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn run(&self, program: Program) -> Result<Finished, SpawnError> {
        let timeout = program.timeout;
        let limits = (program.capture_stdout, program.capture_stderr);
        let mark = program.environment.get(leftovers::MARK).cloned();
        let executable = program.executable.clone();
        let _place = self.children.enter().await.map_err(|_| SpawnError::Stopped)?;
        let spawned = tokio::time::timeout(timeout, self.spawn(program, mark)).await;
        let mut group = spawned.map_err(|_| {
            let reason = format!("the node started nothing within {} s", timeout.as_secs());
            SpawnError::Refused { executable, reason }
        })??;
        let begin = Instant::now();
        let stdout = tokio::spawn(capture(group.child.stdout.take(), limits.0));
        let stderr = tokio::spawn(capture(group.child.stderr.take(), limits.1));
        let termination = match tokio::time::timeout(timeout, group.child.wait()).await {
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
        if termination == Termination::TimedOut {
            // A process in the middle of a broken system call cannot be killed; it is not waited for.
            let _ = tokio::time::timeout(DRAIN, group.child.wait()).await;
        }
        Ok(Finished { termination, stdout: drained(stdout).await, stderr: drained(stderr).await, duration })
    }

    async fn spawn(&self, program: Program, mark: Option<String>) -> Result<Group, SpawnError> {
        let (answer, answered) = oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        let ends = self.ends.clone();
        let job = Box::new(move || {
            let _entered = runtime.enter();
            let executable = program.executable.clone();
            let spawned = command(program).spawn().map(|child| Group::new(child, mark, ends));
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

/// A running child and everything in its process group.
struct Group {
    child: Child,
    leader: Option<Pid>,
    mark: Option<String>,
    ends: mpsc::Sender<Job>,
}

impl Group {
    fn new(child: Child, mark: Option<String>, ends: mpsc::Sender<Job>) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, leader, mark, ends }
    }

    /// Kills the group at once. Answers what tells when those that left the group are gone as well.
    fn kill(&mut self) -> Option<oneshot::Receiver<usize>> {
        if let Some(leader) = self.leader.take() {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        let mark = self.mark.take()?;
        let (answer, reaped) = oneshot::channel();
        let job = Box::new(move || {
            let _ = answer.send(leftovers::kill(&mark));
        });
        self.ends.send(job).ok().map(|()| reaped)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody waits: the reaper does it in its own time.
        let _ = self.kill();
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that starts programs")]
fn command(program: Program) -> Command {
    let mut command = std::process::Command::new(&program.executable);
    command
        .args(program.arguments)
        .env_clear()
        .envs(program.environment)
        .current_dir(program.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    confine(&mut command, program.user);
    let mut command = Command::from(command);
    command.kill_on_drop(true);
    command
}

/// What happens in the child between fork and execve.
#[expect(unsafe_code, reason = "pre_exec: only async-signal-safe system calls, no allocation, no locks")]
fn confine(command: &mut std::process::Command, user: Option<Identity>) {
    use std::os::unix::process::CommandExt as _;

    command.process_group(0);
    if let Some(user) = user {
        // Setting the group also drops all supplementary groups (std calls setgroups).
        command.gid(user.group.as_raw()).uid(user.user.as_raw());
    }
    let limits = || -> io::Result<()> {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = |maximum| Rlimit { current: Some(maximum), maximum: Some(maximum) };
        setrlimit(Resource::Core, limit(0))?;
        setrlimit(Resource::Nofile, limit(1024))?;
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        close_inherited()
    };
    // SAFETY: `limits` makes system calls only; it touches neither memory shared with the parent nor locks.
    unsafe {
        command.pre_exec(limits);
    }
}

/// Marks every descriptor above standard error close-on-exec, whoever opened it.
#[expect(unsafe_code, reason = "close_range has no safe wrapper; it takes three integers")]
fn close_inherited() -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_int = 4;
    // SAFETY: no memory is passed.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

async fn capture(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Captured {
    let Some(mut pipe) = pipe else { return Captured::default() };
    let mut captured = Captured::default();
    let mut buffer = vec![0; 16 << 10];
    // What is over the limit is read and dropped: a program that prints for ever must not block on it.
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let room = limit.saturating_sub(captured.bytes.len()).min(count);
        captured.bytes.extend(buffer.iter().take(room));
        captured.truncated |= room < count;
    }
    captured
}

async fn drained(mut task: tokio::task::JoinHandle<Captured>) -> Captured {
    match tokio::time::timeout(DRAIN, &mut task).await {
        Ok(Ok(captured)) => captured,
        Ok(Err(_)) => Captured { bytes: Vec::new(), truncated: true },
        Err(_) => {
            task.abort();
            Captured { bytes: Vec::new(), truncated: true }
        }
    }
}
