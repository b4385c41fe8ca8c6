//! `credentials` on the fake node.

use super::node::with;
use crate::credentials::Error;

pub(crate) fn mint(credential_type: &str, scope: &str) -> Result<String, Error> {
    with(|state| {
        state.calls.push(format!("credentials.mint {credential_type} {scope}"));
        let key = (credential_type.to_owned(), scope.to_owned());
        state.credentials.get(&key).cloned().unwrap_or(Err(Error::AccessDenied))
    })
}
