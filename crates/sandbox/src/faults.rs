//! Injected faults: requests that are delayed, refused, or carried out without an answer, and
//! watches that break.
//!
//! Decisions are pure and seeded: equal settings and seeds give the same faults for the same
//! requests in the same order.

use std::fmt;
use std::time::Duration;

use framework::Time;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::api::Request;

/// Which faults occur and how often. By default none do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// How long requests wait before they are served.
    pub latency: Latency,
    /// Share of writes to objects refused with 409 Conflict.
    pub conflicts: Share,
    /// Share of requests refused with 429 and `Retry-After: 1`.
    pub throttling: Share,
    /// Share of requests refused with 500 or 503 without being carried out.
    pub errors: Share,
    /// Share of writes refused with 500, as if a fail-closed admission webhook could not be called.
    /// With `latency` the webhook hangs first.
    pub webhooks_down: Share,
    /// Share of requests that are carried out and whose connection breaks before the answer.
    pub lost_answers: Share,
    /// Share of connections that are closed on arrival.
    pub refused_connections: Share,
    /// Probability per second that an open watch breaks.
    pub dropped_watches: Share,
    /// Probability per second that an open watch sends nothing more but stays open.
    pub stalled_watches: Share,
    /// Time between compactions of the history; never if empty.
    pub compaction: Period,
    /// HTTP methods that faults affect, for example `POST,PATCH`; all if empty.
    pub only_methods: String,
    /// Texts in the path of requests that faults affect, for example `/binding` or
    /// `/leases,reviews`; all if empty.
    pub only_path: String,
}

impl Settings {
    /// Returns these settings with one changed, given as `name=value`, for example
    /// `lost-answers=0.01`.
    ///
    /// # Errors
    /// The setting does not exist, or the value is not valid for it.
    pub fn with(&self, setting: &str) -> Result<Self, BadSetting> {
        let bad = |reason: String| BadSetting { setting: setting.to_owned(), reason };
        let (name, value) =
            setting.split_once('=').ok_or_else(|| bad("expected name=value".to_owned()))?;
        let mut all = serde_json::to_value(self).map_err(|error| bad(error.to_string()))?;
        all[name] = Value::from(value);
        serde_json::from_value(all).map_err(|error| bad(error.to_string()))
    }

    fn concern(&self, request: &Request) -> bool {
        let mut methods = self.only_methods.split(',').map(str::trim);
        (self.only_methods.is_empty() || methods.any(|method| method == request.method))
            && self.only_path.split(',').any(|text| request.path.contains(text.trim()))
    }
}

/// A setting that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("fault {setting:?}: {reason}")]
pub struct BadSetting {
    setting: String,
    reason: String,
}

/// A probability, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(into = "f64", try_from = "Number")]
pub struct Share(f64);

/// A number, or its text from a command line.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number from 0 to 1")]
enum Number {
    Plain(f64),
    Text(String),
}

impl TryFrom<Number> for Share {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        let number = match number {
            Number::Plain(number) => Some(number),
            Number::Text(text) => text.parse().ok(),
        };
        let share = number.filter(|number| (0.0..=1.0).contains(number)).map(Self);
        share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        share.0
    }
}

/// A range of delays, written `5ms..50ms`, or `5ms` for a fixed one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Latency {
    shortest: Duration,
    longest: Duration,
}

impl TryFrom<String> for Latency {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (shortest, longest) = text.split_once("..").unwrap_or((&text, &text));
        let latency = Self { shortest: duration(shortest)?, longest: duration(longest)? };
        match latency.shortest <= latency.longest {
            true => Ok(latency),
            false => Err(format!("{shortest} is longer than {longest}")),
        }
    }
}

impl From<Latency> for String {
    fn from(latency: Latency) -> Self {
        latency.to_string()
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", short(self.shortest))?;
        match self.shortest == self.longest {
            true => Ok(()),
            false => write!(f, "..{}", short(self.longest)),
        }
    }
}

/// An interval, written `30s`; never if empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Period(Option<Duration>);

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.is_empty() {
            true => Ok(Self(None)),
            false => Ok(Self(Some(duration(&text)?))),
        }
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.0.map(short).unwrap_or_default()
    }
}

/// Parses `5ms` or `1m30s`; an empty text is 0.
fn duration(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let signed: Result<SignedDuration, _> = text.trim().parse();
    let duration = signed.ok().and_then(|signed| Duration::try_from(signed).ok());
    duration.ok_or_else(|| format!("{text:?} is not a duration such as 5ms, 2s or 1m30s"))
}

fn short(duration: Duration) -> String {
    SignedDuration::try_from(duration).map_or_else(|_| String::new(), |short| format!("{short:#}"))
}

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// The delay before it is served.
    pub delay: Duration,
    /// The fate after the delay.
    pub outcome: Outcome,
}

/// Whether a request is carried out and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is carried out and answered.
    Served,
    /// It is carried out, but the connection breaks before the answer.
    Lost,
    /// It is not carried out, and the answer is an error.
    Refused(Refusal),
}

/// The error that refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// 409, as if another client had changed the object.
    Conflict,
    /// 429 with `Retry-After`.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 503.
    ServiceUnavailable,
    /// 500 of an admission webhook that cannot be called.
    WebhookDown,
}

/// The fate of an open watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFate {
    /// It continues.
    Continues,
    /// It sends nothing more.
    Stalls,
    /// It breaks.
    Breaks,
}

/// The settings with the random generator that decides.
#[derive(Debug, Clone)]
pub struct Faults {
    settings: Settings,
    dice: fastrand::Rng,
    compacted: Option<Time>,
}

impl Faults {
    /// Returns faults that this seed decides.
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self { settings, dice: fastrand::Rng::with_seed(seed), compacted: None }
    }

    /// Returns the current settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the settings.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Decides what happens to a request.
    pub fn fate(&mut self, request: &Request) -> Fate {
        if !self.settings.concern(request) {
            return Fate { delay: Duration::ZERO, outcome: Outcome::Served };
        }
        Fate { delay: self.delay(), outcome: self.outcome(request) }
    }

    /// Decides what happens to an open watch, for the time since the last decision.
    pub fn watch_fate(&mut self, lasted: Duration) -> WatchFate {
        if self.happens_within(self.settings.dropped_watches, lasted) {
            WatchFate::Breaks
        } else if self.happens_within(self.settings.stalled_watches, lasted) {
            WatchFate::Stalls
        } else {
            WatchFate::Continues
        }
    }

    /// Decides whether a new connection is closed.
    pub fn refuses_connection(&mut self) -> bool {
        self.happens(self.settings.refused_connections)
    }

    /// Returns whether a compaction of the history is due.
    pub fn compacts(&mut self, now: Time) -> bool {
        let Some(period) = self.settings.compaction.0 else { return false };
        let due = now.since(*self.compacted.get_or_insert(now)) >= period;
        if due {
            self.compacted = Some(now);
        }
        due
    }

    fn outcome(&mut self, request: &Request) -> Outcome {
        if self.happens(self.settings.throttling) {
            Outcome::Refused(Refusal::TooManyRequests)
        } else if self.happens(self.settings.errors) {
            let internal = self.dice.bool();
            let unavailable = Refusal::ServiceUnavailable;
            Outcome::Refused(if internal { Refusal::InternalError } else { unavailable })
        } else if request.method != "GET" && self.happens(self.settings.webhooks_down) {
            Outcome::Refused(Refusal::WebhookDown)
        } else if writes_to_an_object(request) && self.happens(self.settings.conflicts) {
            Outcome::Refused(Refusal::Conflict)
        } else if self.happens(self.settings.lost_answers) {
            Outcome::Lost
        } else {
            Outcome::Served
        }
    }

    fn delay(&mut self) -> Duration {
        let Latency { shortest, longest } = self.settings.latency;
        shortest + (longest - shortest).mul_f64(self.dice.f64())
    }

    fn happens(&mut self, share: Share) -> bool {
        self.dice.f64() < share.0
    }

    /// Decides like `happens`, for a probability per second.
    fn happens_within(&mut self, share: Share, span: Duration) -> bool {
        self.dice.f64() < 1.0 - (1.0 - share.0).powf(span.as_secs_f64())
    }
}

/// Returns whether the request can conflict: it writes to an existing object.
fn writes_to_an_object(request: &Request) -> bool {
    match request.method.as_str() {
        "PUT" | "PATCH" | "DELETE" => true,
        "POST" => request.path.ends_with("/binding"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[&str]) -> Settings {
        given.iter().fold(Settings::default(), |settings, one| settings.with(one).unwrap())
    }

    fn outcomes(given: &[&str], request: &Request) -> Vec<Outcome> {
        let mut faults = Faults::new(settings(given), 7);
        (0..1000).map(|_| faults.fate(request).outcome).collect()
    }

    fn read() -> Request {
        Request::new("GET", "/api/v1/pods", "")
    }

    fn update() -> Request {
        Request::new("PUT", "/api/v1/namespaces/default/pods/a", "{}")
    }

    #[test]
    fn default_settings_inject_no_faults() {
        let mut faults = Faults::new(Settings::default(), 0);
        let calm = Fate { delay: Duration::ZERO, outcome: Outcome::Served };
        assert!((0..1000).all(|_| faults.fate(&update()) == calm));
        assert!(
            (0..1000).all(|_| faults.watch_fate(Duration::from_secs(9)) == WatchFate::Continues)
        );
        assert!((0..1000).all(|at| !faults.compacts(Time::from_secs(at))));
        assert!((0..1000).all(|_| !faults.refuses_connection()));
    }

    #[test]
    fn shares_affect_that_share_of_requests() {
        for (given, expected) in [
            ("throttling=0.1", Outcome::Refused(Refusal::TooManyRequests)),
            ("conflicts=0.1", Outcome::Refused(Refusal::Conflict)),
            ("lost-answers=0.1", Outcome::Lost),
        ] {
            let outcomes = outcomes(&[given], &update());
            let affected = outcomes.iter().filter(|&&outcome| outcome == expected).count();
            assert!((60..140).contains(&affected), "{given}: {affected} of 1000");
            assert!(outcomes.iter().all(|&one| one == expected || one == Outcome::Served));
        }
    }

    #[test]
    fn errors_are_500_or_503() {
        let outcomes = outcomes(&["errors=1"], &read());
        for refusal in [Refusal::InternalError, Refusal::ServiceUnavailable] {
            assert!(outcomes.contains(&Outcome::Refused(refusal)), "{refusal:?}");
        }
        assert!(!outcomes.contains(&Outcome::Served));
    }

    #[test]
    fn reads_and_creations_never_conflict() {
        let create = Request::new("POST", "/api/v1/namespaces/default/pods", "{}");
        let bind = Request::new("POST", "/api/v1/namespaces/default/pods/a/binding", "{}");
        for (request, served) in [(read(), true), (create, true), (bind, false), (update(), false)]
        {
            let outcomes = outcomes(&["conflicts=1"], &request);
            assert_eq!(outcomes.contains(&Outcome::Served), served, "{}", request.path);
        }
    }

    #[test]
    fn delays_lie_in_their_range() {
        let mut faults = Faults::new(settings(&["latency=5ms..50ms"]), 3);
        let range = Duration::from_millis(5)..=Duration::from_millis(50);
        assert!((0..1000).all(|_| range.contains(&faults.fate(&read()).delay)));
        faults.set(settings(&["latency=2s"]));
        assert_eq!(faults.fate(&read()).delay, Duration::from_secs(2));
    }

    #[test]
    fn filters_limit_the_affected_requests() {
        let chosen = ["throttling=1", "only-methods=PUT,PATCH", "only-path=/pods/"];
        let served = |request: &Request| outcomes(&chosen, request).contains(&Outcome::Served);
        assert!(!served(&update()));
        assert!(served(&read()));
        assert!(served(&Request::new("PUT", "/api/v1/nodes/a", "{}")));
        let two_paths = ["throttling=1", "only-path=/leases, reviews"];
        let served = |path| {
            outcomes(&two_paths, &Request::new("POST", path, "{}")).contains(&Outcome::Served)
        };
        assert!(!served("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"));
        assert!(!served("/apis/authentication.k8s.io/v1/tokenreviews"));
        assert!(served("/api/v1/namespaces/default/pods/p/binding"));
    }

    #[test]
    fn webhook_of_one_namespace_refuses_its_writes_only() {
        let chosen = ["webhooks-down=1", "only-path=/namespaces/bad/"];
        let refused = |method, namespace| {
            let path = format!("/api/v1/namespaces/{namespace}/pods/a/binding");
            outcomes(&chosen, &Request::new(method, &path, "{}"))
                .contains(&Outcome::Refused(Refusal::WebhookDown))
        };
        assert!(refused("POST", "bad"));
        assert!(!refused("GET", "bad") && !refused("POST", "good"));
    }

    #[test]
    fn equal_seeds_give_equal_faults() {
        let fates = |seed| {
            let mut faults = Faults::new(settings(&["errors=0.5", "latency=1ms..9ms"]), seed);
            (0..100).map(|_| faults.fate(&read())).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn watch_faults_are_probabilities_per_second() {
        let fates = |given, lasted| {
            let mut faults = Faults::new(settings(&[given]), 5);
            (0..1000).map(|_| faults.watch_fate(lasted)).collect::<Vec<_>>()
        };
        let count = |fates: &[WatchFate], fate| fates.iter().filter(|&&one| one == fate).count();
        let second = fates("dropped-watches=0.5", Duration::from_secs(1));
        let hour = fates("dropped-watches=0.5", Duration::from_secs(3600));
        assert!((400..600).contains(&count(&second, WatchFate::Breaks)));
        assert_eq!(count(&hour, WatchFate::Breaks), 1000);
        let stalled = fates("stalled-watches=1", Duration::from_secs(1));
        assert_eq!(count(&stalled, WatchFate::Stalls), 1000);
    }

    #[test]
    fn compaction_is_due_once_a_period() {
        let mut faults = Faults::new(settings(&["compaction=30s"]), 0);
        let times = (100..200).filter(|&at| faults.compacts(Time::from_secs(at)));
        assert_eq!(times.collect::<Vec<_>>(), [130, 160, 190]);
    }

    #[test]
    fn settings_round_trip_through_json() {
        let given = ["latency=5ms..50ms", "errors=0.25", "compaction=1m30s", "only-path=/binding"];
        let settings = settings(&given);
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
        let plain: Settings = serde_json::from_str(r#"{"errors": 0.25}"#).unwrap();
        assert_eq!(plain, Settings::default().with("errors=0.25").unwrap());
    }

    #[test]
    fn bad_settings_say_what_is_expected() {
        for (given, expected) in [
            ("errors", "fault \"errors\": expected name=value"),
            ("errors=2", "fault \"errors=2\": expected a number from 0 to 1"),
            ("errors=many", "fault \"errors=many\": expected a number from 0 to 1"),
            (
                "latency=fast",
                "fault \"latency=fast\": \"fast\" is not a duration such as 5ms, 2s or 1m30s",
            ),
            ("latency=2s..1s", "fault \"latency=2s..1s\": 2s is longer than 1s"),
        ] {
            assert_eq!(Settings::default().with(given).unwrap_err().to_string(), expected);
        }
        let unknown = Settings::default().with("typos=1").unwrap_err().to_string();
        assert!(unknown.contains("unknown field `typos`, expected one of `latency`"), "{unknown}");
    }
}
