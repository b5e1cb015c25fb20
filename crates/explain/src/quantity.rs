//! Amounts of resources as people write them.

const KI: i64 = 1024;

const UNITS: [(i64, &str); 4] =
    [(KI * KI * KI * KI, "Ti"), (KI * KI * KI, "Gi"), (KI * KI, "Mi"), (KI, "Ki")];

/// Number of digits that are read at a glance.
const MOST_DIGITS: usize = 4;

/// Returns an amount in the unit of its resource: `cpu` in cores, memory in binary units, others as
/// numbers.
pub(crate) fn text(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => format!("{amount}m"),
        name if is_in_bytes(name) => bytes(amount),
        _ => amount.to_string(),
    }
}

/// Returns an amount for a sentence: bytes with many digits are rounded up.
pub(crate) fn at_least(resource: &str, amount: i64) -> String {
    rounded(resource, amount, 1)
}

/// Returns an amount for a sentence: bytes with many digits are rounded down.
pub(crate) fn at_most(resource: &str, amount: i64) -> String {
    rounded(resource, amount, 0)
}

fn is_in_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

/// Returns bytes exactly, in the largest binary unit that divides them.
fn bytes(amount: i64) -> String {
    let unit = UNITS.into_iter().find(|(unit, _)| amount != 0 && amount % unit == 0);
    unit.map_or_else(|| amount.to_string(), |(unit, name)| format!("{}{name}", amount / unit))
}

/// Returns bytes with many digits in tenths of their largest unit. A rest counts as `rest` tenths.
fn rounded(resource: &str, amount: i64, rest: i128) -> String {
    let exact = text(resource, amount);
    let is_long = exact.bytes().filter(u8::is_ascii_digit).count() > MOST_DIGITS;
    let unit = UNITS.into_iter().find(|(unit, _)| amount >= *unit);
    let Some((unit, name)) = unit.filter(|_| is_long && is_in_bytes(resource)) else {
        return exact;
    };
    let (unit, amount) = (i128::from(unit), 10 * i128::from(amount));
    let tenths = amount / unit + if amount % unit == 0 { 0 } else { rest };
    match tenths % 10 {
        0 => format!("{}{name}", tenths / 10),
        tenth => format!("{}.{tenth}{name}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        let rows = [
            ("cpu", 1500, "1500m"),
            ("cpu", 2000, "2"),
            ("memory", 3 << 30, "3Gi"),
            ("memory", (3 << 30) + 1, "3221225473"),
            ("memory", 0, "0"),
            ("example.com/gpu", 2, "2"),
        ];
        for (resource, amount, expected) in rows {
            assert_eq!(text(resource, amount), expected);
        }
    }

    #[test]
    fn long_amounts_are_rounded_so_that_following_them_suffices() {
        let rows = [
            ("cpu", 123_456, "123456m", "123456m"),
            ("memory", 1500 << 20, "1500Mi", "1500Mi"),
            ("memory", (1 << 30) + 1, "1.1Gi", "1Gi"),
            ("memory", 7_654_321 << 10, "7.3Gi", "7.2Gi"),
            ("memory", (2 << 40) - 1, "2Ti", "1.9Ti"),
            ("memory", 9_999, "9999", "9999"),
            ("memory", 12_345, "12.1Ki", "12Ki"),
            ("example.com/gpu-memory", 123_456, "123456", "123456"),
        ];
        for (resource, amount, least, most) in rows {
            let own = (at_least(resource, amount), at_most(resource, amount));
            assert_eq!(own, (least.to_owned(), most.to_owned()), "{amount}");
        }
    }
}
