//! The `loadmaster` command.

fn main() -> std::process::ExitCode {
    loadmaster::run_with(framework::Registry::new())
}
