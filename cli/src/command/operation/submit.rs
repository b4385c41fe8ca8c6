//! `fettle operation submit`

use clap::Args;

use super::{Session, request::Request};
use crate::{command::target::PlaneArguments, error::CommandError, plane::PlaneError, watch};

/// Submits an operation and prints its id, or follows it until it is over.
///
/// The same request with the same idempotency key makes one operation, however often it is sent;
/// without one, each submission makes a new operation. Where the plane does not say whether it made the
/// operation (a timeout, an answer of 5xx), the error names the key to send again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation submit model.artifact.stage@v1 --node gpu-17 --input name=llama --watch
  fettle operation submit model.artifact.stage@v1 --inputs inputs.yaml --idempotency-key release-7")]
pub struct Submit {
    #[command(flatten)]
    request: Request,
    /// Follow it until it is over; the exit code is that of the operation.
    #[arg(long, short)]
    watch: bool,
    /// Makes a repeated submission the same operation.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Submit {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        // A key of its own lets the request be sent again when the connection breaks off.
        let key = self.idempotency_key.clone().or_else(random_key);
        let request = self.request.read(session, key)?;
        let client = self.plane.client(session).await?;
        let operation = client.submit(&request).await.map_err(|source| told(source, request.idempotency_key))?;
        session.warn(&operation.warnings);
        if self.watch {
            return watch::watch(session, &client, operation).await;
        }
        session.show(&operation, |operation| format!("{}\n", operation.operation_id))
    }
}

/// Where the operation may have been made, the key is told: with it, nobody makes a second one.
fn told(source: PlaneError, key: Option<String>) -> CommandError {
    match key {
        Some(key) if source.may_have_arrived() => CommandError::Unconfirmed { key, source },
        Some(_) | None => source.into(),
    }
}

fn random_key() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("fettle-{}", hex::encode(bytes)))
}
