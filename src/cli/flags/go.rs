//! Values in the notation of Go, with its error texts.

use std::convert::Infallible;
use std::num::IntErrorKind;
use std::path::PathBuf;

/// Parses a boolean like `strconv.ParseBool`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// Parses the path of a file or folder. An empty one is the same as none.
pub(super) fn path(text: &str) -> Result<PathBuf, Infallible> {
    Ok(text.into())
}

/// Returns the path of a flag, if it is not empty.
pub(super) fn given(path: Option<&PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty()).cloned()
}

/// Parses a number of 32 bits like `strconv.ParseInt`.
pub(super) fn int32(text: &str) -> Result<i32, String> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        let reason = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.ParseInt: parsing {text:?}: {reason}")
    })
}

/// Parses a number like `strconv.ParseFloat`.
pub(super) fn float32(text: &str) -> Result<f32, String> {
    text.parse().map_err(|_| format!("strconv.ParseFloat: parsing {text:?}: invalid syntax"))
}

/// Parses a verbosity. Values above 255 count as 255.
pub(super) fn verbosity(text: &str) -> Result<u8, String> {
    let level: Result<u32, _> = text.parse();
    let level =
        level.map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))?;
    Ok(level.try_into().unwrap_or(u8::MAX))
}
