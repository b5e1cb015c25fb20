//! Ages as kubectl prints them.

use framework::Time;
use serde_json::Value;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Returns the time since a timestamp, `<unknown>` if there is none.
pub(crate) fn since(timestamp: &Value, now: Time) -> String {
    let then = timestamp.as_str().and_then(|text| Time::parse_rfc3339(text).ok());
    then.map_or_else(|| "<unknown>".to_owned(), |then| human(now.since(then).as_secs()))
}

/// Formats seconds in at most two units.
pub(super) fn human(seconds: u64) -> String {
    let two =
        |value: u64, unit: u64, large: &str, finer: u64, small: &str| match value % unit / finer {
            0 => format!("{}{large}", value / unit),
            rest => format!("{}{large}{rest}{small}", value / unit),
        };
    match seconds {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s, MINUTE, "m", 1, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s, HOUR, "h", MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s, DAY, "d", HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s, YEAR, "y", DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_get_coarser_as_they_grow() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (10 * MINUTE + 5, "10m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (9 * HOUR + 5 * MINUTE, "9h"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (9 * DAY, "9d"),
            (2 * YEAR + DAY, "2y1d"),
            (9 * YEAR, "9y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(seconds), expected);
        }
        assert_eq!(since(&Value::Null, Time::ZERO), "<unknown>");
    }
}
