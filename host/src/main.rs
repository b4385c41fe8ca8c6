//! `fettle-host`: runs signed steps on a node. See the library.

fn main() -> std::process::ExitCode {
    fettle_host::command::main()
}
