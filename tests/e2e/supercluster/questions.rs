//! `loadmaster sandbox --clusters`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::super::wait::eventually;

/// A sandbox. It is killed when dropped.
struct Sandbox(Child);

impl Drop for Sandbox {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn sandbox_answers_questions_with_the_command_that_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_loadmaster"))
        .args(["sandbox", "--clusters=1", "--write-clusters"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut sandbox = Sandbox(child);
    let output = BufReader::new(sandbox.0.stdout.take().unwrap());
    let printed = output
        .lines()
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("Questions: loadmaster ").map(str::to_owned));
    let printed = printed.expect("the command is printed");
    let args: Vec<&str> =
        printed.split(' ').map(|own| if own == "NAME" { "web" } else { own }).collect();
    eventually("the scheduler does not answer", async || {
        let asked = Command::new(env!("CARGO_BIN_EXE_loadmaster")).args(&args).output().unwrap();
        let error = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(!asked.status.success(), "{error}");
        error.contains("there is no pod default/web").then_some(())
    })
    .await;
}
