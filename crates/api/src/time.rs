//! Points in time. The engine reads no clock; every call gets the time as an argument.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in time that may be missing. It takes no more memory than a [`Time`], unlike an `Option`
/// of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionalTime(Time);

impl OptionalTime {
    /// No point in time.
    pub const NONE: Self = Self(Time(i64::MIN));

    /// Returns the point in time, if there is one.
    pub fn get(self) -> Option<Time> {
        (self != Self::NONE).then_some(self.0)
    }
}

impl Default for OptionalTime {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<Option<Time>> for OptionalTime {
    fn from(time: Option<Time>) -> Self {
        time.map_or(Self::NONE, Self)
    }
}

/// A point in time, in nanoseconds since the Unix epoch or since the start of a simulation.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(i64);

impl Time {
    /// The epoch.
    pub const ZERO: Self = Self(0);

    /// Returns a time from nanoseconds since the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns a time from whole seconds since the epoch; saturates.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// Returns the nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Parses an RFC 3339 timestamp, the format of Kubernetes.
    ///
    /// # Errors
    /// The text does not parse or is outside the years 1678 to 2261.
    pub fn parse_rfc3339(text: &str) -> Result<Self, String> {
        let stamp: jiff::Timestamp =
            text.parse().map_err(|error: jiff::Error| error.to_string())?;
        i64::try_from(stamp.as_nanosecond())
            .map(Self)
            .map_err(|_| format!("{text} is out of range"))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns this time rounded down to the second, to which the queue aligns backoffs.
    pub const fn floor_to_second(self) -> Self {
        Self(self.0.div_euclid(NANOS_PER_SECOND).saturating_mul(NANOS_PER_SECOND))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(stamp) => stamp.fmt(f),
            Err(_) => write!(f, "{} ns", self.0),
        }
    }
}

/// How far the wall clock is ahead of the time of the engine, in nanoseconds; negative if it is
/// behind.
///
/// The time of the engine begins at the wall time and then passes evenly, so that a correction of
/// the wall clock neither ends nor prolongs backoffs, timeouts and the authority of a leader. The
/// offset leads from it to the time stamps that others read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WallOffset(i64);

impl WallOffset {
    /// Returns the offset of a wall clock that shows `wall` at the time `now` of the engine.
    pub const fn between(now: Time, wall: Time) -> Self {
        Self(wall.0.saturating_sub(now.0))
    }

    /// Returns the wall time at a time of the engine.
    pub const fn wall_time(self, time: Time) -> Time {
        Time(time.0.saturating_add(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_to_second_rounds_towards_the_past() {
        let time = Time::parse_rfc3339("2025-06-01T12:00:01.834Z").unwrap();
        assert_eq!(time.floor_to_second().to_string(), "2025-06-01T12:00:01Z");
        assert_eq!(Time::from_nanos(-1).floor_to_second(), Time::from_secs(-1));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::from_nanos(i64::MAX) + Duration::MAX, Time::from_nanos(i64::MAX));
        assert_eq!(Time::ZERO.since(Time::from_secs(5)), Duration::ZERO);
        assert!(Time::parse_rfc3339("yesterday").is_err());
    }
}
