//! Layouts of times, in the notation of package time of Go: the time
//! `Mon Jan 2 15:04:05 -0700 2006` as it would look.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A part of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Year,
    /// Two digits; from 69 on of the last century.
    ShortYear,
    Month(Digits),
    /// A name, whole or its first three letters.
    MonthName(Letters),
    Day(Digits),
    DayOfYear,
    Weekday(Letters),
    Hour,
    /// Of twelve.
    HalfDayHour(Digits),
    Minute(Digits),
    Second(Digits),
    AmPm,
    /// A fraction of a second with so many digits; `None` for any number, or no fraction.
    Fraction(Option<usize>),
    Offset(Offset),
    Text(String),
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    /// One or two.
    Short,
    Two,
    /// Two, of which the first may be a space.
    Padded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Three,
    All,
}

/// How the distance from UTC is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    /// Whether `Z` stands for UTC.
    z: bool,
    minutes: bool,
    colon: bool,
}

/// What the parts are called, the longer ones before their beginnings.
const NAMES: [(&str, Part); 30] = [
    ("January", Part::MonthName(Letters::All)),
    ("Jan", Part::MonthName(Letters::Three)),
    ("Monday", Part::Weekday(Letters::All)),
    ("Mon", Part::Weekday(Letters::Three)),
    ("2006", Part::Year),
    ("002", Part::DayOfYear),
    ("01", Part::Month(Digits::Two)),
    ("02", Part::Day(Digits::Two)),
    ("03", Part::HalfDayHour(Digits::Two)),
    ("04", Part::Minute(Digits::Two)),
    ("05", Part::Second(Digits::Two)),
    ("06", Part::ShortYear),
    ("15", Part::Hour),
    ("_2", Part::Day(Digits::Padded)),
    ("PM", Part::AmPm),
    ("pm", Part::AmPm),
    ("Z07:00", Part::Offset(Offset { z: true, minutes: true, colon: true })),
    ("Z0700", Part::Offset(Offset { z: true, minutes: true, colon: false })),
    ("Z07", Part::Offset(Offset { z: true, minutes: false, colon: false })),
    ("-07:00", Part::Offset(Offset { z: false, minutes: true, colon: true })),
    ("-0700", Part::Offset(Offset { z: false, minutes: true, colon: false })),
    ("-07", Part::Offset(Offset { z: false, minutes: false, colon: false })),
    ("1", Part::Month(Digits::Short)),
    ("2", Part::Day(Digits::Short)),
    ("3", Part::HalfDayHour(Digits::Short)),
    ("4", Part::Minute(Digits::Short)),
    ("5", Part::Second(Digits::Short)),
    (".9", Part::Fraction(None)),
    (",9", Part::Fraction(None)),
    (".0", Part::Fraction(Some(1))),
];

/// Parts of Go's layouts that are not read.
const REFUSED: [&str; 6] = ["MST", "Z070000", "Z07:00:00", "-070000", "-07:00:00", "__2"];

/// A layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout(Vec<Part>);

impl Layout {
    /// Reads a layout.
    ///
    /// # Errors
    /// The layout has a part that is not read.
    pub(super) fn parse(layout: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), layout);
        while let Some(first) = rest.chars().next() {
            if let Some(refused) = REFUSED.iter().find(|name| rest.starts_with(**name)) {
                return Err(format!(
                    "{refused:?} in the layout {layout:?} is not read; write the distance from \
                     UTC as Z07:00 or -07:00"
                ));
            }
            let known = NAMES.iter().find(|(name, _)| rest.starts_with(name));
            let after = |len: usize| rest[len..].chars().next();
            let (part, len) = match known {
                Some((_, Part::Fraction(_))) => {
                    let digit = if rest[1..].starts_with('9') { '9' } else { '0' };
                    let zeros = rest[1..].chars().take_while(|char| *char == digit).count();
                    match after(1 + zeros) {
                        // A number that goes on is no fraction.
                        Some(next) if next.is_ascii_digit() => (text_of(first), 1),
                        _ => (Part::Fraction((digit == '0').then_some(zeros)), 1 + zeros),
                    }
                }
                Some((name, part)) => (part.clone(), name.len()),
                None if rest.starts_with(",0") => {
                    let zeros = rest[1..].chars().take_while(|char| *char == '0').count();
                    (Part::Fraction(Some(zeros)), 1 + zeros)
                }
                None => (text_of(first), first.len_utf8()),
            };
            match (parts.last_mut(), part) {
                (Some(Part::Text(before)), Part::Text(more)) => before.push_str(&more),
                (_, part) => parts.push(part),
            }
            rest = &rest[len..];
        }
        Ok(Self(parts))
    }

    /// Returns the seconds from 1970 to the time that `text` names; `None` if it is not written in
    /// this layout. A part of a second is left out.
    pub(super) fn read(&self, text: &str) -> Option<i64> {
        let mut time = Fields::default();
        let mut rest = text;
        for (place, part) in self.0.iter().enumerate() {
            rest = part.read(rest, &mut time)?;
            let fraction_follows = matches!(self.0.get(place + 1), Some(Part::Fraction(_)));
            if matches!(part, Part::Second(_)) && !fraction_follows {
                rest = skip_fraction(rest);
            }
        }
        if !rest.is_empty() {
            return None;
        }
        time.seconds()
    }
}

fn text_of(char: char) -> Part {
    Part::Text(char.to_string())
}

/// Skips a fraction that the layout does not name.
fn skip_fraction(text: &str) -> &str {
    let Some(digits) = text.strip_prefix(['.', ',']) else { return text };
    let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 { text } else { &digits[end..] }
}

/// The fields of a time.
#[derive(Debug)]
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    afternoon: Option<bool>,
    /// East of UTC, in seconds.
    offset: i64,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            year: 0,
            month: 1,
            day: 1,
            day_of_year: None,
            hour: 0,
            minute: 0,
            second: 0,
            afternoon: None,
            offset: 0,
        }
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

impl Fields {
    fn seconds(&self) -> Option<i64> {
        let (next_year, next_month) = match self.month {
            12 => (self.year + 1, 1),
            month => (self.year, month + 1),
        };
        let first = days_before(self.year, self.month, 1);
        let days = match self.day_of_year {
            Some(day) => {
                let start = days_before(self.year, 1, 1);
                let len = days_before(self.year + 1, 1, 1) - start;
                (1..=len).contains(&day).then(|| start + day - 1)?
            }
            None => {
                let len = days_before(next_year, next_month, 1) - first;
                (1..=len).contains(&self.day).then(|| first + self.day - 1)?
            }
        };
        let hour = match (self.afternoon, self.hour) {
            (Some(true), hour @ 0..12) => hour + 12,
            (Some(false), 12) => 0,
            (_, hour) => hour,
        };
        Some(((days * 24 + hour) * 60 + self.minute) * 60 + self.second - self.offset)
    }
}

/// Splits off a number of `min` to `max` digits, within `range`.
fn number(
    text: &str,
    digits: std::ops::RangeInclusive<usize>,
    range: std::ops::RangeInclusive<i64>,
) -> Option<(i64, &str)> {
    let len = text.bytes().take(*digits.end()).take_while(u8::is_ascii_digit).count();
    if len < *digits.start() {
        return None;
    }
    let number: i64 = text[..len].parse().ok()?;
    range.contains(&number).then_some((number, &text[len..]))
}

impl Digits {
    fn read(self, text: &str, range: std::ops::RangeInclusive<i64>) -> Option<(i64, &str)> {
        match self {
            Self::Two => number(text, 2..=2, range),
            Self::Short => number(text, 1..=2, range),
            Self::Padded => {
                let digits = text.strip_prefix(' ').unwrap_or(text);
                number(digits, 1..=2, range)
            }
        }
    }
}

/// Splits off one of the names; the case of letters does not matter. Returns its place.
fn name<'a>(text: &'a str, names: &[&str], letters: Letters) -> Option<(i64, &'a str)> {
    let shown = |name: &str| match letters {
        Letters::All => name.len(),
        Letters::Three => 3,
    };
    let place = names.iter().position(|name| {
        let shown = &name[..shown(name)];
        text.get(..shown.len()).is_some_and(|text| text.eq_ignore_ascii_case(shown))
    })?;
    Some((place as i64, &text[shown(names[place])..]))
}

impl Part {
    /// Takes the part from the beginning of `text` and returns the rest.
    fn read<'a>(&self, text: &'a str, time: &mut Fields) -> Option<&'a str> {
        let rest;
        match self {
            Self::Text(own) => return text.strip_prefix(&**own),
            Self::Year => (time.year, rest) = number(text, 4..=4, 0..=9999)?,
            Self::ShortYear => {
                let short;
                (short, rest) = number(text, 2..=2, 0..=99)?;
                time.year = if short >= 69 { 1900 + short } else { 2000 + short };
            }
            Self::Month(digits) => (time.month, rest) = digits.read(text, 1..=12)?,
            Self::MonthName(letters) => {
                let place;
                (place, rest) = name(text, &MONTHS, *letters)?;
                time.month = place + 1;
            }
            Self::Day(digits) => (time.day, rest) = digits.read(text, 1..=31)?,
            Self::DayOfYear => {
                let day;
                (day, rest) = number(text, 3..=3, 1..=366)?;
                time.day_of_year = Some(day);
            }
            Self::Weekday(letters) => (_, rest) = name(text, &DAYS, *letters)?,
            Self::Hour => (time.hour, rest) = number(text, 1..=2, 0..=23)?,
            Self::HalfDayHour(digits) => (time.hour, rest) = digits.read(text, 0..=12)?,
            Self::Minute(digits) => (time.minute, rest) = digits.read(text, 0..=59)?,
            Self::Second(digits) => (time.second, rest) = digits.read(text, 0..=59)?,
            Self::AmPm => {
                let afternoon;
                (afternoon, rest) = name(text, &["AM", "PM"], Letters::All)?;
                time.afternoon = Some(afternoon == 1);
            }
            Self::Fraction(Some(digits)) => {
                let fraction = text.strip_prefix(['.', ','])?;
                (_, rest) = number(fraction, *digits..=*digits, 0..=i64::MAX)?;
            }
            Self::Fraction(None) => rest = skip_fraction(text),
            Self::Offset(offset) => (time.offset, rest) = offset.read(text)?,
        }
        Some(rest)
    }
}

impl Offset {
    fn read(self, text: &str) -> Option<(i64, &str)> {
        if let Some(rest) = text.strip_prefix('Z').filter(|_| self.z) {
            return Some((0, rest));
        }
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let (hours, mut rest) = number(&text[1..], 2..=2, 0..=24)?;
        let mut minutes = 0;
        if self.minutes {
            if self.colon {
                rest = rest.strip_prefix(':')?;
            }
            (minutes, rest) = number(rest, 2..=2, 0..=60)?;
        }
        Some((sign * (hours * 60 + minutes) * 60, rest))
    }
}

#[cfg(test)]
mod tests {
    use framework::Time;
    use proptest::prelude::*;

    use super::*;

    fn read(layout: &str, text: &str) -> Option<i64> {
        Layout::parse(layout).unwrap().read(text)
    }

    #[test]
    fn layouts_are_those_of_go() {
        // 1767323045 is 2026-01-02T03:04:05Z.
        let time = Some(1_767_323_045);
        for (layout, text, expected) in [
            ("2006-01-02T15:04:05Z07:00", "2026-01-02T03:04:05Z", time),
            ("2006-01-02T15:04:05Z07:00", "2026-01-02T05:04:05+02:00", time),
            ("2006-01-02T15:04:05Z07:00", "2026-01-02T03:04:05.75Z", time),
            ("2006-01-02T15:04:05.000Z07:00", "2026-01-02T03:04:05.750Z", time),
            ("2006-01-02T15:04:05.000Z07:00", "2026-01-02T03:04:05.75Z", None),
            ("2006-01-02T15:04:05.999999999Z07:00", "2026-01-02T03:04:05Z", time),
            ("2006-01-02 15:04:05", "2026-01-02 03:04:05", time),
            ("2006-01-02", "2026-01-02", Some(1_767_312_000)),
            ("2006-002", "2026-002", Some(1_767_312_000)),
            ("Mon Jan _2 15:04:05 2006", "Fri Jan  2 03:04:05 2026", time),
            ("Monday, 02-Jan-06 3:04:05PM -0700", "friday, 02-JAN-26 3:04:05AM +0000", time),
            ("January 2, 2006", "February 29, 2024", Some(1_709_164_800)),
            ("January 2, 2006", "February 29, 2026", None),
            ("1/2/2006", "1/2/2026", Some(1_767_312_000)),
            ("02.01.2006", "02.01.2026", Some(1_767_312_000)),
            ("2006-01-02", "2026-01-02 ", None),
            ("2006-01-02", "yesterday", None),
            ("2006-01-02", "2026-13-02", None),
            ("3PM", "12AM", Some(-62_167_219_200)),
            ("Z07", "-01", Some(-62_167_219_200 + 3600)),
        ] {
            assert_eq!(read(layout, text), expected, "{layout:?} {text:?}");
        }
    }

    #[test]
    fn names_of_zones_are_refused() {
        let error = Layout::parse("Mon Jan _2 15:04:05 MST 2006").unwrap_err();
        assert!(error.starts_with("\"MST\" in the layout "), "{error}");
    }

    proptest! {
        #[test]
        fn rfc3339_is_read_as_elsewhere(
            (year, month, day) in (1970i64..2262, 1i64..13, 1i64..32),
            (hour, minute, second) in (0i64..24, 0i64..60, 0i64..60),
            (offset, sign) in (0i64..24, prop::sample::select(vec!['+', '-'])),
        ) {
            let text = format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{sign}{offset:02}:30");
            let expected = Time::parse_rfc3339(&text).ok().map(|time| time.as_nanos().div_euclid(1_000_000_000));
            prop_assert_eq!(read("2006-01-02T15:04:05Z07:00", &text), expected, "{}", text);
        }
    }
}
