//! The secrets of webhooks as they are kept: sealed when the plane has a key, in clear when it has none.

use std::path::Path;

use fettle_credentials::{Purpose, Sealed, SealedError, SealingKey};
use fettle_store::{
    StoreError,
    context::Actor,
    id::WebhookId,
    webhook::{SigningSecret, Webhook, WebhookChange},
};
use zeroize::Zeroizing;

use crate::state::State;

/// Seals secrets, and opens them.
#[derive(Default)]
pub(crate) struct Vault(Option<SealingKey>);

/// Why a secret cannot be used. It says nothing of the secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VaultError {
    /// It is sealed, and there is no key.
    #[error("the secret is sealed, and this plane was started without a key")]
    NoKey,
    /// The key does not fit.
    #[error("the secret was sealed with another key, or was changed")]
    OtherKey,
}

impl Vault {
    /// Reads the key, if there is one.
    ///
    /// # Errors
    /// When its file is not the key of this user alone.
    pub(crate) fn load(key: Option<&Path>) -> Result<Self, SealedError> {
        key.map(SealingKey::load).transpose().map(Self)
    }

    /// The form in which a secret is kept.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn kept(&self, webhook: WebhookId, secret: &str) -> Result<SigningSecret, SealedError> {
        let text = match &self.0 {
            Some(key) => key.seal(Purpose::Webhook(&webhook.to_string()), secret)?.to_string(),
            None => secret.to_owned(),
        };
        Ok(SigningSecret::new(text))
    }

    /// A secret as it was made.
    ///
    /// # Errors
    /// When it is sealed and this plane has no key for it.
    pub(crate) fn open(&self, webhook: WebhookId, kept: &SigningSecret) -> Result<Zeroizing<String>, VaultError> {
        let Some(sealed) = Sealed::recognize(kept.reveal()) else {
            return Ok(Zeroizing::new(kept.reveal().to_owned()));
        };
        let key = self.0.as_ref().ok_or(VaultError::NoKey)?;
        key.open(Purpose::Webhook(&webhook.to_string()), &sealed).map_err(|_| VaultError::OtherKey)
    }
}

/// Seals what is kept in clear, when this plane has a key, and says which secrets it cannot open.
///
/// # Errors
/// When the store does not answer.
pub(crate) async fn seal_what_is_clear(state: &State) -> Result<(), StoreError> {
    for webhook in state.store.every_webhook().await? {
        let secrets = std::iter::once(&webhook.secret).chain(webhook.previous.iter().map(|(secret, _)| secret));
        for secret in secrets {
            seal(state, &webhook, secret).await?;
        }
    }
    Ok(())
}

async fn seal(state: &State, webhook: &Webhook, secret: &SigningSecret) -> Result<(), StoreError> {
    if let Err(error) = state.vault.open(webhook.id, secret) {
        tracing::error!(webhook = %webhook.id, %error, "a webhook cannot be told anything; start with `--secret-key` as before, or rotate its secret");
        return Ok(());
    }
    if state.vault.0.is_none() || Sealed::recognize(secret.reveal()).is_some() {
        return Ok(());
    }
    let form = match state.vault.kept(webhook.id, secret.reveal()) {
        Ok(form) => form,
        Err(error) => {
            tracing::error!(webhook = %webhook.id, %error, "the secret of a webhook stays in clear");
            return Ok(());
        }
    };
    let change = WebhookChange::Keep { secret: secret.clone(), form };
    let context = state.context(Actor::Plane, "webhooks");
    match state.store.change_webhook(webhook.scope.clone(), webhook.id, change, context).await {
        // Somebody removed it meanwhile.
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(directory: &Path, name: &str) -> Vault {
        let path = directory.join(name);
        SealingKey::generate(&path).unwrap();
        Vault::load(Some(&path)).unwrap()
    }

    #[test]
    fn a_secret_is_kept_as_only_its_own_key_opens_it_for_its_own_webhook() {
        let directory = tempfile::tempdir().unwrap();
        let (with, other, without) =
            (vault(directory.path(), "one"), vault(directory.path(), "other"), Vault::default());
        let [here, elsewhere] = [1, 2].map(|number| WebhookId::new(ulid::Ulid::from_parts(number, 0)));
        let (sealed, clear) = (with.kept(here, "whsec_a").unwrap(), without.kept(here, "whsec_a").unwrap());
        assert!(!sealed.reveal().contains("whsec_a"));
        assert_eq!(clear.reveal(), "whsec_a", "without a key it is kept as it is");
        for vault in [&with, &other, &without] {
            assert_eq!(*vault.open(here, &clear).unwrap(), "whsec_a", "what is kept in clear needs no key");
        }
        assert_eq!(*with.open(here, &sealed).unwrap(), "whsec_a");
        assert!(matches!(with.open(elsewhere, &sealed), Err(VaultError::OtherKey)));
        assert!(matches!(other.open(here, &sealed), Err(VaultError::OtherKey)));
        assert!(matches!(without.open(here, &sealed), Err(VaultError::NoKey)));
    }
}
