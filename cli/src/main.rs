//! `fettle`: the command line of authors and administrators. See the library.

fn main() -> std::process::ExitCode {
    fettle_cli::main()
}
