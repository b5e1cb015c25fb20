//! What becomes of requests, replies and watch streams on their way.

use std::time::Duration;

use fastrand::Rng;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives, and so does the answer.
    Served,
    /// No connection can be made.
    NotSent,
    /// It never arrives, and nobody says so.
    Vanishes,
    /// It is carried out; the answer is lost.
    AnswerLost,
    /// The sender gives up on it; it arrives all the same, this much later.
    Lingers(Duration),
    /// Something on the way answers with this status; it is not carried out.
    Refused(u16),
    /// It is carried out; something on the way answers with this status.
    Garbled(u16),
}

/// What becomes of a piece of a watch stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// It arrives.
    Arrives,
    /// It arrives in part, then the connection breaks.
    Breaks,
    /// Nothing arrives any more, and nobody says so.
    Stalls,
}

/// How bad the network is, in thousandths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    /// Requests that do not go as they should.
    faults: u32,
    /// Pieces of streams that do not.
    broken_pieces: u32,
    /// Watches that are opened further back than where they were asked to go on.
    repeats: u32,
    /// Longest delay of one way.
    slowest: Duration,
    /// The server turns everything away.
    overloaded: bool,
}

impl Network {
    /// A network with faults, more or fewer of them.
    pub(crate) fn bad(rng: &mut Rng) -> Self {
        let slowest = [5, 50, 500, 3000][rng.usize(..4)];
        Self {
            faults: rng.u32(0..250),
            broken_pieces: rng.u32(0..40),
            repeats: rng.u32(0..300),
            slowest: Duration::from_millis(slowest),
            overloaded: false,
        }
    }

    /// A network without faults.
    pub(crate) const fn calm() -> Self {
        let slowest = Duration::from_millis(5);
        Self { faults: 0, broken_pieces: 0, repeats: 0, slowest, overloaded: false }
    }

    /// A network in which nothing goes as it should.
    pub(crate) const fn down() -> Self {
        Self { faults: 1000, broken_pieces: 1000, ..Self::calm() }
    }

    /// A server that is asked for more than it can do.
    pub(crate) const fn overloaded() -> Self {
        Self { overloaded: true, ..Self::calm() }
    }

    /// How long one way takes.
    pub(crate) fn delay(&self, rng: &mut Rng) -> Duration {
        self.slowest.mul_f64(rng.f64() * rng.f64())
    }

    /// What becomes of a request.
    pub(crate) fn fate(&self, rng: &mut Rng) -> Fate {
        if self.overloaded {
            return Fate::Refused(429);
        }
        if rng.u32(..1000) >= self.faults {
            return Fate::Served;
        }
        let status = |rng: &mut Rng| [429, 500, 503, 504][rng.usize(..4)];
        match rng.u32(..6) {
            0 => Fate::NotSent,
            1 => Fate::Vanishes,
            2 => Fate::AnswerLost,
            3 => {
                let longest = [30, 300, 3_000, 20_000][rng.usize(..4)];
                Fate::Lingers(Duration::from_millis(rng.u64(1..longest)))
            }
            4 => Fate::Refused(status(rng)),
            _ => Fate::Garbled([500, 502, 504][rng.usize(..3)]),
        }
    }

    /// How many versions before the one it was asked for a watch begins: what happened between is
    /// said twice.
    pub(crate) fn repeats(&self, rng: &mut Rng) -> u64 {
        if rng.u32(..1000) < self.repeats { rng.u64(1..30) } else { 0 }
    }

    /// What becomes of a piece of a watch stream.
    pub(crate) fn piece(&self, rng: &mut Rng) -> Piece {
        if rng.u32(..1000) >= self.broken_pieces {
            return Piece::Arrives;
        }
        if rng.bool() { Piece::Breaks } else { Piece::Stalls }
    }
}
