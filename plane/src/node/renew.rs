//! Renew: a certificate for a new key, while the old one counts.

use fettle_wire::node::{RenewRequest, RenewResponse};
use tonic::{Request, Status};

use super::{
    authentication::{authenticate, correlation_id},
    join::certify,
};
use crate::state::State;

pub(super) async fn renew(state: &State, request: Request<RenewRequest>) -> Result<RenewResponse, Status> {
    let caller = authenticate(state, &request).await?;
    let context = caller.context(state, correlation_id(state, request.metadata()));
    let message = request.into_inner();
    caller.check(state, &message.node_id)?;
    let credentials = certify(state, caller.id, &message.certificate_request, context).await?;
    Ok(RenewResponse { credentials: Some(credentials) })
}
