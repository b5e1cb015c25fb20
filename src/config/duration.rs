//! Durations in the notation of Go: `1m30s`.

use std::fmt;

use serde::{Serialize, Serializer};

/// A duration in nanoseconds; may be negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(i64);

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000 * MICROSECOND;
const SECOND: i64 = 1_000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Units and their names; `µ` has two code points in Unicode.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", MICROSECOND),
    ("\u{b5}s", MICROSECOND),
    ("\u{3bc}s", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The format is wrong, or the text is too long.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    NoUnit(String),
    /// A number with an unknown unit.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

impl Duration {
    /// Whole seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds * SECOND)
    }

    /// Whether it is 0.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Converts to the duration of the standard library; 0 if negative.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl std::str::FromStr for Duration {
    type Err = DurationError;

    /// Parses a sign and numbers with units, for example `-1.5h`, `2m30s` or `0`.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut nanos = 0_u64;
        while !rest.is_empty() {
            let (part, after) = part(rest, text)?;
            nanos = nanos.checked_add(part).filter(|sum| *sum <= 1 << 63).ok_or_else(invalid)?;
            rest = after;
        }
        let signed =
            if negative { 0_i64.checked_sub_unsigned(nanos) } else { nanos.try_into().ok() };
        signed.map(Self).ok_or_else(invalid)
    }
}

/// Returns the nanoseconds of the first number and unit of `rest`, and the remaining text.
fn part<'a>(rest: &'a str, text: &str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (whole, after) = digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (name, after) = after.split_at(end);
    if name.is_empty() {
        return Err(DurationError::NoUnit(text.to_owned()));
    }
    let Some((_, unit)) = UNITS.iter().find(|(own, _)| *own == name) else {
        return Err(DurationError::UnknownUnit { unit: name.to_owned(), text: text.to_owned() });
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    let whole = whole.checked_mul(unit.unsigned_abs()).ok_or_else(invalid)?;
    Ok((whole.checked_add(scaled(fraction, *unit)).ok_or_else(invalid)?, after))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The decimal digits as a share of a unit, truncated below a nanosecond.
fn scaled(fraction: &str, unit: i64) -> u64 {
    // Units are below 10^13 and 18 digits below 10^18: the product fits 128 bits.
    let kept = &fraction[..fraction.len().min(18)];
    let numerator: u128 = kept.parse().unwrap_or(0);
    let share = numerator * u128::from(unit.unsigned_abs()) / 10_u128.pow(kept.len() as u32);
    u64::try_from(share).unwrap_or(u64::MAX)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let decimal = |f: &mut fmt::Formatter<'_>, value: u64, unit: i64, name: &str| {
            let unit = unit.unsigned_abs();
            let width = unit.ilog10() as usize;
            let fraction = format!("{:0width$}", value % unit);
            match fraction.trim_end_matches('0') {
                "" => write!(f, "{}{name}", value / unit),
                fraction => write!(f, "{}.{fraction}{name}", value / unit),
            }
        };
        let (hours, minutes) = (HOUR.unsigned_abs(), MINUTE.unsigned_abs());
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, MICROSECOND, "\u{b5}s"),
            1_000_000..1_000_000_000 => decimal(f, nanos, MILLISECOND, "ms"),
            _ => {
                if nanos >= hours {
                    write!(f, "{}h", nanos / hours)?;
                }
                if nanos >= minutes {
                    write!(f, "{}m", nanos % hours / minutes)?;
                }
                decimal(f, nanos % minutes, SECOND, "s")
            }
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_print_as_in_go() {
        let rows = [
            ("0", "0s"),
            ("0s", "0s"),
            ("-0", "0s"),
            ("15s", "15s"),
            ("90s", "1m30s"),
            ("600s", "10m0s"),
            ("1h", "1h0m0s"),
            ("-1.5h", "-1h30m0s"),
            ("1.000000001s", "1.000000001s"),
            ("+100ms", "100ms"),
            ("1us", "1\u{b5}s"),
            ("1500ns", "1.5\u{b5}s"),
            (".5s", "500ms"),
            ("5.s", "5s"),
            ("2m3.5s", "2m3.5s"),
            ("9223372036854775807ns", "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_durations_have_the_error_texts_of_go() {
        let rows = [
            ("", "time: invalid duration \"\""),
            ("abc", "time: invalid duration \"abc\""),
            (".s", "time: invalid duration \".s\""),
            ("-", "time: invalid duration \"-\""),
            ("10", "time: missing unit in duration \"10\""),
            ("1m10", "time: missing unit in duration \"1m10\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("1h2x", "time: unknown unit \"x\" in duration \"1h2x\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("99999999999999999999h", "time: invalid duration \"99999999999999999999h\""),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse::<Duration>().unwrap_err().to_string(), expected, "{text}");
        }
    }
}
