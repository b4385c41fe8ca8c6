//! `fettle exit-codes`

use serde_json::json;

use crate::{error::CommandError, exit::Exit, output::Output};

/// Prints the exit codes.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(output: Output) -> Result<(), CommandError> {
    let codes: Vec<_> =
        Exit::ALL.iter().map(|exit| json!({ "code": exit.code(), "meaning": exit.meaning() })).collect();
    output.show(&codes, |_| Exit::table()).map_err(CommandError::output)
}
