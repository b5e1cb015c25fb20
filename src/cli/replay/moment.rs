//! A moment of a recording.

use std::str::FromStr;
use std::time::Duration;

use framework::Time;

use crate::config;

/// A moment: a time, or a time since the start of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// A wall time.
    At(Time),
    /// A time since the start.
    Since(Duration),
}

impl Moment {
    /// Returns the wall time, for a process that started at `start`.
    pub(super) fn after(self, start: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::Since(duration) => start + duration,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(offset) = text.strip_prefix('+') {
            let duration: config::Duration =
                offset.parse().map_err(|error| format!("{error}, expected for example +90s"))?;
            return Ok(Self::Since(duration.to_std()));
        }
        let time = Time::parse_rfc3339(text);
        time.map(Self::At).map_err(|error| {
            format!(
                "{error}; expected a time such as 2026-03-01T02:30:00Z, or an offset such as +90s"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_offsets() {
        let start = Time::from_secs(100);
        let after = |text: &str| text.parse::<Moment>().map(|moment| moment.after(start));
        assert_eq!(after("+1m30s"), Ok(Time::from_secs(190)));
        assert_eq!(after("1970-01-01T00:02:00Z"), Ok(Time::from_secs(120)));
        assert!(after("+90").unwrap_err().contains("expected for example +90s"));
        assert!(after("noon").unwrap_err().contains("expected a time such as"));
    }
}
