//! `/statusz`: versions, time since the start, and paths of this process.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::zpages::Page;
use crate::metrics::KUBERNETES;

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

/// Returns the page of a process that started at `started`.
pub(super) fn page(started: Timestamp, now: Timestamp, paths: Vec<&'static str>) -> Page<Statusz> {
    let (major, minor) = KUBERNETES;
    let uptime = (now.as_second() - started.as_second()).max(0);
    let started_at = started.to_zoned(TimeZone::UTC);
    let fields = Statusz {
        start_time: started_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        uptime_seconds: uptime,
        go_version: NO_GO,
        binary_version: format!("{major}.{minor}.0+loadmaster-{}", env!("CARGO_PKG_VERSION")),
        emulation_version: format!("{major}.{minor}"),
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
        let page = page(started, now, vec!["/healthz", "/livez"]);
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "
Started: Sun Sep  6 06:19:51 UTC 2026
Up: 3 hr 04 min 05 sec
Go version: none (built with rustc)
Binary version: 1.36.0+loadmaster-{version}
Emulation version: 1.36
Paths: /healthz /livez
"
        );
        assert_eq!(page.text, expected);
        assert_eq!(page.fields.start_time, "2026-09-06T06:19:51Z");
        assert_eq!(page.fields.uptime_seconds, 3 * 3600 + 4 * 60 + 5);
    }
}
