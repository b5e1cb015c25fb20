//! The `loadmaster` binary as people call it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod api;
#[cfg(feature = "simulator")]
mod bad_input;
#[cfg(feature = "simulator")]
mod compare;
mod config;
mod daemon;
#[cfg(all(feature = "sandbox", feature = "simulator"))]
mod dump;
mod explain;
#[cfg(feature = "simulator")]
mod extenders;
#[cfg(feature = "simulator")]
mod gate;
#[cfg(feature = "sandbox")]
mod perf;
#[cfg(feature = "simulator")]
mod replay;
#[cfg(feature = "simulator")]
mod rules;
#[cfg(feature = "simulator")]
mod scheduler_plugins;
#[cfg(feature = "simulator")]
mod simulate;
#[cfg(feature = "simulator")]
mod trace;
mod ui;
#[cfg(feature = "simulator")]
mod what_if;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a call of the binary left behind.
struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Answer {
    /// Standard output of a call that went well.
    #[track_caller]
    fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Standard output as JSON.
    #[track_caller]
    fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// Standard error of a call that was refused with this code.
    #[track_caller]
    fn refused(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        assert_eq!(self.out, "", "nothing is printed beside the error");
        self.err
    }
}

impl Answer {
    /// Standard error of a call that failed with this code after it had printed something.
    #[track_caller]
    #[cfg(feature = "simulator")]
    fn refused_after_output(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self.err
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Calls the binary in the fixtures folder.
fn loadmaster(args: &[&str]) -> Answer {
    loadmaster_with(args, "")
}

/// The same with this standard input.
fn loadmaster_with(args: &[&str], input: &str) -> Answer {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadmaster"))
        .args(args)
        .current_dir(fixtures())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A call that is refused may not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap().into()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fixtures")
}

/// A file of this name and content in a folder of its own.
fn written(name: &str, content: &[u8]) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// Pods and their nodes, in the order of the decisions.
fn placements(answer: &serde_json::Value) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let placed = answer["simulation"]["placed"].as_array().unwrap();
    placed.iter().map(|pod| (text(&pod["name"]), text(&pod["node"]))).collect()
}
