//! How what was published is shown.

use super::Session;
use crate::{error::CommandError, supply::Published};

/// The reference alone on its line, so that a script can take it.
pub(super) fn show(session: &Session, published: &Published) -> Result<(), CommandError> {
    session.show(published, |published| format!("{}\n", published.reference))
}
