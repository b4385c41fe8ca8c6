//! `fettle-host`, as scenarios start it.

fn main() -> std::process::ExitCode {
    fettle_host::command::main()
}
