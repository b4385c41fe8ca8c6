//! Following an operation until it is over: drawn live on a terminal, as plain lines anywhere else.
//!
//! [`state`] folds what the plane tells, [`draw`] and [`plain`] make text of it and touch nothing,
//! `live` puts the text on a terminal.

pub mod draw;
mod live;
pub mod plain;
pub mod state;
pub mod summary;
mod text;

use std::io::IsTerminal as _;

use fettle_model::operation::OperationStatus;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::{live::Live, state::WatchState};
use crate::{
    command::Session,
    error::CommandError,
    output,
    plane::{Followed, Follower, Operation, Patience, PlaneClient},
};

pub use self::text::clean;

/// Where the story of an operation goes.
enum Stage {
    /// Drawn on a terminal.
    Live(Live),
    /// One line per event.
    Plain,
    /// One JSON value per line.
    Json,
}

/// Follows an operation until it is over.
///
/// # Errors
/// `Ended` when it did not succeed; when the plane refuses or stays away; when interrupted.
pub async fn watch(session: &Session, client: &PlaneClient, operation: Operation) -> Result<(), CommandError> {
    let id = operation.operation_id.clone();
    // What answers a submission need not name the steps.
    let operation = if operation.steps.is_some() { operation } else { client.operation(&id).await? };
    let mut state = WatchState::new(&operation);
    let mut stage = Stage::choose(session);
    let mut follower = Follower::of_operation(client, &id, Patience::default());
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let mut frames = tokio::time::interval(live::FRAME);
    loop {
        tokio::select! {
            heard = follower.next() => match heard {
                Some(Ok(heard)) => stage.hear(&mut state, heard)?,
                Some(Err(error)) => {
                    stage.end();
                    return Err(error.into());
                }
                None => break,
            },
            _ = frames.tick(), if matches!(stage, Stage::Live(_)) => {
                if let Stage::Live(live) = &mut stage {
                    live.draw(&state, now());
                }
            }
            _ = &mut interrupted => {
                stage.interrupt(&state);
                output::remark(&format!("the operation goes on; watch it again with `fettle operation watch {id}`"));
                return Err(CommandError::Interrupted);
            }
        }
    }
    let ended = client.operation(&id).await;
    stage.end();
    finish(&stage, state, ended?)
}

fn finish(stage: &Stage, mut state: WatchState, ended: Operation) -> Result<(), CommandError> {
    state.refresh(&ended);
    let text = match stage {
        Stage::Live(live) => live.last_frame(&state, now()) + "\n" + &summary::text(&ended),
        Stage::Plain => summary::text(&ended),
        Stage::Json => json_text(&json!({ "type": "operation", "operation": ended })) + "\n",
    };
    write(&text)?;
    result(&ended)
}

/// What the end of an operation means to the program.
///
/// # Errors
/// When it did not succeed.
pub fn result(operation: &Operation) -> Result<(), CommandError> {
    match operation.status {
        OperationStatus::Succeeded => Ok(()),
        status @ (OperationStatus::Queued
        | OperationStatus::Running
        | OperationStatus::Failed
        | OperationStatus::Canceled) => Err(CommandError::Ended { id: operation.operation_id.clone(), status }),
    }
}

impl Stage {
    fn choose(session: &Session) -> Self {
        if session.output.json {
            return Self::Json;
        }
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb { Self::Live(Live::new()) } else { Self::Plain }
    }

    fn hear(&mut self, state: &mut WatchState, heard: Followed) -> Result<(), CommandError> {
        let line = match self {
            Self::Live(_) => None,
            Self::Plain => plain::line(state, &heard),
            Self::Json => json_line(&heard),
        };
        state.hear(heard);
        match line {
            Some(line) => write(&(line + "\n")),
            None => Ok(()),
        }
    }

    fn end(&self) {
        if let Self::Live(live) = self {
            live.clear();
        }
    }

    fn interrupt(&self, state: &WatchState) {
        if let Self::Live(live) = self {
            live.clear_after_interrupt();
            let _ = output::write(&live.last_frame(state, now()));
        }
    }
}

fn json_line(heard: &Followed) -> Option<String> {
    match heard {
        Followed::Event { whole, .. } => Some(json_text(&json!({ "type": "event", "event": whole }))),
        Followed::Log(line) => Some(json_text(&json!({ "type": "log", "log": line }))),
        Followed::Lost | Followed::Back => None,
    }
}

fn json_text(value: &Value) -> String {
    output::json_text(&value.to_string())
}

/// Writes a part of the story. A reader that has seen enough is no reason to stop watching: the exit
/// code is still to come.
fn write(text: &str) -> Result<(), CommandError> {
    output::even_if_unread(output::write(text)).map_err(CommandError::Output)
}

pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
