//! Child processes that end with this process, however it ends.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs its arguments, kills them when its input closes, and ends when they end. The system closes
/// the input even if this process is killed. The folder is then removed; if the program ended by
/// itself, the folder stays, because its log may be of interest.
const LEASH: &str = r#"
folder=$0
exec 3<&0
"$@" 3<&- &
child=$!
( read -r _ <&3; kill -KILL "$child" ) &
leash=$!
wait "$child"
status=$?
kill "$leash" 2>/dev/null
[ "$status" -ne 137 ] || rm -rf "$folder"
exit "$status"
"#;

/// Number of lines of a log that are shown after a failure.
const LAST_LINES: usize = 15;

/// Returns a port that was free a moment ago.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server that runs in the background for the rest of this process.
pub(super) struct Server {
    leash: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a program with data and log in `folder`.
    pub(super) fn start(program: &Path, args: &[String], folder: &Path) -> Self {
        let log = folder.join("log");
        let output = File::create(&log).unwrap();
        let leash = Command::new("sh")
            .arg("-c")
            .args([LEASH.as_ref(), folder, program])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        Self { leash, log }
    }

    /// Fails with the end of the log if the program has ended.
    pub(super) fn assert_runs(&mut self) {
        if let Some(status) = self.leash.try_wait().unwrap() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
            panic!("a server ended: {status}; {} says:\n{last}", self.log.display());
        }
    }
}
