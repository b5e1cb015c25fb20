//! Resource quantities: numbers with a unit, such as `500m`, `4Gi` or `1e3`.
//!
//! As in Kubernetes, there are two representations, which round differently. Short numbers are an
//! `i64` times a power of ten; all others are decimal digits of any length. Only long numbers and
//! non-canonical spellings that are printed as written (`+1`, `1e3`) allocate.

use std::fmt;
use std::str::FromStr;

/// The reason a text is not a quantity, in the words of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number followed by a suffix.
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// A suffix has no number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

/// The family of suffixes a quantity is printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of 1024: `Ki`, `Mi`, …
    BinarySI,
    /// Powers of 1000: `m`, `k`, `M`, …
    DecimalSI,
    /// Powers of ten: `e3`, `E-9`, …
    DecimalExponent,
}

/// An exact number with a resolution of one billionth, and its print format.
///
/// Numbers with a binary suffix are limited to the range of `i64`.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The parsed text, if it is printed instead of the canonical form.
    spelling: Option<Box<str>>,
}

#[derive(Debug, Clone)]
enum Amount {
    /// `value * 10^exponent`; the exponent is at least [`FINEST`].
    Short { value: i64, exponent: i32 },
    /// The same with ASCII digits, without leading zeros, not empty.
    Long { negative: bool, digits: Box<str>, exponent: i64 },
}

/// Exponent of the finest digit.
const FINEST: i64 = -9;
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Decimal numbers with more digits are stored as digits.
const SHORT_DIGITS: usize = 18;
/// The same limit for binary suffixes, where the decimal digits of the suffix count too.
const SHORT_BINARY_DIGITS: usize = 14;

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Returns the number in units, rounded away from zero.
    ///
    /// As in Kubernetes, a number that does not fit wraps around or becomes 0, and long negative
    /// numbers are wrong. [`nanos`](Self::nanos) has no such errors.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// Returns the number in thousandths, rounded like [`value`](Self::value).
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    /// Returns the exact number in billionths. Saturates at the limits of `i128`.
    pub fn nanos(&self) -> i128 {
        let (negative, nanos) = match &self.amount {
            Amount::Short { value, exponent } => {
                (*value < 0, scale_up(i128::from(*value), i64::from(*exponent) - FINEST))
            }
            Amount::Long { negative, digits, exponent } => {
                let magnitude = digits.parse().ok();
                let nanos = magnitude.and_then(|number| scale_up(number, exponent - FINEST));
                (*negative, nanos.map(|nanos| if *negative { -nanos } else { nanos }))
            }
        };
        nanos.unwrap_or(if negative { i128::MIN } else { i128::MAX })
    }

    /// Returns -1 for negative numbers, 0 for zero and 1 for positive numbers.
    pub fn sign(&self) -> i32 {
        match self.amount {
            Amount::Short { value, .. } => value.signum() as i32,
            Amount::Long { negative: true, .. } => -1,
            Amount::Long { .. } => 1,
        }
    }

    /// Returns a whole number that is printed with this family of suffixes.
    pub fn new(value: i64, format: Format) -> Self {
        Self::short(value, 0, format)
    }

    /// Returns the number in units as Kubernetes converts it to an integer: not if it is written
    /// with decimals or a suffix below one (`1000m`), nor if it does not fit.
    pub fn as_int64(&self) -> Option<i64> {
        match self.amount {
            Amount::Short { value, exponent } => {
                let factor = 10_i64.checked_pow(u32::try_from(exponent).ok()?)?;
                value.checked_mul(factor)
            }
            Amount::Long { .. } => None,
        }
    }

    /// Returns the family of suffixes with which it was written.
    pub fn format(&self) -> Format {
        self.format
    }

    fn short(value: i64, exponent: i32, format: Format) -> Self {
        Self { amount: Amount::Short { value, exponent }, format, spelling: None }
    }

    /// Returns a number stored as digits, rounded up to the finest digit; zero if all digits are
    /// zero.
    fn long(negative: bool, digits: String, exponent: i64, format: Format) -> Self {
        let (digits, exponent) = round_up_to_finest(digits, exponent);
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Self::short(0, 0, format);
        }
        let amount = Amount::Long { negative, digits: digits.into(), exponent };
        Self { amount, format, spelling: None }
    }

    /// Returns the number in units of 10^scale, where scale is 0 or -3.
    fn scaled(&self, scale: i64) -> i64 {
        match &self.amount {
            Amount::Short { value, exponent } => match i64::from(*exponent) - scale {
                shift @ ..0 => divide_away_from_zero(*value, shift.unsigned_abs()),
                shift => wrapping_scale_up(*value, shift),
            },
            Amount::Long { negative, digits, exponent } => {
                scaled_digits(*negative, digits, *exponent, scale)
            }
        }
    }

    /// Returns the number if it is whole and fits.
    fn whole(&self) -> Option<i64> {
        let nanos = self.nanos();
        (nanos % NANOS_PER_UNIT == 0).then(|| i64::try_from(nanos / NANOS_PER_UNIT).ok()).flatten()
    }
}

/// Returns `number * 10^shift`, if it fits.
fn scale_up(number: i128, shift: i64) -> Option<i128> {
    if number == 0 {
        return Some(0);
    }
    number.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)
}

fn divide_away_from_zero(value: i64, places: u64) -> i64 {
    let divisor = u32::try_from(places).ok().and_then(|places| 10_i64.checked_pow(places));
    match divisor {
        Some(divisor) if value % divisor == 0 => value / divisor,
        Some(divisor) => value / divisor + value.signum(),
        None => value.signum(),
    }
}

/// Returns `value * 10^shift`. A result that does not fit wraps around for the usual shifts and is
/// 0 for others.
fn wrapping_scale_up(value: i64, shift: i64) -> i64 {
    let Some(factor) = u32::try_from(shift).ok().and_then(|shift| 10_i64.checked_pow(shift)) else {
        return 0;
    };
    match (value.checked_mul(factor), shift) {
        (Some(product), _) => product,
        (None, 1 | 2 | 3 | 6 | 9) => value.wrapping_mul(factor),
        (None, _) => 0,
    }
}

/// Returns the low 64 bits of a long number in units of 10^scale.
///
/// Kubernetes divides billionths, and has a shortcut for small numbers. The shortcut treats every
/// negative number as small, truncates it to 64 bits first, and always adds one for a remainder.
fn scaled_digits(negative: bool, digits: &str, exponent: i64, scale: i64) -> i64 {
    let nanos = low_bits(digits, exponent - FINEST);
    if negative || fits(digits, exponent - FINEST) {
        let divisor = 10_i64.pow((scale - FINEST) as u32);
        let nanos = if negative { nanos.wrapping_neg() } else { nanos };
        return nanos / divisor + i64::from(nanos % divisor != 0);
    }
    let dropped = usize::try_from(scale - exponent).unwrap_or(0);
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(dropped));
    let remainder = fraction.bytes().any(|digit| digit != b'0');
    low_bits(whole, exponent - scale).wrapping_add(i64::from(remainder))
}

/// Returns `digits * 10^shift` truncated to 64 bits; a negative shift counts as 0.
fn low_bits(digits: &str, shift: i64) -> i64 {
    // 10^64 is a multiple of 2^64.
    let factor = if shift < 64 { 10_i64.wrapping_pow(shift.max(0) as u32) } else { 0 };
    let number = digits
        .bytes()
        .fold(0_i64, |number, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')));
    number.wrapping_mul(factor)
}

fn fits(digits: &str, shift: i64) -> bool {
    let number = digits.parse().ok().and_then(|number| scale_up(number, shift));
    number.is_some_and(|number| i64::try_from(number).is_ok())
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::split(text)?;
        match parts.unit()? {
            Unit::Binary(shift) => parts.binary(shift),
            Unit::Decimal(exponent) => parts.decimal(exponent, Format::DecimalSI),
            Unit::Exponent(exponent) => parts.decimal(exponent, Format::DecimalExponent),
        }
    }
}

/// The factor of a suffix.
enum Unit {
    /// Two to this power.
    Binary(u32),
    /// Ten to this power.
    Decimal(i32),
    /// Ten to this power, written as an exponent.
    Exponent(i32),
}

/// The parts of a quantity.
struct Parts<'a> {
    text: &'a str,
    negative: bool,
    /// Digits before the point, without leading zeros.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let number = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = split_digits(number.trim_start_matches('0'));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|char| "eEinumkKMGTP".contains(char));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        Ok(Self { text, negative, whole, fraction, suffix })
    }

    fn unit(&self) -> Result<Unit, QuantityError> {
        Ok(match self.suffix {
            "n" => Unit::Decimal(-9),
            "u" => Unit::Decimal(-6),
            "m" => Unit::Decimal(-3),
            "" => Unit::Decimal(0),
            "k" => Unit::Decimal(3),
            "M" => Unit::Decimal(6),
            "G" => Unit::Decimal(9),
            "T" => Unit::Decimal(12),
            "P" => Unit::Decimal(15),
            "E" => Unit::Decimal(18),
            "Ki" => Unit::Binary(10),
            "Mi" => Unit::Binary(20),
            "Gi" => Unit::Binary(30),
            "Ti" => Unit::Binary(40),
            "Pi" => Unit::Binary(50),
            "Ei" => Unit::Binary(60),
            other => {
                let exponent = other.strip_prefix(['e', 'E']).and_then(|text| text.parse().ok());
                let exponent: i64 = exponent.ok_or(QuantityError::Suffix)?;
                // Kubernetes keeps the low 32 bits.
                Unit::Exponent(exponent as i32)
            }
        })
    }

    fn decimal(&self, unit: i32, format: Format) -> Result<Quantity, QuantityError> {
        let exponent = i64::from(unit) - self.fraction.len() as i64;
        let length = self.whole_length() + self.fraction.len();
        let Some(short) =
            i32::try_from(exponent).ok().filter(|_| length <= SHORT_DIGITS && exponent >= FINEST)
        else {
            self.expect_digits()?;
            let digits = self.digits().map(char::from).collect();
            return Ok(Quantity::long(self.negative, digits, exponent, format));
        };
        let value = self.short_value();
        let mut quantity = Quantity::short(value, short, format);
        let canonical = short % 3 == 0 && value % 1000 != 0 && !self.whole.is_empty();
        if canonical && (format == Format::DecimalExponent || !self.is_plain()) {
            quantity.spelling = Some(self.text.into());
        }
        Ok(quantity)
    }

    fn binary(&self, shift: u32) -> Result<Quantity, QuantityError> {
        let length = self.whole_length() + shift as usize * 3 / 10;
        if !self.fraction.is_empty() || length > SHORT_BINARY_DIGITS {
            self.expect_digits()?;
            let digits = shift_left(self.digits(), shift);
            let exponent = -(self.fraction.len() as i64);
            return Ok(capped(Quantity::long(self.negative, digits, exponent, Format::BinarySI)));
        }
        let value = self.short_value();
        let mut quantity = Quantity::short(value << shift, 0, Format::BinarySI);
        if value % 8 != 0 && !self.is_plain() {
            quantity.spelling = Some(self.text.into());
        }
        Ok(quantity)
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    /// Returns all digits as one integer. The caller checks that they fit.
    fn short_value(&self) -> i64 {
        let value = self.digits().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        if self.negative { -value } else { value }
    }

    /// Returns the number of digits before the point, at least 1.
    fn whole_length(&self) -> usize {
        self.whole.len().max(1)
    }

    /// Returns whether the text has no `+`, leading zero or point.
    fn is_plain(&self) -> bool {
        self.text.len() == usize::from(self.negative) + self.whole.len() + self.suffix.len()
    }

    /// Checks that a long number has a digit. A short number without digits is zero.
    fn expect_digits(&self) -> Result<(), QuantityError> {
        let number = &self.text[..self.text.len() - self.suffix.len()];
        let found = number.bytes().any(|byte| byte.is_ascii_digit());
        if found { Ok(()) } else { Err(QuantityError::Numeric) }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Returns the decimal number `digits` times 2^shift, where shift is at most 60.
fn shift_left(digits: impl DoubleEndedIterator<Item = u8>, shift: u32) -> String {
    let mut reversed = Vec::new();
    let mut carry = 0_u64;
    for digit in digits.rev() {
        let sum = (u64::from(digit - b'0') << shift) + carry;
        reversed.push(sum % 10);
        carry = sum / 10;
    }
    while carry > 0 {
        reversed.push(carry % 10);
        carry /= 10;
    }
    reversed.into_iter().rev().map(|digit| char::from(b'0' + digit as u8)).collect()
}

/// Drops digits finer than a billionth, and adds one billionth if any of them was not zero.
fn round_up_to_finest(mut digits: String, exponent: i64) -> (String, i64) {
    if exponent >= FINEST {
        return (digits, exponent);
    }
    let dropped = (FINEST - exponent).unsigned_abs() as usize;
    let fraction = digits.split_off(digits.len().saturating_sub(dropped));
    if fraction.bytes().any(|digit| digit != b'0') {
        increment(&mut digits);
    }
    (digits, FINEST)
}

/// Adds one to a decimal number.
fn increment(digits: &mut String) {
    let kept = digits.trim_end_matches('9').len();
    let nines = digits.len() - kept;
    digits.truncate(kept);
    let last = digits.pop().map_or('1', |digit| char::from(digit as u8 + 1));
    digits.push(last);
    digits.extend(std::iter::repeat_n('0', nines));
}

/// Limits a number with a binary suffix to its range. A number below one changes to decimal
/// suffixes.
fn capped(mut exact: Quantity) -> Quantity {
    let nanos = exact.nanos().saturating_abs();
    if nanos > i128::from(i64::MAX) * NANOS_PER_UNIT {
        return Quantity::short(i64::MAX * i64::from(exact.sign()), 0, Format::BinarySI);
    }
    if (1..NANOS_PER_UNIT).contains(&nanos) {
        exact.format = Format::DecimalSI;
    }
    exact
}

impl fmt::Display for Quantity {
    /// Prints the quantity as the API does: with the largest suffix that needs no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spelling) = &self.spelling {
            return f.write_str(spelling);
        }
        match (self.format, self.whole()) {
            (Format::BinarySI, Some(whole)) if whole.unsigned_abs() >= 1024 => {
                write_binary(f, whole)
            }
            _ => self.write_decimal(f),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut number: i64) -> fmt::Result {
    let mut suffix = 0;
    while number % 1024 == 0 {
        number /= 1024;
        suffix += 1;
    }
    write!(f, "{number}{}", BINARY_SUFFIXES[suffix])
}

impl Quantity {
    fn write_decimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut digits, mut exponent) = match &self.amount {
            Amount::Short { value: 0, .. } => return f.write_str("0"),
            Amount::Short { value, exponent } => {
                (value.unsigned_abs().to_string(), i64::from(*exponent))
            }
            Amount::Long { digits, exponent, .. } => (digits.to_string(), *exponent),
        };
        while digits.ends_with('0') {
            digits.pop();
            exponent += 1;
        }
        while exponent % 3 != 0 {
            digits.push('0');
            exponent -= 1;
        }
        let minus = if self.sign() < 0 { "-" } else { "" };
        write!(f, "{minus}{digits}")?;
        match decimal_suffix(exponent) {
            Some(suffix) if self.format != Format::DecimalExponent => f.write_str(suffix),
            _ if exponent == 0 => Ok(()),
            _ => write!(f, "e{exponent}"),
        }
    }
}

/// Returns the suffix for 10^exponent; `None` beyond `n` and `E`.
fn decimal_suffix(exponent: i64) -> Option<&'static str> {
    let index = usize::try_from((exponent - FINEST) / 3).ok()?;
    DECIMAL_SUFFIXES.get(index).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn units_are_parsed_and_rounded_away_from_zero() {
        for (text, value, milli, canonical) in [
            ("0", 0, 0, "0"),
            ("2", 2, 2000, "2"),
            ("500m", 1, 500, "500m"),
            ("4Gi", 4 << 30, 4000 << 30, "4Gi"),
            ("-1.5", -2, -1500, "-1500m"),
            ("1.5Gi", 3 << 29, 3000 << 29, "1536Mi"),
            ("0.1Ki", 103, 102_400, "102400m"),
            ("1e3", 1000, 1_000_000, "1e3"),
            ("1E", 1_000_000_000_000_000_000, 0, "1E"),
            ("0.5n", 1, 1, "1n"),
            ("1024Ki", 1 << 20, 1000 << 20, "1Mi"),
            ("100", 100, 100_000, "100"),
            ("12e4", 120_000, 120_000_000, "120e3"),
            ("Ki", 0, 0, "0"),
        ] {
            let quantity = parse(text);
            assert_eq!(quantity.value(), value, "{text}");
            assert_eq!(quantity.milli_value(), milli, "{text}");
            assert_eq!(quantity.to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn long_numbers_are_exact_and_binary_ones_are_limited() {
        for (text, canonical) in [
            ("99999999999999999999.9999999999", "100E"),
            ("1234567890123456789012345678901234567890123", "same"),
            ("12345678901234567890.5", "12345678901234567890500m"),
            ("1000E", "1e21"),
            ("9Ei", "9223372036854775807"),
            ("-9Ei", "-9223372036854775807"),
            ("1e2000000000", "100e1999999998"),
            ("1e-2000000000", "1e-9"),
        ] {
            let canonical = if canonical == "same" { text } else { canonical };
            assert_eq!(parse(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn non_canonical_spellings_are_kept_only_for_canonical_numbers() {
        for (text, printed) in [
            ("+1", "+1"),
            ("0100", "0100"),
            ("1.", "1."),
            ("2e0", "2e0"),
            ("1.500", "1.500"),
            ("1.5", "1500m"),
            ("+1000", "1k"),
            ("+8Ki", "8Ki"),
            ("+9Ki", "+9Ki"),
        ] {
            assert_eq!(parse(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn invalid_quantities_have_the_errors_of_kubernetes() {
        for (text, error) in [
            ("", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1e3Ki", QuantityError::Format),
            ("é", QuantityError::Format),
            ("1K", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("--1", QuantityError::Suffix),
            ("1e99999999999999999999", QuantityError::Suffix),
            ("Pi", QuantityError::Numeric),
        ] {
            assert_eq!(text.parse::<Quantity>().err(), Some(error), "{text}");
        }
    }

    #[test]
    fn nanos_are_exact_and_saturate() {
        for (text, nanos) in [
            ("1.5", 1_500_000_000),
            ("-1n", -1),
            ("16Ei", i128::from(i64::MAX) * 1_000_000_000),
            ("1e30", i128::MAX),
            ("-1e30", i128::MIN),
            ("0e30", 0),
        ] {
            assert_eq!(parse(text).nanos(), nanos, "{text}");
        }
    }

    proptest! {
        #[test]
        fn canonical_form_has_the_same_value(
            text in "[+-]?[0-9]{0,30}(\\.[0-9]{0,30})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
        ) {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let again = parse(&quantity.to_string());
                prop_assert_eq!(again.nanos(), quantity.nanos());
                prop_assert_eq!(again.sign(), quantity.sign());
                prop_assert_eq!(again.to_string(), quantity.to_string());
            }
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*|[-+.0-9eEinumkKMGTP]{0,60}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let _ = (quantity.value(), quantity.milli_value(), quantity.to_string());
            }
        }
    }
}
