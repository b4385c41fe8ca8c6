//! A service of one's own that makes credentials: join tokens of a cluster, sessions of a cloud.
//!
//! It is sent `POST` with a bearer token and JSON: `credential_type`, `scope`, `lifetime_seconds`, and whom it is for
//! (`node_id`, `task_id`, `operation_id`, `step_id`). It answers `{"material": {"token": "..."}, "expires_in_seconds": 300}`.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use fettle_egress::http::Method;
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    provider::{LONGEST, Minted, Provider, ProviderError, Wanted},
    web::Service,
};

/// A service that makes credentials.
pub(crate) struct Issuer {
    pub(crate) service: Service,
    pub(crate) token: Zeroizing<String>,
    pub(crate) lifetime: Duration,
}

#[derive(Deserialize)]
struct Answer {
    material: BTreeMap<String, Zeroizing<String>>,
    expires_in_seconds: u64,
}

#[async_trait]
impl Provider for Issuer {
    async fn mint(&self, wanted: &Wanted<'_>) -> Result<Minted, ProviderError> {
        let Wanted { intent, bearer, .. } = wanted;
        let document = json!({
            "credential_type": intent.credential_type(), "scope": intent.scope(),
            "lifetime_seconds": self.lifetime.as_secs(), "node_id": bearer.node_id, "task_id": bearer.task_id,
            "operation_id": bearer.operation_id, "step_id": bearer.step_id,
        });
        let question = self.service.ask(Method::POST)?.bearer_auth(self.token.as_str()).json(&document);
        let Answer { material, expires_in_seconds } = self.service.answer(question).await?;
        let parts = intent.credential_type().parts();
        if material.is_empty() || material.iter().any(|(name, part)| !parts.contains(&name.as_str()) || part.is_empty())
        {
            let reason =
                format!("a credential of type {} consists of {}", intent.credential_type(), parts.join(" or "));
            return Err(self.service.malformed(reason));
        }
        Ok(Minted { material, lifetime: Duration::from_secs(expires_in_seconds).min(LONGEST) })
    }
}
