//! Durations in messages, as Go prints them.

use std::time::Duration;

/// Returns a duration as Go prints it: `15m0s`, `1.5s`, `20ms`.
pub(crate) fn go_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let in_units = |unit: u128, name: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let digits = unit.ilog10() as usize;
        let fraction = format!(".{rest:0digits$}");
        format!("{whole}{}{name}", fraction.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => in_units(1_000, "µs"),
        1_000_000..1_000_000_000 => in_units(1_000_000, "ms"),
        _ => {
            let minutes = duration.as_secs() / 60;
            let seconds = duration - Duration::from_secs(minutes * 60);
            let seconds = format!("{}s", seconds.as_nanos() as f64 / 1e9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_those_of_go() {
        let rows = [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(7), "7ns"),
            (Duration::from_nanos(1_500), "1.5µs"),
            (Duration::from_millis(20), "20ms"),
            (Duration::from_millis(1_500), "1.5s"),
            (Duration::from_secs(900), "15m0s"),
            (Duration::from_secs(3_661), "1h1m1s"),
        ];
        for (duration, text) in rows {
            assert_eq!(go_duration(duration), text);
        }
    }
}
