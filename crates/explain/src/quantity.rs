//! Amounts of resources as people write them.

const KI: i64 = 1024;

/// Returns an amount in the unit of its resource: `cpu` in cores, memory in binary units, others as numbers.
pub(crate) fn text(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => format!("{amount}m"),
        "memory" | "ephemeral-storage" => bytes(amount),
        name if name.starts_with("hugepages-") => bytes(amount),
        _ => amount.to_string(),
    }
}

/// Returns bytes exactly, in the largest binary unit that divides them.
fn bytes(amount: i64) -> String {
    let units = [(KI * KI * KI * KI, "Ti"), (KI * KI * KI, "Gi"), (KI * KI, "Mi"), (KI, "Ki")];
    let unit = units.into_iter().find(|(unit, _)| amount != 0 && amount % unit == 0);
    unit.map_or_else(|| amount.to_string(), |(unit, name)| format!("{}{name}", amount / unit))
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
}
