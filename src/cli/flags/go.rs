//! Values as Go reads them.

/// A boolean, as `strconv.ParseBool` takes it.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A boolean, or `raw`, which asks kube-scheduler for more than there is to tell here.
pub(super) fn version(text: &str) -> Result<bool, String> {
    if text == "raw" { Ok(true) } else { boolean(text) }
}

/// A verbosity. Below 0 nothing is left out, and beyond 255 nothing is added.
pub(super) fn verbosity(text: &str) -> Result<u8, String> {
    let level: i32 = text.parse().map_err(|_| "expected a number".to_owned())?;
    Ok(level.clamp(0, u8::MAX.into()) as u8)
}
