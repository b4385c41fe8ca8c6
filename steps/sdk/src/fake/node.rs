//! The node and what a test sets up on it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use super::digest_of;
use crate::{credentials, exec, facts, files, gpu, http, policy, report, transfer};

thread_local! {
    static CURRENT: RefCell<Option<Rc<RefCell<State>>>> = const { RefCell::new(None) };
}

/// The node that capability calls of this thread reach, from when it is made to when it is dropped.
/// A new one replaces the one before.
#[derive(Debug)]
pub struct Node {
    state: Rc<RefCell<State>>,
}

/// A file of the node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) metadata: files::Metadata,
}

/// All that a node holds.
#[derive(Debug)]
pub(super) struct State {
    pub(super) readable: BTreeSet<String>,
    pub(super) writable: BTreeSet<String>,
    pub(super) files: BTreeMap<String, File>,
    pub(super) hosts: BTreeSet<String>,
    pub(super) manifests: BTreeMap<String, transfer::Manifest>,
    pub(super) blobs: BTreeMap<(String, String), Vec<u8>>,
    pub(super) profiles: BTreeMap<String, Result<exec::Outcome, exec::Error>>,
    pub(super) requests: BTreeMap<(String, String), Result<http::Response, http::Error>>,
    pub(super) credentials: BTreeMap<(String, String), Result<String, credentials::Error>>,
    pub(super) carried: BTreeSet<String>,
    pub(super) active: Option<policy::ActivePolicies>,
    pub(super) may_activate: bool,
    pub(super) activations: BTreeMap<String, Result<policy::ActivePolicies, policy::Error>>,
    pub(super) system: Result<facts::SystemInformation, facts::Error>,
    pub(super) memory: Result<facts::MemoryUsage, facts::Error>,
    pub(super) filesystems: Result<Vec<facts::Filesystem>, facts::Error>,
    pub(super) processes: Result<Vec<facts::Process>, facts::Error>,
    pub(super) kernel_log: Result<Vec<facts::KernelMessage>, facts::Error>,
    pub(super) gpu: Result<gpu::Snapshot, gpu::Error>,
    pub(super) files_fault: Option<files::Error>,
    pub(super) transfer_fault: Option<transfer::Error>,
    pub(super) logs: Vec<(report::Level, String)>,
    pub(super) progress: Vec<(u8, Option<String>)>,
    pub(super) calls: Vec<String>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            readable: BTreeSet::new(),
            writable: BTreeSet::new(),
            files: BTreeMap::new(),
            hosts: BTreeSet::new(),
            manifests: BTreeMap::new(),
            blobs: BTreeMap::new(),
            profiles: BTreeMap::new(),
            requests: BTreeMap::new(),
            credentials: BTreeMap::new(),
            carried: BTreeSet::new(),
            active: None,
            may_activate: false,
            activations: BTreeMap::new(),
            system: Err(facts::Error::AccessDenied),
            memory: Err(facts::Error::AccessDenied),
            filesystems: Err(facts::Error::AccessDenied),
            processes: Err(facts::Error::AccessDenied),
            kernel_log: Err(facts::Error::AccessDenied),
            gpu: Err(gpu::Error::AccessDenied),
            files_fault: None,
            transfer_fault: None,
            logs: Vec::new(),
            progress: Vec::new(),
            calls: Vec::new(),
        }
    }
}

/// Runs `act` on this thread's node; on one that grants nothing when there is none.
pub(super) fn with<T>(act: impl FnOnce(&mut State) -> T) -> T {
    match CURRENT.with_borrow(Clone::clone) {
        Some(state) => act(&mut state.borrow_mut()),
        None => act(&mut State::default()),
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| {
            if current.as_ref().is_some_and(|state| Rc::ptr_eq(state, &self.state)) {
                *current = None;
            }
        });
    }
}

macro_rules! set_fact {
    ($(#[$doc:meta])* $name:ident, $field:ident: $type:ty) => {
        $(#[$doc])*
        pub fn $name(&self, fact: $type) -> &Self {
            self.change(|state| state.$field = fact)
        }
    };
}

impl Node {
    /// A node that grants nothing, for this thread.
    #[must_use]
    pub fn new() -> Self {
        let state = Rc::new(RefCell::new(State::default()));
        CURRENT.set(Some(Rc::clone(&state)));
        Self { state }
    }

    fn change(&self, act: impl FnOnce(&mut State)) -> &Self {
        act(&mut self.state.borrow_mut());
        self
    }

    /// Grants `files.read` of this path and what is below.
    pub fn allow_read(&self, prefix: &str) -> &Self {
        self.change(|state| {
            state.readable.insert(prefix.to_owned());
        })
    }

    /// Grants `files.write` of this path and what is below.
    pub fn allow_write(&self, prefix: &str) -> &Self {
        self.change(|state| {
            state.writable.insert(prefix.to_owned());
        })
    }

    /// Puts a regular file with mode 0644 there.
    pub fn put_file(&self, path: &str, content: impl Into<Vec<u8>>) -> &Self {
        self.put_file_with_mode(path, content, 0o644)
    }

    /// Puts a regular file there.
    pub fn put_file_with_mode(&self, path: &str, content: impl Into<Vec<u8>>, mode: u32) -> &Self {
        let file = super::files::regular(content.into(), mode);
        self.change(|state| drop(state.files.insert(path.to_owned(), file)))
    }

    /// Puts a directory there.
    pub fn put_directory(&self, path: &str) -> &Self {
        let mut file = super::files::regular(Vec::new(), 0o755);
        file.metadata.kind = files::Kind::Directory;
        self.change(|state| drop(state.files.insert(path.to_owned(), file)))
    }

    /// Makes the next call of `files` fail.
    pub fn break_files(&self, error: files::Error) -> &Self {
        self.change(|state| state.files_fault = Some(error))
    }

    /// Grants `transfer.hosts` of this `host:port`.
    pub fn allow_host(&self, host: &str) -> &Self {
        self.change(|state| {
            state.hosts.insert(host.to_owned());
        })
    }

    /// Puts a manifest into `repository` (`host:port/path`) and answers its reference.
    pub fn put_manifest(&self, repository: &str, media_type: &str, content: impl Into<Vec<u8>>) -> String {
        let content = content.into();
        let reference = format!("{repository}@{}", digest_of(&content));
        let manifest = transfer::Manifest { media_type: media_type.to_owned(), content };
        self.change(|state| drop(state.manifests.insert(reference.clone(), manifest)));
        reference
    }

    /// Puts a blob into `repository` and answers its digest.
    pub fn put_blob(&self, repository: &str, content: impl Into<Vec<u8>>) -> String {
        let content = content.into();
        let digest = digest_of(&content);
        self.change(|state| drop(state.blobs.insert((repository.to_owned(), digest.clone()), content)));
        digest
    }

    /// Lets transfers carry the credential of this handle.
    pub fn allow_credential(&self, handle: &str) -> &Self {
        self.change(|state| {
            state.carried.insert(handle.to_owned());
        })
    }

    /// Says what having a credential of this type and scope minted answers.
    pub fn put_credential(
        &self,
        credential_type: &str,
        scope: &str,
        answer: Result<String, credentials::Error>,
    ) -> &Self {
        let key = (credential_type.to_owned(), scope.to_owned());
        self.change(|state| drop(state.credentials.insert(key, answer)))
    }

    /// Grants `policy.activate`, and says what telling the node of this activation answers.
    pub fn put_activation(&self, activation: &str, answer: Result<policy::ActivePolicies, policy::Error>) -> &Self {
        self.change(|state| {
            state.may_activate = true;
            state.activations.insert(activation.to_owned(), answer);
        })
    }

    /// Grants `policy.activate`, on a node that obeys this activation.
    pub fn set_active(&self, active: policy::ActivePolicies) -> &Self {
        self.change(|state| {
            state.may_activate = true;
            state.active = Some(active);
        })
    }

    /// Makes the next call of `transfer` fail.
    pub fn break_transfer(&self, error: transfer::Error) -> &Self {
        self.change(|state| state.transfer_fault = Some(error))
    }

    /// Grants a command profile and says what running it answers.
    pub fn put_profile(&self, profile: &str, answer: Result<exec::Outcome, exec::Error>) -> &Self {
        self.change(|state| drop(state.profiles.insert(profile.to_owned(), answer)))
    }

    /// Grants a request, by its method (`GET`) and URL, and says what it answers.
    pub fn put_answer(&self, method: &str, url: &str, answer: Result<http::Response, http::Error>) -> &Self {
        self.change(|state| drop(state.requests.insert((method.to_owned(), url.to_owned()), answer)))
    }

    set_fact!(
        /// What the fact `system` is.
        set_system, system: Result<facts::SystemInformation, facts::Error>
    );
    set_fact!(
        /// What the fact `memory` is.
        set_memory, memory: Result<facts::MemoryUsage, facts::Error>
    );
    set_fact!(
        /// What the fact `filesystems` is.
        set_filesystems, filesystems: Result<Vec<facts::Filesystem>, facts::Error>
    );
    set_fact!(
        /// What the fact `processes` is.
        set_processes, processes: Result<Vec<facts::Process>, facts::Error>
    );
    set_fact!(
        /// What the fact `kernel-log` is.
        set_kernel_log, kernel_log: Result<Vec<facts::KernelMessage>, facts::Error>
    );
    set_fact!(
        /// What the GPUs are.
        set_gpu, gpu: Result<gpu::Snapshot, gpu::Error>
    );

    /// The content of a file, if it is there.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.state.borrow().files.get(path).map(|file| file.content.clone())
    }

    /// What `stat` says of a path.
    #[must_use]
    pub fn metadata(&self, path: &str) -> Option<files::Metadata> {
        self.state.borrow().files.get(path).map(|file| file.metadata)
    }

    /// The paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.state.borrow().files.keys().cloned().collect()
    }

    /// Every capability call so far, `report` left out: `files.write site/app.conf`.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.state.borrow().calls.clone()
    }

    /// The log lines so far.
    #[must_use]
    pub fn logs(&self) -> Vec<(report::Level, String)> {
        self.state.borrow().logs.clone()
    }

    /// The progress so far: percent and message.
    #[must_use]
    pub fn progress(&self) -> Vec<(u8, Option<String>)> {
        self.state.borrow().progress.clone()
    }
}
