//! Renew: a certificate for a new key, while the old one counts.

use fettle_store::node::NodeKeys;
use fettle_wire::node::{RenewRequest, RenewResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id},
    connection::key_hash,
    join::certify,
};
use crate::state::State;

pub(super) async fn renew(state: &State, request: Request<RenewRequest>) -> Result<RenewResponse, Status> {
    let caller = authenticate(state, &request).await?;
    let context = caller.context(state, correlation_id(state, request.metadata()));
    let message = request.into_inner();
    caller.check(state, &message.node_id)?;
    caller.check_renewal(state).await?;
    let Some(key) = fettle_identity::requested_key(&message.certificate_request) else {
        return Err(Status::invalid_argument(
            "the certificate request is malformed, or not signed by the key it names",
        ));
    };
    // The holder of the key that asks may never hear the answer.
    let keys = NodeKeys { key: key_hash(&key), asked_by: Some(caller.key()) };
    let credentials = certify(state, caller.id, &message.certificate_request, keys, context).await?;
    Ok(RenewResponse { credentials: Some(credentials) })
}
