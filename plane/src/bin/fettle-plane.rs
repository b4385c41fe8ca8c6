//! The plane as a program.

fn main() -> std::process::ExitCode {
    fettle_plane::command::run()
}
