//! What is refused to nodes, and to those who only say that they are: counted, logged and written down, without
//! letting whoever is refused fill the log or the audit trail.

use std::net::{IpAddr, SocketAddr};

use fettle_identity::Refusal;
use fettle_store::{
    audit,
    context::{Actor, Context},
};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota};
use serde_json::json;
use tonic::{Status, metadata::AsciiMetadataValue};

use super::connection::Connection;
use crate::{identity::network::Network, state::State};

/// Refusals of one address that are written down in a minute, in the long run; the rest are only counted.
const WRITTEN: std::num::NonZeroU32 = std::num::NonZeroU32::new(10).unwrap();

/// Addresses that are told apart before those that were quiet are forgotten.
const ADDRESSES: usize = 10_000;

/// How a program reads the reason of a refusal.
pub(crate) const CODE: &str = "fettle-code";

/// The reasons why a node that shows a certificate, or none, is not listened to.
const NAMED: [&str; 7] = [
    "node.certificate_missing",
    "node.certificate_wrong_purpose",
    "node.certificate_expired",
    "node.certificate_outdated",
    "node.unknown",
    "node.revoked",
    "node.other_node",
];

/// The same of all addresses together.
const WRITTEN_AT_ALL: std::num::NonZeroU32 = std::num::NonZeroU32::new(120).unwrap();

/// Who was refused how often lately.
pub(crate) struct Refusals(Option<Limits>);

struct Limits {
    each: DefaultKeyedRateLimiter<Network>,
    all: DefaultDirectRateLimiter,
}

impl Default for Refusals {
    fn default() -> Self {
        let each = DefaultKeyedRateLimiter::keyed(Quota::per_minute(WRITTEN));
        Self(Some(Limits { each, all: DefaultDirectRateLimiter::direct(Quota::per_minute(WRITTEN_AT_ALL)) }))
    }
}

impl Refusals {
    /// All of them are written down.
    #[cfg(feature = "simulation")]
    pub(crate) const fn all() -> Self {
        Self(None)
    }

    fn may_be_written(&self, address: Option<IpAddr>) -> bool {
        self.0.as_ref().is_none_or(|limits| limits.allow(address))
    }
}

impl Limits {
    /// Those who come without a network are one.
    fn allow(&self, address: Option<IpAddr>) -> bool {
        let network = address.map_or(Network::NONE, Network::of);
        if self.each.len() > ADDRESSES {
            self.each.retain_recent();
        }
        // Beyond that many at once nobody is told apart.
        let may = self.each.len() > ADDRESSES || self.each.check_key(&network).is_ok();
        may && self.all.check().is_ok()
    }
}

/// A connection did not come about.
pub(super) async fn connection(state: &State, address: SocketAddr, refusal: Refusal) {
    written(state, Some(address), "node.connect", refusal.code(), &refusal.to_string(), None).await;
}

/// A call is refused. The status is what the other end is told.
pub(super) async fn call(
    state: &State,
    connection: &Connection,
    code: &'static str,
    status: fn(String) -> Status,
    reason: &str,
) -> Status {
    let shown = connection.peer.as_ref().map(|shown| format!("{:?} serial {}", shown.peer.role, shown.peer.serial));
    written(state, connection.address, "node.call", code, reason, shown).await;
    with_code(status(reason.to_owned()), code)
}

/// A status whose reason a program can read.
pub(super) fn with_code(mut status: Status, code: &'static str) -> Status {
    status.metadata_mut().insert(CODE, AsciiMetadataValue::from_static(code));
    status
}

/// How a program reads the reason of a refusal; of one without a name, its status.
pub(super) fn code_of(status: &Status) -> &'static str {
    let named = status.metadata().get(CODE).and_then(|value| value.to_str().ok());
    let known = NAMED.into_iter().find(|known| named == Some(known));
    known.unwrap_or(match status.code() {
        tonic::Code::InvalidArgument => "request.invalid",
        tonic::Code::Unavailable => "store.unavailable",
        _ => "internal",
    })
}

/// A node that is known was refused something.
pub(super) async fn of_node(
    state: &State,
    address: Option<SocketAddr>,
    (action, code): (&'static str, &'static str),
    (resource_name, details): (String, serde_json::Value),
    context: Context,
) {
    state.metrics.refused_nodes.with([code]).inc();
    if !state.refusals.may_be_written(address.map(|address| address.ip())) {
        return;
    }
    let refusal = audit::Refusal { scope: "platform".to_owned(), action, resource_name, code, details: Some(details) };
    if let Err(error) = state.store.record_refusal(refusal, context).await {
        tracing::error!(%error, "a refusal could not be written down");
    }
}

async fn written(
    state: &State,
    address: Option<SocketAddr>,
    action: &'static str,
    code: &'static str,
    reason: &str,
    shown: Option<String>,
) {
    state.metrics.refused_nodes.with([code]).inc();
    if !state.refusals.may_be_written(address.map(|address| address.ip())) {
        return;
    }
    let address = address.map_or_else(|| "unknown".to_owned(), |address| address.ip().to_string());
    tracing::warn!(address, code, reason, shown, "a node was refused");
    let refusal = audit::Refusal {
        scope: "platform".to_owned(),
        action,
        resource_name: format!("addresses/{address}"),
        code,
        details: Some(json!({"reason": reason, "certificate": shown})),
    };
    let context = state.context(Actor::Stranger, state.ulid().map(|id| id.to_string()).unwrap_or_default());
    if let Err(error) = state.store.record_refusal(refusal, context).await {
        tracing::error!(%error, "a refusal could not be written down");
    }
}
