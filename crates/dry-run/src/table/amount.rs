//! Amounts of resources, rounded for reading.

/// Formats an amount of a resource: bytes in the largest binary unit for which the number is at
/// least 1, with one decimal; others with at most three decimals.
pub fn amount(resource: &str, number: f64) -> String {
    let in_bytes = matches!(resource, "memory" | "ephemeral-storage");
    if in_bytes || resource.starts_with("hugepages-") { bytes(number) } else { plain(number) }
}

fn plain(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn bytes(number: f64) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut number, mut unit) = (number, 0);
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    let text = format!("{number:.1}");
    format!("{}{}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_formatted_for_reading() {
        let rows = [(0.0, "0"), (1.5, "1.5"), (0.25, "0.25"), (110.0, "110"), (1000.0, "1000")];
        for (number, expected) in rows {
            assert_eq!(amount("cpu", number), expected);
        }
        let gib = 1024.0 * 1024.0 * 1024.0;
        let rows = [
            (0.0, "0"),
            (512.0, "512"),
            (16.0 * gib, "16Gi"),
            (1.25 * gib, "1.2Gi"),
            (101_461_497_216.0 * 1024.0, "94.5Ti"),
        ];
        for (number, expected) in rows {
            assert_eq!(amount("memory", number), expected);
        }
    }
}
