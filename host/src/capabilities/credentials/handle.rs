//! What a step gets in place of a credential: a name that only the host can have made, for one task.

use fettle_model::{
    credential::{CredentialType, Intent},
    name::StepId,
};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::mutation::{Protection, off};

/// How every handle begins.
const PREFIX: &str = "credential";

/// Bytes of the authenticator that a handle carries: 128 bits, which nobody guesses.
const AUTHENTICATOR: usize = 16;

/// What handles of a host are authenticated with. It outlasts the host's process: a task that goes on after a restart
/// still knows its handles.
#[derive(Clone)]
pub struct HandleKey([u8; 32]);

/// What a handle stands for: the right of the step that minted it to this credential.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Handle {
    pub(super) step_id: StepId,
    pub(super) intent: Intent,
}

impl From<[u8; 32]> for HandleKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl HandleKey {
    /// What the step is given. It holds no secret.
    pub(super) fn write(&self, task_id: &str, handle: &Handle) -> String {
        let Handle { step_id, intent } = handle;
        let authenticator = self.authenticator(task_id, handle).finalize().into_bytes();
        let authenticator = hex::encode(authenticator.get(..AUTHENTICATOR).unwrap_or_default());
        format!("{PREFIX}:{step_id}:{}:{}:{authenticator}", intent.credential_type(), intent.scope())
    }

    /// What a step's text stands for; none where it is no handle of this task.
    pub(super) fn read(&self, task_id: &str, text: &str) -> Option<Handle> {
        let (rest, authenticator) = text.rsplit_once(':')?;
        let mut parts = rest.splitn(4, ':');
        parts.next().filter(|prefix| *prefix == PREFIX)?;
        let step_id = parts.next()?.parse().ok()?;
        let credential_type: CredentialType = parts.next()?.parse().ok()?;
        let handle = Handle { step_id, intent: Intent::new(credential_type, parts.next()?).ok()? };
        let authenticator = hex::decode(authenticator).ok().filter(|bytes| bytes.len() == AUTHENTICATOR)?;
        let is_ours = self.authenticator(task_id, &handle).verify_truncated_left(&authenticator).is_ok();
        (is_ours || off(Protection::HandlesAreAuthenticated)).then_some(handle)
    }

    fn authenticator(&self, task_id: &str, handle: &Handle) -> Hmac<Sha256> {
        // What HMAC does with a key that is shorter than a block.
        let mut block = [0; 64];
        block[..self.0.len()].copy_from_slice(&self.0);
        let mut authenticator = Hmac::<Sha256>::new(&block.into());
        let credential_type = handle.intent.credential_type().name();
        for part in [PREFIX, task_id, handle.step_id.as_str(), credential_type, handle.intent.scope()] {
            authenticator.update(&(part.len() as u64).to_be_bytes());
            authenticator.update(part.as_bytes());
        }
        authenticator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(step: &str, credential_type: CredentialType, scope: &str) -> Handle {
        Handle { step_id: step.parse().unwrap(), intent: Intent::new(credential_type, scope).unwrap() }
    }

    #[test]
    fn only_the_host_makes_a_handle_and_only_for_one_task() {
        let key = HandleKey::from([7; 32]);
        let token = handle("token", CredentialType::S3Read, "weights/a:b/c");
        let text = key.write("task-1", &token);
        assert_eq!(key.read("task-1", &text), Some(token));
        assert_eq!(key.read("task-2", &text), None);
        assert_eq!(HandleKey::from([8; 32]).read("task-1", &text), None);
        for forged in [
            text.replace("token", "other"),
            text.replace("s3_read", "gcs_read"),
            text.replace("weights/a", "weights/b"),
            text.replace("credential:", "credentials:"),
            format!("{}:", text.rsplit_once(':').unwrap().0),
            format!("{}:00", text.rsplit_once(':').unwrap().0),
            text[..text.len() - 1].to_owned(),
            format!("{text}0"),
            String::new(),
            ":::::".to_owned(),
        ] {
            assert_eq!(key.read("task-1", &forged), None, "{forged}");
        }
    }
}
