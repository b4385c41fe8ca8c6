//! `fettle completions`

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{arguments::Arguments, error::CommandError, output};

/// Prints a completion script.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle completions bash > ~/.local/share/bash-completion/completions/fettle
  fettle completions zsh > ~/.zfunc/_fettle")]
pub struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn run(&self) -> Result<(), CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "fettle", &mut script);
        output::write(&String::from_utf8_lossy(&script)).map_err(CommandError::output)
    }
}
