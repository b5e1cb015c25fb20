//! Runs the scenarios under callgrind.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::budget::Count;

/// Leaves out variants of functions of the C library that only some processors have, should
/// callgrind offer them.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-ERMS,-FSRM";

/// Whether callgrind can be run.
pub(crate) fn has_valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Returns the version of the compiler.
pub(crate) fn compiler() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("cannot run rustc")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Returns the instructions of a decision in each scenario.
pub(crate) fn all() -> anyhow::Result<Vec<Count>> {
    let folder = tempfile::tempdir()?;
    let parts = folder.path().join("part");
    let output = Command::new("valgrind")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GLIBC_TUNABLES", TUNABLES)
        .args(["--tool=callgrind", "--toggle-collect=*scenarios::counted*"])
        .arg("--dump-before=*scenarios::end*")
        .arg(format!("--callgrind-out-file={}", parts.display()))
        .arg(std::env::current_exe()?)
        .arg("--counted")
        .output()
        .context("cannot run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed: {text}");
    let lines = String::from_utf8(output.stdout)?;
    lines
        .lines()
        .enumerate()
        .map(|(place, line)| {
            let (decisions, name) = line.split_once(' ').context("a scenario has a name")?;
            let total = instructions(&parts.with_extension((place + 1).to_string()))?;
            Ok(Count { name: name.to_owned(), instructions: total / decisions.parse::<u64>()? })
        })
        .collect()
}

/// Reads the sum of a part of the output of callgrind.
fn instructions(part: &Path) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(part)
        .with_context(|| format!("callgrind has not written {}", part.display()))?;
    let of = |field: &str| text.lines().find_map(|line| line.strip_prefix(field));
    let Some(total) = of("totals: ").or_else(|| of("summary: ")) else {
        bail!("{} has no sum", part.display());
    };
    let total = total.trim().parse()?;
    ensure!(total > 0, "callgrind has counted nothing; is the function `counted` still there?");
    Ok(total)
}
