//! Which component implements which step kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{name::StepKind, reference::Reference};

/// A signed map from step kinds to components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// The components, by kind.
    pub steps: BTreeMap<StepKind, Reference>,
}
