//! Points and spans of time.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use super::{Library, no_overload};
use crate::meter::Meter;
use crate::value::{Duration, Fault, Outcome, Value};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The parts of times, in UTC, in a zone such as `Europe/Berlin`, or with an offset such as
/// `+01:00`.
pub(crate) const LIBRARY: &Library = &[
    (
        "getFullYear",
        |_, args| part("getFullYear", args, |at| at.year().into()),
        &[
            "timestamp_to_year timestamp.() -> int",
            "timestamp_to_year_with_tz timestamp.(string) -> int",
        ],
    ),
    (
        "getMonth",
        |_, args| part("getMonth", args, |at| i64::from(at.month()) - 1),
        &[
            "timestamp_to_month timestamp.() -> int",
            "timestamp_to_month_with_tz timestamp.(string) -> int",
        ],
    ),
    (
        "getDayOfYear",
        |_, args| part("getDayOfYear", args, |at| i64::from(at.day_of_year()) - 1),
        &[
            "timestamp_to_day_of_year timestamp.() -> int",
            "timestamp_to_day_of_year_with_tz timestamp.(string) -> int",
        ],
    ),
    (
        "getDayOfMonth",
        |_, args| part("getDayOfMonth", args, |at| i64::from(at.day()) - 1),
        &[
            "timestamp_to_day_of_month timestamp.() -> int",
            "timestamp_to_day_of_month_with_tz timestamp.(string) -> int",
        ],
    ),
    (
        "getDate",
        |_, args| part("getDate", args, |at| at.day().into()),
        &[
            "timestamp_to_day_of_month_1_based timestamp.() -> int",
            "timestamp_to_day_of_month_1_based_with_tz timestamp.(string) -> int",
        ],
    ),
    (
        "getDayOfWeek",
        |_, args| part("getDayOfWeek", args, |at| at.weekday().to_sunday_zero_offset().into()),
        &[
            "timestamp_to_day_of_week timestamp.() -> int",
            "timestamp_to_day_of_week_with_tz timestamp.(string) -> int",
        ],
    ),
    (
        "getHours",
        |_, args| clock("getHours", args, 3600, |at| at.hour().into()),
        &[
            "timestamp_to_hours timestamp.() -> int",
            "timestamp_to_hours_with_tz timestamp.(string) -> int",
            "duration_to_hours duration.() -> int",
        ],
    ),
    (
        "getMinutes",
        |_, args| clock("getMinutes", args, 60, |at| at.minute().into()),
        &[
            "timestamp_to_minutes timestamp.() -> int",
            "timestamp_to_minutes_with_tz timestamp.(string) -> int",
            "duration_to_minutes duration.() -> int",
        ],
    ),
    (
        "getSeconds",
        |_, args| clock("getSeconds", args, 1, |at| at.second().into()),
        &[
            "timestamp_to_seconds_tz timestamp.() -> int",
            "timestamp_to_seconds_tz_with_tz timestamp.(string) -> int",
            "duration_to_seconds duration.() -> int",
        ],
    ),
    (
        "getMilliseconds",
        milliseconds,
        &[
            "timestamp_to_milliseconds timestamp.() -> int",
            "timestamp_to_milliseconds_with_tz timestamp.(string) -> int",
            "duration_to_milliseconds duration.() -> int",
        ],
    ),
];

/// Returns date and time in UTC or a zone.
fn civil(at: &Timestamp, zone: Option<&str>) -> Result<DateTime, Fault> {
    let zone = match zone {
        // The reference runs where the local time is UTC.
        None | Some("" | "UTC" | "Local") => return Ok(Offset::UTC.to_datetime(*at)),
        Some(zone) => zone,
    };
    let Some((hours, minutes)) = zone.split_once(':') else {
        return named_zone(zone).map(|zone| zone.to_datetime(*at));
    };
    let parse = |text: &str| {
        text.parse::<i32>()
            .map_err(|_| Fault::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
    };
    let (hours, minutes) = (parse(hours)?, parse(minutes)?);
    let minutes = if zone.starts_with('-') { -minutes } else { minutes };
    let seconds = hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60));
    let offset =
        Offset::from_seconds(seconds).map_err(|_| Fault::new("time zone offset out of range"))?;
    Ok(offset.to_datetime(*at))
}

/// Returns a zone of the database that is part of the program. The files of the host are not read,
/// so that decisions are the same everywhere.
fn named_zone(name: &str) -> Result<TimeZone, Fault> {
    if name.starts_with(['/', '\\']) || name.contains("..") {
        return Err(Fault::new("time: invalid location name"));
    }
    TimeZoneDatabase::bundled()
        .get(name)
        .ok()
        // The database ignores case, and the reference looks for a file of this name.
        .filter(|zone| zone.iana_name() == Some(name) && !zone.is_unknown())
        .ok_or_else(|| Fault::new(format!("unknown time zone {name}")))
}

fn zoned(args: &[Value<'_>]) -> Option<Result<DateTime, Fault>> {
    match args {
        [Value::Timestamp(at)] => Some(civil(at, None)),
        [Value::Timestamp(at), Value::String(zone)] => Some(civil(at, Some(zone))),
        _ => None,
    }
}

fn part<'a>(function: &str, args: &[Value<'a>], part: fn(DateTime) -> i64) -> Outcome<'a> {
    match zoned(args) {
        Some(at) => Ok(Value::Int(part(at?))),
        None => no_overload(function, args),
    }
}

/// Returns a part of a time, or the length of a span in units of so many seconds.
fn clock<'a>(
    function: &str,
    args: &[Value<'a>],
    unit: i64,
    part: fn(DateTime) -> i64,
) -> Outcome<'a> {
    match args {
        [Value::Duration(span)] => Ok(Value::Int(span.0 / NANOS_PER_SECOND / unit)),
        _ => self::part(function, args, part),
    }
}

fn milliseconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Duration(span)] => Ok(Value::Int(span.0 / 1_000_000)),
        _ => part("getMilliseconds", args, |at| i64::from(at.subsec_nanosecond()) / 1_000_000),
    }
}

/// Parses a time of RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    // Other forms of ISO 8601 are not accepted.
    let is_rfc3339 =
        bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes[13] == b':';
    if is_rfc3339 && !text.contains('[') { text.parse().ok() } else { None }
}

/// Parses a span such as `1h2m3.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(Duration(0));
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, after) = rest.split_at(end);
        let end =
            after.find(|char: char| char.is_ascii_digit() || char == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 40
        {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        let mut scale = unit;
        for digit in fraction.bytes() {
            total = total.checked_add(i128::from(digit - b'0') * scale / 10)?;
            scale /= 10;
        }
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).ok().map(Duration)
}

/// Prints a span in seconds.
pub(crate) fn print_duration(span: Duration) -> String {
    let (seconds, nanos) = (
        span.0.unsigned_abs() / NANOS_PER_SECOND as u64,
        span.0.unsigned_abs() % NANOS_PER_SECOND as u64,
    );
    let sign = if span.0 < 0 { "-" } else { "" };
    let fraction = format!("{nanos:09}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{seconds}{point}{fraction}s")
}
