//! The `loadmaster` command.

fn main() -> std::process::ExitCode {
    loadmaster::cli::main()
}
