//! The daemon over HTTPS: `cargo bench --bench daemon [-- PART...]`.
//!
//! Sandbox and scheduler are separate processes on the same machine, with the release binary; CPU
//! time and memory are read from `/proc`. Prints a table on a terminal, otherwise one JSON object
//! per part.

mod client;
mod cluster;
mod figures;
mod parts;
mod process;
mod radius;
mod rate;
mod server;
mod soak;
mod start;

use std::io::{self, IsTerminal};

use anyhow::bail;

use figures::Part;

fn main() -> anyhow::Result<()> {
    // Cargo itself passes `--bench`.
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen = chosen(&names)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut measured = Vec::new();
    for part in chosen {
        eprintln!("{}: load average {}", part.name, process::load_average()?);
        let figures = runtime.block_on((part.measure)())?;
        if !io::stdout().is_terminal() {
            println!("{}", figures::json(part.name, &figures));
        }
        measured.push((part.name, figures));
    }
    if io::stdout().is_terminal() {
        print!("{}", figures::table(&measured));
    }
    Ok(())
}

/// Returns the parts with these names; all parts but the longest if there are none.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Part>> {
    if names.is_empty() {
        return Ok(parts::ALL.iter().collect());
    }
    let all = || parts::ALL.iter().chain([&parts::SOAK]);
    let part = |name: &String| match all().find(|part| part.name == name) {
        Some(part) => Ok(part),
        None => {
            let known: Vec<&str> = all().map(|part| part.name).collect();
            bail!("no part {name:?}; there are {}", known.join(", "))
        }
    };
    names.iter().map(part).collect()
}
