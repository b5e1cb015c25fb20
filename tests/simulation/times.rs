//! Invariants of the times that the scheduler writes: they are those of the wall clock of its
//! machine.

use std::time::Duration;

use control::Request;
use framework::Time;
use serde_json::Value;

use super::rules::{Checked, rule};

/// The fields with times, and how old each may be when a request with it is made. A Lease has the
/// time at which an attempt began to read it. A request that is held back until its process leads
/// has an old time.
const FIELDS: [(&str, Duration); 4] = [
    ("renewTime", Duration::from_secs(15)),
    ("lastTransitionTime", Duration::from_mins(1)),
    ("lastProbeTime", Duration::from_mins(2)),
    // An event may wait for hours, but is not of the future.
    ("eventTime", Duration::MAX),
];

/// Maximum time by which a time may be ahead: times are rounded to a second at most.
const AHEAD: Duration = Duration::from_secs(1);

/// Checks the times in a request that has just been made. `wall` is the time on the wall clock.
///
/// # Errors
/// A rule is violated.
pub(crate) fn are_of_the_wall_clock(request: &Request, wall: Time) -> Checked {
    // The condition of a PodGroup has the time of its decision, and the write may wait for others
    // while the clock is corrected.
    if request.path.contains("/podgroups/") {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&request.body);
    if !FIELDS.iter().any(|(field, _)| text.contains(field)) {
        return Ok(());
    }
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    let spec = [&body, &body["spec"]];
    let conditions = body["status"]["conditions"].as_array().into_iter().flatten();
    for object in spec.into_iter().chain(conditions) {
        for (field, oldest) in FIELDS {
            let Some(time) = object[field].as_str() else { continue };
            let known = Time::parse_rfc3339(time).ok();
            let is_right =
                known.is_some_and(|time| time <= wall + AHEAD && wall.since(time) <= oldest);
            rule(is_right, || format!("{} has the {field} {time} at {wall}", request.path))?;
        }
    }
    Ok(())
}
