//! Semantic versions: attributes of devices, and the function `semver` of their selectors.

use std::cmp::Ordering;
use std::fmt;

/// A semantic version. Equality and order ignore build metadata.
#[derive(Debug, Clone)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    prerelease: Vec<Identifier>,
}

/// One part of a prerelease. Numbers come before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(Box<str>),
}

/// The reason a text is not a version, in the words of the library that Kubernetes uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionError(String);

impl std::error::Error for VersionError {}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn error<T>(text: impl Into<String>) -> Result<T, VersionError> {
    Err(VersionError(text.into()))
}

impl Version {
    /// Parses `major.minor.patch` with optional prerelease and build metadata.
    ///
    /// # Errors
    /// The text is not a version.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if let Some([major, minor, patch]) = plain(text) {
            return Ok(Self { major, minor, patch, prerelease: Vec::new() });
        }
        if text.is_empty() {
            return error("Version string empty");
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return error("No Major.Minor.Patch elements found");
        };
        let (rest, build) = split(rest, '+');
        let (patch, prerelease) = split(rest, '-');
        let version = Self {
            major: number("major", "Major", major)?,
            minor: number("minor", "Minor", minor)?,
            patch: number("patch", "Patch", patch)?,
            prerelease: prerelease
                .map_or(Ok(Vec::new()), |it| it.split('.').map(part).collect())?,
        };
        for word in build.into_iter().flat_map(|build| build.split('.')) {
            if word.is_empty() {
                return error("Build meta data is empty");
            }
            if !is_word(word) {
                return error(format!("Invalid character(s) found in build meta data {word:?}"));
            }
        }
        Ok(version)
    }

    /// Parses a version that may begin with `v`, have leading zeros, and lack minor and patch.
    ///
    /// # Errors
    /// The text is not such a version.
    pub fn parse_relaxed(text: &str) -> Result<Self, VersionError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return error("short version cannot contain PreRelease/Build meta data");
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }
}

/// Returns the numbers of a version that has nothing else, as most.
fn plain(text: &str) -> Option<[u64; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.as_bytes().split(|byte| *byte == b'.');
    for number in &mut numbers {
        let digits = parts.next().filter(|digits| (1..=18).contains(&digits.len()))?;
        if digits[0] == b'0' && digits.len() > 1 {
            return None;
        }
        for digit in digits {
            *number = *number * 10 + u64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        }
    }
    parts.next().is_none().then_some(numbers)
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|first: char| first.is_ascii_digit()) {
        trimmed.to_owned()
    } else {
        format!("0{trimmed}")
    }
}

fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn number(name: &str, title: &str, text: &str) -> Result<u64, VersionError> {
    if !is_number(text) {
        return error(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if has_leading_zero(text) {
        return error(format!("{title} number must not contain leading zeroes {text:?}"));
    }
    parse_number(text)
}

fn parse_number(text: &str) -> Result<u64, VersionError> {
    text.parse().or_else(|_| {
        let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        error(format!("strconv.ParseUint: parsing {text:?}: {reason}"))
    })
}

fn part(text: &str) -> Result<Identifier, VersionError> {
    if text.is_empty() {
        return error("Prerelease is empty");
    }
    if is_number(text) {
        if has_leading_zero(text) {
            return error(format!(
                "Numeric PreRelease version must not contain leading zeroes {text:?}"
            ));
        }
        return parse_number(text).map(Identifier::Number);
    }
    if !is_word(text) {
        return error(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(Identifier::Word(text.into()))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |it: &Self| (it.major, it.minor, it.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            // A version without a prerelease is newer than its prereleases.
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.prerelease.cmp(&other.prerelease),
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_versions_are_those_of_three_short_numbers() {
        assert_eq!(plain("570.86.15"), Some([570, 86, 15]));
        assert_eq!(plain("0.0.0"), Some([0; 3]));
        for text in
            ["", "1.2", "1.2.3.4", "01.2.3", "1..3", "1.2.3-a", "1.2.3+a", "1.2.x", "+1.2.3"]
        {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn versions_in_ascending_order() {
        let ordered = [
            "0.0.1",
            "0.1.0",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta",
            "1.0.0",
            "1.0.1",
            "1.10.0",
            "2.0.0",
        ];
        for pair in ordered.windows(2) {
            let [left, right] = [pair[0], pair[1]].map(|text| Version::parse(text).unwrap());
            assert!(left < right, "{pair:?}");
        }
    }

    #[test]
    fn build_metadata_does_not_matter() {
        let parsed = |text| Version::parse(text).unwrap();
        assert_eq!(parsed("1.2.3+a.b"), parsed("1.2.3+c"));
        assert_eq!(parsed("1.2.3-rc.1+a"), parsed("1.2.3-rc.1"));
    }

    #[test]
    fn reasons_of_refusals() {
        for (text, reason) in [
            ("", "Version string empty"),
            ("1.2", "No Major.Minor.Patch elements found"),
            ("v1.2.3", "Invalid character(s) found in major number \"v1\""),
            ("1.x.3", "Invalid character(s) found in minor number \"x\""),
            ("1.2.x", "Invalid character(s) found in patch number \"x\""),
            ("01.2.3", "Major number must not contain leading zeroes \"01\""),
            ("1.02.3", "Minor number must not contain leading zeroes \"02\""),
            ("1.2.03", "Patch number must not contain leading zeroes \"03\""),
            (".2.3", "strconv.ParseUint: parsing \"\": invalid syntax"),
            (
                "99999999999999999999.0.0",
                "strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
            ),
            ("1.2.3-", "Prerelease is empty"),
            ("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
            ("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\""),
            ("1.2.3+", "Build meta data is empty"),
            ("1.2.3+a_b", "Invalid character(s) found in build meta data \"a_b\""),
        ] {
            assert_eq!(Version::parse(text).unwrap_err().to_string(), reason, "{text}");
        }
    }

    #[test]
    fn relaxed_versions() {
        for (text, exact) in [
            ("v1", "1.0.0"),
            ("1.2", "1.2.0"),
            ("01.02.03", "1.2.3"),
            ("1.2.003-rc1", "1.2.3-rc1"),
            ("00.0.0", "0.0.0"),
            ("v1.2.3", "1.2.3"),
        ] {
            assert_eq!(
                Version::parse_relaxed(text).unwrap(),
                Version::parse(exact).unwrap(),
                "{text}"
            );
        }
        assert_eq!(
            Version::parse_relaxed("1.2-rc1").unwrap_err().to_string(),
            "short version cannot contain PreRelease/Build meta data"
        );
        assert!(Version::parse_relaxed("vv1").is_err());
    }
}
