//! What a host says of its node, within bounds.

use fettle_model::name::Label;
use fettle_store::node::NodeFacts;
use fettle_wire::node::RegisterRequest;
use tonic::Status;

/// Most capability facts, and most labels, of one node, and the longest of them.
const CAPABILITIES: usize = 64;
const CAPABILITY_LENGTH: usize = 200;

/// Most tasks of one node at once.
const SLOTS: u32 = 1024;

pub(super) fn facts(message: &RegisterRequest) -> Result<NodeFacts, Status> {
    let invalid = |text: String| Err(Status::invalid_argument(text));
    if let Err(error) = message.name.parse::<Label>() {
        return invalid(format!("node name: {error}"));
    }
    if message.slots == 0 || message.slots > SLOTS {
        return invalid(format!("`slots` is {}; write 1 to {SLOTS}", message.slots));
    }
    let long = |text: &String| text.len() > CAPABILITY_LENGTH;
    for (what, facts) in [("capabilities", &message.capabilities), ("labels", &message.labels)] {
        if facts.len() > CAPABILITIES || facts.iter().any(|(key, value)| long(key) || long(value)) {
            return invalid(format!(
                "a node has at most {CAPABILITIES} {what}, each of at most {CAPABILITY_LENGTH} bytes"
            ));
        }
    }
    if long(&message.host_version) {
        return invalid(format!("`host_version` has at most {CAPABILITY_LENGTH} bytes"));
    }
    Ok(NodeFacts {
        name: message.name.clone(),
        host_version: message.host_version.clone(),
        capabilities: message.capabilities.clone().into_iter().collect(),
        labels: message.labels.clone().into_iter().collect(),
        slots: message.slots,
    })
}
