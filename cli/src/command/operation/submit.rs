//! `fettle operation submit`

use clap::Args;

use super::{Session, request::Request};
use crate::{command::target::PlaneArguments, error::CommandError, watch};

/// Submits an operation and prints its id, or follows it until it is over.
///
/// The same request with the same idempotency key makes one operation, however often it is sent;
/// without one, each submission makes a new operation.
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
        let client = self.plane.client(session)?;
        let operation = client.submit(&request).await?;
        if self.watch {
            return watch::watch(session, &client, operation).await;
        }
        session.show(&operation, |operation| format!("{}\n", operation.operation_id))
    }
}

fn random_key() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("fettle-{}", hex::encode(bytes)))
}
