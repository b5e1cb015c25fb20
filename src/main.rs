//! The `loadmaster` command.

/// The allocator of the process. That of the C library keeps memory that pods have freed
/// (docs/decisions/0038).
#[cfg(not(feature = "profiling"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The allocator of a build with profiles. It samples allocations.
#[cfg(feature = "profiling")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    loadmaster::run_with(framework::Registry::new())
}
