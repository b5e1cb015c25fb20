//! `/statusz`: versions, time since the start, and paths of this process.

use std::fmt::Write;

use framework::Level;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::zpages::Page;

/// The answer in place of the version of Go.
const NO_GO: &str = "none (built with rustc)";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Statusz {
    start_time: String,
    uptime_seconds: i64,
    go_version: &'static str,
    binary_version: String,
    emulation_version: String,
    paths: Vec<&'static str>,
}

/// The start of the process.
#[derive(Debug, Clone, Copy)]
pub struct Started {
    /// When the process started.
    pub at: Timestamp,
    /// The level that it follows.
    pub level: Level,
}

/// Returns the page of a process.
pub(super) fn page(started: &Started, now: Timestamp, paths: Vec<&'static str>) -> Page<Statusz> {
    let Started { at: started, level } = *started;
    let uptime = (now.as_second() - started.as_second()).max(0);
    let started_at = started.to_zoned(TimeZone::UTC);
    let fields = Statusz {
        start_time: started_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        uptime_seconds: uptime,
        go_version: NO_GO,
        binary_version: format!("{}.0+loadmaster-{}", Level::default(), env!("CARGO_PKG_VERSION")),
        emulation_version: level.to_string(),
        paths,
    };
    let up = format!("{} hr {:02} min {:02} sec", uptime / 3600, uptime / 60 % 60, uptime % 60);
    let lines = [
        ("Started", started_at.strftime("%a %b %e %H:%M:%S UTC %Y").to_string()),
        ("Up", up),
        ("Go version", NO_GO.to_owned()),
        ("Binary version", fields.binary_version.clone()),
        ("Emulation version", fields.emulation_version.clone()),
        ("Paths", fields.paths.join(" ")),
    ];
    let mut text = "\n".to_owned();
    for (name, value) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {value}");
    }
    Page { kind: "Statusz", text, fields }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_lines_of_kubernetes() {
        let started: Timestamp = "2026-09-06T06:19:51Z".parse().unwrap();
        let now = started + jiff::SignedDuration::from_secs(3 * 3600 + 4 * 60 + 5);
        let started = Started { at: started, level: Level::V1_36 };
        let page = page(&started, now, vec!["/healthz", "/livez"]);
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "
Started: Sun Sep  6 06:19:51 UTC 2026
Up: 3 hr 04 min 05 sec
Go version: none (built with rustc)
Binary version: 1.37.0+loadmaster-{version}
Emulation version: 1.36
Paths: /healthz /livez
"
        );
        assert_eq!(page.text, expected);
        assert_eq!(page.fields.start_time, "2026-09-06T06:19:51Z");
        assert_eq!(page.fields.uptime_seconds, 3 * 3600 + 4 * 60 + 5);
    }
}
