//! `policy` on the fake node.

use super::node::with;
use crate::policy::{ActivePolicies, Error};

pub(crate) fn active() -> Result<Option<ActivePolicies>, Error> {
    with(|state| {
        state.calls.push("policy.active".to_owned());
        if state.may_activate { Ok(state.active.clone()) } else { Err(Error::AccessDenied) }
    })
}

pub(crate) fn activate(activation: &str) -> Result<ActivePolicies, Error> {
    with(|state| {
        state.calls.push(format!("policy.activate {activation}"));
        let answer = state.activations.get(activation).cloned().unwrap_or(Err(Error::AccessDenied));
        if let Ok(active) = &answer {
            state.active = Some(active.clone());
        }
        answer
    })
}
