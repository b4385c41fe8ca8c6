//! What went wrong in one exchange, before it is known which artifact it is about.

use std::{error::Error, fmt::Display, sync::Arc};

use fettle_egress::Refused;

use crate::error::{Cause, Defect, Outage, SupplyError};

/// An outage or a defect of something yet unnamed.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Outage(Outage, Option<Cause>),
    Defect(Defect),
}

impl Fault {
    pub(crate) const fn new(outage: Outage) -> Self {
        Self::Outage(outage, None)
    }

    pub(crate) fn caused(outage: Outage, cause: impl Error + Send + Sync + 'static) -> Self {
        Self::Outage(outage, Some(Arc::new(cause)))
    }

    /// A request that got no answer.
    pub(crate) fn sending(error: reqwest::Error) -> Self {
        if let Some(refused) = fettle_egress::refusal(&error) {
            return refused.clone().into();
        }
        let outage = if error.is_connect() || error.is_timeout() {
            Outage::Down
        } else if error.is_builder() {
            Outage::Protocol("its address is not one".to_owned())
        } else {
            Outage::BrokeOff { received: 0 }
        };
        Self::caused(outage, error.without_url())
    }

    /// A body that did not come to its end.
    pub(crate) fn reading(error: reqwest::Error, received: u64) -> Self {
        Self::caused(Outage::BrokeOff { received }, error.without_url())
    }

    /// The fault of this artifact.
    pub(crate) fn of(self, artifact: &dyn Display) -> SupplyError {
        let artifact = artifact.to_string();
        match self {
            Self::Outage(reason, source) => SupplyError::Unavailable { artifact, reason, source },
            Self::Defect(reason) => SupplyError::Malformed { artifact, reason },
        }
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        Self::new(Outage::Refused(refused))
    }
}

impl From<Defect> for Fault {
    fn from(defect: Defect) -> Self {
        Self::Defect(defect)
    }
}
