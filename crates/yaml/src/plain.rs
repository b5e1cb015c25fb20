//! Plain scalars of YAML 1.1 that are texts in the version of the library.

use serde_json::{Number, Value};

/// Tags after which a plain scalar is a text.
const TEXT_TAGS: [&str; 3] = ["!!str", "!<tag:yaml.org,2002:str>", "!"];

/// Whether `scalar`, which the library took over from `text` as it is, is a plain scalar without a
/// tag.
pub(super) fn is_plain(scalar: &str, text: &str) -> bool {
    let offset = scalar.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    let Some(before) = text.get(..offset) else { return false };
    if before.ends_with(['"', '\'']) {
        return false;
    }
    let before = before.trim_end_matches([' ', '\t']);
    !TEXT_TAGS.iter().any(|tag| before.ends_with(tag))
}

/// Fields of Kubernetes that hold booleans. Elsewhere a single letter is a text: a node may be
/// called `n`.
const BOOLEANS: [&str; 30] = [
    "adminAccess",
    "allNodes",
    "allowMultipleAllocations",
    "allowVolumeExpansion",
    "attachRequired",
    "bindsToNode",
    "blockOwnerDeletion",
    "controller",
    "delayCacheUntilActive",
    "enableContentionProfiling",
    "enableHTTPS",
    "enableProfiling",
    "globalDefault",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "ignorable",
    "insecure",
    "leaderElect",
    "manualSelector",
    "nodeCacheCapable",
    "optional",
    "paused",
    "perDeviceNodeSelection",
    "privileged",
    "readOnly",
    "storageCapacity",
    "suspend",
    "unschedulable",
];

/// Returns the boolean or the number that a plain scalar is in YAML 1.1, as the value of this
/// field.
pub(super) fn value_of(scalar: &str, field: Option<&str>) -> Option<Value> {
    let is_boolean = || field.is_some_and(|field| BOOLEANS.contains(&field));
    let letter = || letter(scalar).filter(|_| is_boolean());
    let boolean = boolean(scalar).or_else(letter);
    boolean.map(Value::Bool).or_else(|| number(scalar).map(Value::Number))
}

fn letter(scalar: &str) -> Option<bool> {
    match scalar {
        "y" | "Y" => Some(true),
        "n" | "N" => Some(false),
        _ => None,
    }
}

fn boolean(scalar: &str) -> Option<bool> {
    match scalar {
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Numbers with a leading zero are octal, and underscores within numbers mean nothing.
fn number(scalar: &str) -> Option<Number> {
    let unsigned = scalar.strip_prefix(['+', '-']).unwrap_or(scalar);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let digits = unsigned.replace('_', "");
    let negative = scalar.starts_with('-');
    integer(&digits, negative).or_else(|| float(&digits, negative))
}

fn integer(digits: &str, negative: bool) -> Option<Number> {
    let (radix, rest) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if rest.starts_with(['+', '-']) {
        return None;
    }
    let amount = u64::from_str_radix(rest, radix).ok()?;
    match negative {
        false => Some(amount.into()),
        true => 0_i64.checked_sub_unsigned(amount).map(Number::from),
    }
}

/// As in Go, a number that is not octal may be a float: `089` is 89.
fn float(digits: &str, negative: bool) -> Option<Number> {
    let is_part = |part: char| part.is_ascii_digit() || ['.', 'e', 'E', '+', '-'].contains(&part);
    if !digits.chars().all(is_part) {
        return None;
    }
    let amount: f64 = digits.parse().ok()?;
    number_of(if negative { -amount } else { amount })
}

/// Returns the number of a float as Go prints it: integral floats are integers. JSON has no
/// infinite ones.
pub fn number_of(float: f64) -> Option<Number> {
    // Up to 2^53 every integral float is exact.
    let is_integral = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0;
    match is_integral {
        #[expect(clippy::cast_possible_truncation, reason = "integral and in range")]
        true => Some(Number::from(float as i64)),
        false => Number::from_f64(float),
    }
}
