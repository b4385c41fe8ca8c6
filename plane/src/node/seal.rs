//! The leases of one stream, each signed for its place in it.

use std::sync::Arc;

use fettle_identity::signing::Signer;
use fettle_model::{
    assignment::{Assignment, PAYLOAD_TYPE},
    task::{Epoch, Task},
};
use fettle_wire::node::{Envelope, Signature, Signer as SignerMessage};
use tonic::Status;

use crate::state::State;

/// Bytes of a challenge.
const CHALLENGE: std::ops::RangeInclusive<usize> = 16..=64;

/// Signs what one stream carries.
pub(super) struct Seal {
    challenge: String,
    number: u64,
    told: Option<Arc<Signer>>,
}

impl Seal {
    /// For a stream with this challenge.
    pub(super) fn new(challenge: &[u8]) -> Result<Self, Status> {
        if !CHALLENGE.contains(&challenge.len()) {
            let (least, most) = (CHALLENGE.start(), CHALLENGE.end());
            return Err(Status::invalid_argument(format!(
                "`hello.challenge` has {} bytes; send {least} to {most} random ones, anew for each stream",
                challenge.len()
            )));
        }
        Ok(Self { challenge: hex::encode(challenge), number: 0, told: None })
    }

    /// Who signs from now on, when the host was not told so.
    pub(super) fn introduction(&mut self, state: &State) -> Result<Option<SignerMessage>, Status> {
        let signer = state.task_key.current(&state.authorities.current(), &*state.clock).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "tasks cannot be signed");
            Status::unavailable("tasks cannot be signed now")
        })?;
        if self.told.as_ref().is_some_and(|told| Arc::ptr_eq(told, &signer)) {
            return Ok(None);
        }
        let certificate = signer.certificate().to_vec();
        self.told = Some(signer);
        Ok(Some(SignerMessage { certificate }))
    }

    /// A task, signed by whom the host was told of.
    pub(super) fn seal(&mut self, state: &State, task: Task, epoch: Epoch) -> Result<Envelope, Status> {
        let failed = |reason: String| {
            tracing::error!(reason, "a task cannot be signed");
            Status::internal("a task cannot be signed")
        };
        let signer = self.told.as_ref().ok_or_else(|| failed("nobody signs on this stream".to_owned()))?;
        self.number += 1;
        let issued_at = state.clock.now().as_millisecond();
        let challenge = self.challenge.clone();
        let assignment = Assignment { task, epoch, challenge, number: self.number, issued_at };
        let payload = serde_json::to_vec(&assignment).map_err(|error| failed(error.to_string()))?;
        let sig = signer.sign(PAYLOAD_TYPE, &payload).map_err(|error| failed(error.to_string()))?;
        let signatures = vec![Signature { sig, keyid: String::new() }];
        Ok(Envelope { payload, payload_type: PAYLOAD_TYPE.to_owned(), signatures })
    }
}
