//! Text of figures.

use std::time::Duration;

/// Formats a duration in a suitable unit.
pub(crate) fn text(duration: Duration) -> String {
    match duration.as_nanos() {
        nanos if nanos < 10_000 => format!("{nanos} ns"),
        nanos if nanos < 10_000_000 => format!("{:.1} us", duration.as_secs_f64() * 1e6),
        _ => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
    }
}
