//! Faults of requests, replies and watch streams.

use std::time::Duration;

use fastrand::Rng;

use super::coverage::Fault;
use super::emphasis::{Emphasis, Theme};

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The request arrives, and so does the answer.
    Served,
    /// The connection is refused.
    NotSent,
    /// The request is lost without an error.
    Vanishes,
    /// The request is carried out; the answer is lost.
    AnswerLost,
    /// The sender times out; the request arrives later, after this delay.
    Lingers(Duration),
    /// An intermediary answers with this status; the request is not carried out.
    Refused(u16),
    /// The request is carried out; an intermediary answers with this status.
    Garbled(u16),
    /// The API server has no answer from its store in time, and says so. The write is carried out
    /// or not.
    StorageTimesOut { is_carried_out: bool },
}

impl Fate {
    /// Returns the fault that a request with this fate meets.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            Self::Served => None,
            Self::NotSent => Some(Fault::ConnectionRefused),
            Self::Vanishes => Some(Fault::RequestLost),
            Self::AnswerLost => Some(Fault::AnswerLost),
            Self::Lingers(late) if late >= MINUTE => Some(Fault::RequestLateByMinutes),
            Self::Lingers(_) => Some(Fault::RequestLate),
            Self::Refused(403) => Some(Fault::EvictionRefused),
            Self::Refused(_) => Some(Fault::RequestRefused),
            Self::Garbled(_) => Some(Fault::AnswerGarbled),
            Self::StorageTimesOut { .. } => Some(Fault::StorageTimesOut),
        }
    }
}

const MINUTE: Duration = Duration::from_mins(1);

/// The fate of a part of a watch stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The part arrives.
    Arrives,
    /// A piece of the part arrives, then the connection breaks.
    Breaks,
    /// The stream stalls without an error.
    Stalls,
}

/// The numbers of fates that requests have, some of them more often than others.
#[derive(Debug, Clone, Copy)]
struct Fates([u8; 7]);

impl Fates {
    const ALL: Self = Self([0, 1, 2, 3, 4, 5, 6]);

    /// Returns mostly one or two of the fates.
    fn some(rng: &mut Rng) -> Self {
        let chosen = [rng.u8(..7), rng.u8(..7), rng.u8(..7)];
        Self([0, 0, 0, 0, 1, 1, 2].map(|number: usize| chosen[number]))
    }
}

/// Rates of faults, in thousandths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// Rate of requests with a fault.
    faults: u32,
    /// Rates and fates of the requests of single themes.
    themes: [Option<(u32, Fates)>; Theme::OF_REQUESTS],
    /// Rate of parts of streams with a fault.
    broken_pieces: u32,
    /// Rate of watches that start further back than requested.
    repeats: u32,
    /// Longest delay of one direction.
    slowest: Duration,
    /// Longest additional delay of the events of a kind, and a seed for the delays of single kinds.
    lag: (Duration, u64),
    /// The server refuses every request.
    overloaded: bool,
}

impl Network {
    /// Generates a network with faults at random rates.
    pub(crate) fn bad(rng: &mut Rng, emphasis: &Emphasis) -> Self {
        let slowest = [5, 50, 500, 3000][rng.usize(..4)];
        let lag = [0, 0, 0, 300, 3000, 60_000][rng.usize(..6)];
        Self {
            faults: rng.u32(0..250),
            themes: std::array::from_fn(|number| {
                Some((emphasis.rate_of_requests(number, rng)?, Fates::some(rng)))
            }),
            broken_pieces: emphasis.weight(Theme::Watches, rng.u32(0..40)),
            repeats: emphasis.weight(Theme::Watches, rng.u32(0..300)),
            slowest: Duration::from_millis(slowest),
            lag: (Duration::from_millis(lag), rng.u64(..)),
            overloaded: false,
        }
    }

    /// Generates a network with few faults, in which kinds may lag.
    pub(crate) fn fair(rng: &mut Rng, emphasis: &Emphasis) -> Self {
        let faults = [0, 0, 5, 20][rng.usize(..4)];
        let broken_pieces = [0, 1, 3][rng.usize(..3)];
        let slowest = Duration::from_millis([5, 50, 500][rng.usize(..3)]);
        Self { faults, broken_pieces, slowest, ..Self::bad(rng, emphasis) }
    }

    /// A network without faults.
    pub(crate) const fn calm() -> Self {
        let slowest = Duration::from_millis(5);
        let lag = (Duration::ZERO, 0);
        let themes = [None; Theme::OF_REQUESTS];
        Self { faults: 0, themes, broken_pieces: 0, repeats: 0, slowest, lag, overloaded: false }
    }

    /// A network in which every request and stream fails.
    pub(crate) const fn down() -> Self {
        Self { faults: 1000, broken_pieces: 1000, ..Self::calm() }
    }

    /// An overloaded server.
    pub(crate) const fn overloaded() -> Self {
        Self { overloaded: true, ..Self::calm() }
    }

    /// Returns the delay of one direction.
    pub(crate) fn delay(&self, rng: &mut Rng) -> Duration {
        self.slowest.mul_f64(rng.f64() * rng.f64())
    }

    /// Returns the additional delay of the events of a kind, by number. A quarter of the kinds
    /// lags.
    pub(crate) fn lag(&self, kind: usize) -> Duration {
        let (longest, seed) = self.lag;
        let mut rng = Rng::with_seed(seed ^ kind as u64);
        if longest.is_zero() || rng.u32(..4) > 0 {
            Duration::ZERO
        } else {
            longest.mul_f64(rng.f64())
        }
    }

    /// Returns the fate of a request of a theme.
    pub(crate) fn fate(&self, theme: Theme, rng: &mut Rng) -> Fate {
        if self.overloaded {
            return Fate::Refused(429);
        }
        let own = theme.of_requests().and_then(|number| self.themes[number]);
        let (faults, Fates(fates)) = own.unwrap_or((self.faults, Fates::ALL));
        if rng.u32(..1000) >= faults {
            return Fate::Served;
        }
        let status = |rng: &mut Rng| [429, 500, 503, 504][rng.usize(..4)];
        match fates[rng.usize(..fates.len())] {
            4 if theme == Theme::Evictions && rng.bool() => Fate::Refused(403),
            0 => Fate::NotSent,
            1 => Fate::Vanishes,
            2 => Fate::AnswerLost,
            3 => {
                let longest = [30, 300, 3_000, 20_000, 300_000][rng.usize(..5)];
                Fate::Lingers(Duration::from_millis(rng.u64(1..longest)))
            }
            4 => Fate::Refused(status(rng)),
            5 => Fate::StorageTimesOut { is_carried_out: rng.bool() },
            _ => Fate::Garbled([500, 502, 504][rng.usize(..3)]),
        }
    }

    /// Returns by how many versions a watch starts too early; the events in between are repeated.
    pub(crate) fn repeats(&self, rng: &mut Rng) -> u64 {
        if rng.u32(..1000) < self.repeats { rng.u64(1..30) } else { 0 }
    }

    /// Returns the fate of a part of a watch stream.
    pub(crate) fn piece(&self, rng: &mut Rng) -> Piece {
        if rng.u32(..1000) >= self.broken_pieces {
            return Piece::Arrives;
        }
        if rng.bool() { Piece::Breaks } else { Piece::Stalls }
    }
}
