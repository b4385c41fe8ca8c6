//! The planes of a fleet as processes: one, or several over one database behind a [`Balancer`].

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Process, balancer::Balancer, eventually, fleet::PATIENCE};

/// A free port of this machine, for this machine only.
const ANYWHERE: &str = "127.0.0.1:0";

/// One plane.
struct Member {
    process: Option<Process>,
    directory: PathBuf,
    log: PathBuf,
    /// Where it listens; where it is to listen, before it has started.
    listen: String,
    /// The same for nodes.
    node_listen: String,
}

/// All planes of a fleet. What they are told is the same for each.
pub struct Planes {
    /// Extra environment of each plane's next start.
    pub environment: Vec<(String, String)>,
    /// More arguments.
    pub arguments: Vec<String>,
    /// How often nodes say that they are there.
    pub heartbeat: Duration,
    program: &'static str,
    trust: PathBuf,
    authority: PathBuf,
    members: Vec<Member>,
    /// What stands before several: for clients, and for nodes.
    balancers: Option<[Balancer; 2]>,
}

impl Planes {
    /// So many planes, which keep what they have below `directory`; nothing runs yet.
    pub async fn prepare(program: &'static str, trust: &Path, directory: &Path, count: usize) -> Self {
        let member = |number: usize| {
            let name = if number == 0 { "plane".to_owned() } else { format!("plane-{number}") };
            let log = directory.join(format!("{name}.log"));
            Member {
                process: None,
                directory: directory.join(name),
                log,
                listen: ANYWHERE.to_owned(),
                node_listen: ANYWHERE.to_owned(),
            }
        };
        Self {
            environment: Vec::new(),
            arguments: Vec::new(),
            heartbeat: Duration::from_secs(1),
            program,
            trust: trust.to_owned(),
            members: (0..count).map(member).collect(),
            authority: directory.join("plane").join("authority"),
            balancers: if count > 1 { Some([Balancer::start().await, Balancer::start().await]) } else { None },
        }
    }

    /// Starts each plane that does not run, and waits until all listen.
    pub async fn start(&mut self) {
        self.restart();
        eventually("the planes to listen", PATIENCE, async || self.note_addresses()).await;
    }

    /// Starts each plane that does not run, at the address it had before if it had one.
    pub fn restart(&mut self) {
        for number in 0..self.members.len() {
            if self.members[number].process.as_mut().is_none_or(|process| process.ended().is_some()) {
                self.start_one(number);
            }
        }
    }

    /// Lets all planes listen here from their next start on.
    pub fn listen_at(&mut self, address: &str) {
        for member in &mut self.members {
            address.clone_into(&mut member.listen);
            address.clone_into(&mut member.node_listen);
        }
    }

    /// Takes note of where the planes listen; none while one of them does not.
    pub fn note_addresses(&mut self) -> Option<()> {
        for member in &mut self.members {
            let (listen, node_listen) =
                (member.announced("listens on http://")?, member.announced("nodes in at https://")?);
            (member.listen, member.node_listen) = (listen, node_listen);
        }
        if let Some([clients, nodes]) = &self.balancers {
            clients.stand_before(self.members.iter().map(|member| member.listen.clone()).collect());
            nodes.stand_before(self.members.iter().map(|member| member.node_listen.clone()).collect());
        }
        Some(())
    }

    /// Where clients find a plane.
    #[must_use]
    pub fn address(&self) -> String {
        self.balancers.as_ref().map_or_else(|| self.members[0].listen.clone(), |[clients, _]| clients.address())
    }

    /// Where hosts find a plane.
    #[must_use]
    pub fn node_address(&self) -> String {
        self.balancers.as_ref().map_or_else(|| self.members[0].node_listen.clone(), |[_, nodes]| nodes.address())
    }

    /// Whether one of them has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.members.iter_mut().filter_map(|member| member.process.as_mut()).any(|process| process.ended().is_some())
    }

    /// Sends SIGKILL to all.
    pub fn kill(&mut self) {
        for number in 0..self.members.len() {
            self.kill_one(number);
        }
    }

    /// Sends SIGKILL to this one, counted from 0.
    pub fn kill_one(&mut self, number: usize) {
        self.members[number].process.as_mut().expect("the plane was started").kill();
    }

    /// The first of them, if it was started.
    #[must_use]
    pub fn first(&self) -> Option<&Process> {
        self.members[0].process.as_ref()
    }

    /// What the first of them keeps.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.members[0].directory
    }

    /// What all of them have printed.
    #[must_use]
    pub fn logs(&self) -> String {
        let read = |member: &Member| std::fs::read_to_string(&member.log).unwrap_or_default();
        let logs =
            self.members.iter().enumerate().map(|(number, member)| format!("--- plane {number}\n{}", read(member)));
        logs.collect::<Vec<_>>().join("\n")
    }

    fn start_one(&mut self, number: usize) {
        let member = &mut self.members[number];
        let heartbeat = format!("{}s", self.heartbeat.as_secs());
        let arguments = [
            "--data",
            member.directory.to_str().unwrap(),
            "--authority",
            self.authority.to_str().unwrap(),
            "serve",
            "--listen",
            &member.listen,
            "--node-listen",
            &member.node_listen,
            "--trust",
            self.trust.to_str().unwrap(),
            "--lease",
            "3s",
            "--heartbeat",
            &heartbeat,
            // Benchmarks ask as fast as they can.
            "--rate",
            "0",
        ];
        let arguments = arguments.into_iter().chain(self.arguments.iter().map(String::as_str));
        let _ = std::fs::remove_file(&member.log);
        let mut environment = self.environment.clone();
        environment.push(("RUST_LOG".to_owned(), "info,fettle_plane::api::correlation=warn".to_owned()));
        member.process = Some(Process::start(Path::new(self.program), arguments, &environment, member.log.clone()));
    }
}

impl Member {
    /// What follows on this in what it has printed.
    fn announced(&self, what: &str) -> Option<String> {
        let printed = self.process.as_ref()?.printed();
        printed.lines().find_map(|line| line.split_once(what)).map(|(_, address)| address.trim().to_owned())
    }
}
