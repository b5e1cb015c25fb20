//! The `loadmaster` command.

/// The allocator of the process. That of the C library keeps memory that pods have freed (docs/decisions/0038).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    loadmaster::run_with(framework::Registry::new())
}
