//! `fettle-plane`, as scenarios start it.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> std::process::ExitCode {
    fettle_plane::command::run()
}
