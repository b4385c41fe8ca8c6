//! What a host takes from its plane: tasks that are signed by a key for tasks of an authority that counts, for this
//! node, for this stream, each once.

use fettle_identity::signing::{self, Accepted, NoChallenge, NotSigned, Signers};
use fettle_model::assignment::{Assignment, PAYLOAD_TYPE};
use fettle_wire::{convert, node::Lease};
use jiff::Timestamp;

use crate::mutation::{Protection, off};

/// One stream of leases, as its host sees it.
pub(super) struct Stream {
    /// What the plane signs each lease for.
    pub(super) challenge: Vec<u8>,
    signer: Option<Accepted>,
    /// Of the last assignment.
    number: u64,
}

/// Why a lease is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// For programs.
    pub(super) code: &'static str,
    /// For people.
    pub(super) reason: String,
}

impl Refused {
    fn new(code: &'static str, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

impl From<NotSigned> for Refused {
    fn from(error: NotSigned) -> Self {
        let code = match error {
            NotSigned::Malformed => "task.signer_malformed",
            NotSigned::UnknownAuthority => "task.signer_unknown",
            NotSigned::Expired => "task.signer_expired",
            NotSigned::WrongPurpose => "task.signer_wrong_purpose",
            NotSigned::Signature => "task.signature_invalid",
        };
        Self::new(code, error.to_string())
    }
}

impl Stream {
    /// A new one.
    pub(super) fn begin() -> Result<Self, NoChallenge> {
        Ok(Self { challenge: signing::challenge()?, signer: None, number: 0 })
    }

    /// The plane says who signs what follows.
    pub(super) fn introduce(&mut self, certificate: Vec<u8>, signers: &Signers, at: Timestamp) -> Result<(), Refused> {
        self.signer = Some(signers.accept(certificate.into(), at)?);
        Ok(())
    }

    /// What a lease assigns to this node.
    pub(super) fn open(&mut self, lease: &Lease, node_id: &str, at: Timestamp) -> Result<Assignment, Refused> {
        if !off(Protection::TasksAreSigned) {
            self.check_signature(lease, at)?;
        }
        let assignment = convert::assignment(lease).map_err(|error| Refused::new("task.malformed", error.message()))?;
        let task = &assignment.task;
        if task.node_id != node_id {
            let reason = format!("task {} is for node {}, and this is node {node_id}", task.task_id, task.node_id);
            return Err(Refused::new("task.other_node", reason));
        }
        if (task.task_id.as_str(), assignment.epoch.0) != (lease.task_id.as_str(), lease.epoch) {
            let reason = format!("the lease of task {} holds another task or another epoch", lease.task_id);
            return Err(Refused::new("task.malformed", reason));
        }
        if !off(Protection::TasksAreFresh) {
            self.check_occasion(&assignment)?;
        }
        self.number = self.number.max(assignment.number);
        Ok(assignment)
    }

    fn check_signature(&self, lease: &Lease, at: Timestamp) -> Result<(), Refused> {
        let unsigned = |reason| Refused::new("task.unsigned", reason);
        let envelope = lease.envelope.as_ref().ok_or_else(|| unsigned("the lease holds no signed task"))?;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(unsigned("what is signed in the lease is no task"));
        }
        let [signature] = envelope.signatures.as_slice() else {
            return Err(unsigned("a task has exactly one signature"));
        };
        let signer = self.signer.as_ref().ok_or_else(|| unsigned("the plane has not said who signs its tasks"))?;
        Ok(signer.verify((&envelope.payload_type, &envelope.payload), &signature.sig, at)?)
    }

    fn check_occasion(&self, assignment: &Assignment) -> Result<(), Refused> {
        let task_id = &assignment.task.task_id;
        if assignment.challenge != hex::encode(&self.challenge) {
            let reason = format!("the signature of task {task_id} was made for another stream of leases");
            return Err(Refused::new("task.stale", reason));
        }
        if assignment.number <= self.number {
            let reason = format!("the lease of task {task_id} came a second time on one stream");
            return Err(Refused::new("task.replayed", reason));
        }
        Ok(())
    }
}
