//! `fettle-plane`, as scenarios start it.

fn main() -> std::process::ExitCode {
    fettle_plane::command::run()
}
