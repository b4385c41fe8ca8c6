//! Join: a node becomes known, or known again after its certificate has expired.

use fettle_identity::{AuthorityError, Certificate, Peer, Role, requested_key};
use fettle_store::{
    StoreError,
    context::{Actor, Context},
    id::NodeId,
    node::{NewNode, NodeCertificate, NodeFacts, NodeKeys},
    secret::SecretHash,
};
use fettle_wire::node::{Credentials, JoinRequest, JoinResponse};
use jiff::SignedDuration;
use tonic::{Request, Status};

use super::{
    authentication::{connection, correlation_id},
    connection::{Connection, key_hash},
    facts::facts,
    refusals, status,
};
use crate::{
    clock::NoRandomness,
    identity::{
        authorities,
        lockouts::{self, Suspect},
        network::Network,
        secret,
    },
    state::State,
};

pub(super) async fn join(state: &State, request: Request<JoinRequest>) -> Result<JoinResponse, Status> {
    let (metadata, extensions, message) = request.into_parts();
    let asking = Asking { state, connection: connection(&extensions)?, request: &message.certificate_request };
    let context = |actor| state.context(actor, correlation_id(state, &metadata));
    let facts = facts(&message.node.unwrap_or_default())?;
    let (id, keys) = if message.expired_certificate.is_empty() {
        let header = metadata.get("authorization").and_then(|value| value.to_str().ok());
        asking.is_listened_to()?;
        let context = context(Actor::Joining);
        match header.and_then(secret::bearer).and_then(secret::join_token) {
            Some(token) => asking.by_token(SecretHash::of(token), &REFUSED, facts, context).await?,
            // Whoever shows no token is known by the key that makes the request, if at all.
            None => {
                let key = requested_key(asking.request).unwrap_or_default();
                asking.by_token(secret::key_hash(&key), &MISSING, facts, context).await?
            }
        }
    } else {
        asking.by_expired(&message.expired_certificate.into()).await?
    };
    let credentials = certify(state, id, asking.request, keys, context(Actor::Node(id))).await?;
    Ok(JoinResponse { node_id: id.to_string(), credentials: Some(credentials) })
}

/// Somebody with a join token that does not count.
const REFUSED: (&str, &str) = (
    "join.token_refused",
    "the join token is unknown, expired or used up; create one with `fettle-plane join-token create`",
);

/// Somebody without one, whose key nobody named.
const MISSING: (&str, &str) = (
    "join.token_missing",
    "joining needs a join token (metadata `authorization: Bearer <token>`), or a key that the plane was told of and that \
     nobody has joined with (`fettle-plane join-token create --for-key`)",
);

/// Somebody at the door.
struct Asking<'a> {
    state: &'a State,
    connection: &'a Connection,
    request: &'a [u8],
}

impl Asking<'_> {
    async fn refuse(&self, code: &'static str, status: fn(String) -> Status, reason: &str) -> Status {
        refusals::call(self.state, self.connection, code, status, reason).await
    }

    fn network(&self) -> Option<Network> {
        self.connection.address.map(|address| Network::of(address.ip()))
    }

    /// Whether this address has not shown too much that does not count. It may try again.
    fn is_listened_to(&self) -> Result<(), Status> {
        let wait = self.network().and_then(|network| self.state.lockouts.wait(Suspect::Network(network)));
        wait.map_or(Ok(()), |wait| {
            let reason = format!("too many join tokens that do not count came from here; try again in {wait:.0?}");
            Err(refusals::with_code(Status::resource_exhausted(reason), "access.locked_out"))
        })
    }

    async fn showed_what_does_not_count(&self) {
        let Some(network) = self.network() else { return };
        let id = self.state.ulid().map(|id| id.to_string()).unwrap_or_default();
        let context = self.state.context(Actor::Stranger, id);
        lockouts::count(self.state, Suspect::Network(network), format!("addresses/{network}"), context).await;
    }

    async fn by_token(
        &self,
        token: SecretHash,
        (code, reason): &(&'static str, &str),
        facts: NodeFacts,
        context: Context,
    ) -> Result<(NodeId, NodeKeys), Status> {
        let random = |error: NoRandomness| Status::internal(error.to_string());
        // Nothing is used up for a request that would not be signed.
        let key = self.key().await?;
        let node = NewNode { id: NodeId::new(self.state.ulid().map_err(random)?), facts, hash: key };
        match self.state.store.join_node(node, token, context).await {
            Ok(joined) => Ok((joined.id, NodeKeys { key, asked_by: None })),
            Err(StoreError::NotFound { .. }) => {
                let refused = self.refuse(code, Status::unauthenticated, reason).await;
                self.showed_what_does_not_count().await;
                Err(refused)
            }
            Err(error) => Err(status::store(error)),
        }
    }

    /// The node of a certificate that counted until lately, when the request is by the key of that certificate.
    async fn by_expired(&self, certificate: &Certificate) -> Result<(NodeId, NodeKeys), Status> {
        let (state, now) = (self.state, self.state.clock.now());
        let Some(peer) = self.counted_once(certificate) else {
            let reason = "the expired certificate was never one of a node here; join with a join token";
            return Err(self.refuse("join.certificate_unknown", Status::unauthenticated, reason).await);
        };
        let (id, until, key) = peer;
        let within = SignedDuration::try_from(state.config.rejoin_within).unwrap_or(SignedDuration::MAX);
        if now.duration_since(until) > within {
            let reason = format!(
                "the certificate expired at {until}, and a node may come back for {} only; join with a join token \
                 under a new name",
                humantime::format_duration(state.config.rejoin_within)
            );
            return Err(self.refuse("join.certificate_too_old", Status::permission_denied, &reason).await);
        }
        match state.store.node_standing(id).await.map_err(status::store)? {
            Some(standing) if !standing.is_revoked && standing.keys.count(&key) => {
                Ok((id, NodeKeys { key, asked_by: None }))
            }
            Some(standing) if !standing.is_revoked => {
                let reason = format!("node `{id}` has newer keys than this; was its data restored from a backup?");
                Err(self.refuse("node.certificate_outdated", Status::permission_denied, &reason).await)
            }
            Some(_) | None => {
                let reason = format!("node `{id}` is revoked or unknown; join with a join token under a new name");
                Err(self.refuse("node.revoked", Status::permission_denied, &reason).await)
            }
        }
    }

    /// Whose certificate this is, when it counted in its last second and its key made the request.
    fn counted_once(&self, certificate: &Certificate) -> Option<(NodeId, jiff::Timestamp, SecretHash)> {
        let until = Peer::read(certificate).ok()?.validity.until;
        let peer = self.state.authorities.current().counted(certificate, until)?;
        let Role::Node(id) = &peer.role else { return None };
        (requested_key(self.request)? == peer.public_key).then_some(())?;
        Some((id.parse().ok()?, until, key_hash(&peer.public_key)))
    }

    async fn key(&self) -> Result<SecretHash, Status> {
        match requested_key(self.request) {
            Some(key) => Ok(key_hash(&key)),
            None => {
                let reason = "the certificate request is malformed, or is not signed by the key it names";
                Err(self.refuse("join.request_malformed", Status::invalid_argument, reason).await)
            }
        }
    }
}

/// A certificate for the key of this request, once it is written down that the node has it.
pub(super) async fn certify(
    state: &State,
    id: NodeId,
    request: &[u8],
    keys: NodeKeys,
    context: Context,
) -> Result<Credentials, Status> {
    let internal = |error: NoRandomness| Status::internal(error.to_string());
    let current = state.authorities.current();
    let lifetime = SignedDuration::try_from(state.config.certificate_lifetime).unwrap_or(SignedDuration::MAX);
    let validity = authorities::validity(state.clock.now(), lifetime);
    let serial = authorities::serial(&*state.clock).map_err(internal)?;
    let issued = current.certify(request, id.to_string(), validity, serial).map_err(|error| match error {
        AuthorityError::Request(_) | AuthorityError::Algorithm => Status::invalid_argument(error.to_string()),
        _ => {
            tracing::error!(error = &error as &dyn std::error::Error, "a certificate was not signed");
            Status::internal("the plane's authority did not sign")
        }
    })?;
    let certificate = NodeCertificate {
        serial: issued.peer.serial,
        authority: issued.authority,
        expires_at: issued.peer.validity.until,
    };
    state.store.record_certificate(id, keys, certificate, context).await.map_err(status::store)?;
    Ok(Credentials {
        certificate: issued.certificate.to_vec(),
        authorities: current.roots().certificates().iter().map(|root| root.to_vec()).collect(),
        mark: current.mark.clone(),
        counts_for_seconds: u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX),
    })
}
