//! Values in the notation of Go.

/// Parses a boolean like `strconv.ParseBool`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// Parses a boolean, or `raw`, which makes kube-scheduler print more.
pub(super) fn version(text: &str) -> Result<bool, String> {
    if text == "raw" { Ok(true) } else { boolean(text) }
}

/// Parses a verbosity. Values below 0 count as 0, values above 255 as 255.
pub(super) fn verbosity(text: &str) -> Result<u8, String> {
    let level: i32 = text.parse().map_err(|_| "expected a number".to_owned())?;
    Ok(level.clamp(0, u8::MAX.into()) as u8)
}
