//! How often each fault fired, how often each state was entered, and how often each pair of them
//! met.

mod fault;
mod state;

use std::fmt;
use std::ops::AddAssign;

pub(crate) use fault::Fault;
pub(crate) use state::{State, States};

/// Defines an enum whose variants have names for tables.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $name {
            $(#[doc = $text] $variant,)*
        }

        impl $name {
            /// All variants, in order.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name of the variant.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
use named;

/// What one or several runs have covered.
#[derive(Debug, Clone)]
pub(crate) struct Coverage {
    /// Number of times that each fault fired.
    fired: Vec<u64>,
    /// Number of times that each state was entered.
    entered: Vec<u64>,
    /// Number of times that each fault fired while a process was in each state.
    met: Vec<Vec<u64>>,
    /// The present states of the process in each seat.
    present: Vec<States>,
}

impl Default for Coverage {
    fn default() -> Self {
        let (faults, states) = (Fault::ALL.len(), State::ALL.len());
        Self {
            fired: vec![0; faults],
            entered: vec![0; states],
            met: vec![vec![0; states]; faults],
            present: Vec::new(),
        }
    }
}

impl Coverage {
    /// Records that a fault fired that concerns every process.
    pub(crate) fn fired(&mut self, fault: Fault) {
        let states = self.present.iter().copied().fold(States::default(), States::and);
        self.count(fault, states);
    }

    /// Records that a fault fired that concerns the process in this seat.
    pub(crate) fn fired_at(&mut self, fault: Fault, seat: usize) {
        let states = self.present.get(seat).copied().unwrap_or_default();
        self.count(fault, states);
    }

    fn count(&mut self, fault: Fault, states: States) {
        self.fired[fault as usize] += 1;
        for state in states.iter() {
            self.met[fault as usize][state as usize] += 1;
        }
    }

    /// Records the present states of the process in this seat.
    pub(crate) fn see(&mut self, seat: usize, states: States) {
        if self.present.len() <= seat {
            self.present.resize(seat + 1, States::default());
        }
        let before = std::mem::replace(&mut self.present[seat], states);
        for state in states.iter().filter(|state| !before.contains(*state)) {
            self.entered[state as usize] += 1;
        }
    }

    /// Records that a process entered a state that ends at once.
    pub(crate) fn enter(&mut self, state: State) {
        self.entered[state as usize] += 1;
    }

    /// Returns the names of the faults that never fired and of the states that were never entered.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &'static str> {
        let faults = Fault::ALL.iter().filter(|fault| self.fired[**fault as usize] == 0);
        let states = State::ALL.iter().filter(|state| self.entered[**state as usize] == 0);
        faults.map(|fault| fault.name()).chain(states.map(|state| state.name()))
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Self) {
        let add = |own: &mut Vec<u64>, other: Vec<u64>| {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        };
        add(&mut self.fired, other.fired);
        add(&mut self.entered, other.entered);
        self.met.iter_mut().zip(other.met).for_each(|(own, other)| add(own, other));
    }
}

impl fmt::Display for Coverage {
    /// Writes the table: a row for each state, a column for each fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Faults, and how often each fired:")?;
        for fault in Fault::ALL {
            let (letter, name) = (column(*fault), fault.name());
            writeln!(f, "  {letter:>2}  {name:<34} {:>9}", self.fired[*fault as usize])?;
        }
        writeln!(
            f,
            "States of processes, how often each was entered, and how often each fault met it:"
        )?;
        write!(f, "  {:<30} {:>9}", "", "entered")?;
        for fault in Fault::ALL {
            write!(f, " {:>4}", column(*fault))?;
        }
        writeln!(f)?;
        for state in State::ALL {
            write!(f, "  {:<30} {:>9}", state.name(), self.entered[*state as usize])?;
            for met in &self.met {
                write!(f, " {:>4}", Short(met[*state as usize]))?;
            }
            writeln!(f)?;
        }
        let (pairs, all) = (self.met.iter().flatten(), Fault::ALL.len() * State::ALL.len());
        let met = pairs.filter(|count| **count > 0).count();
        write!(f, "{met} of {all} pairs of a fault and a state met")
    }
}

/// Returns the letters of the column of a fault: `A` to `Z`, then `AA`, `AB` and so on.
fn column(fault: Fault) -> String {
    let letter = |number: usize| char::from(b'A' + u8::try_from(number % 26).unwrap_or(0));
    let number = fault as usize;
    let first = (number >= 26).then(|| letter(number / 26 - 1));
    first.into_iter().chain([letter(number)]).collect()
}

/// A count in at most four characters; a dot for zero.
struct Short(u64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0 => ".".to_owned(),
            count @ ..10_000 => count.to_string(),
            count @ ..1_000_000 => format!("{}k", count / 1000),
            count => format!("{}M", count / 1_000_000),
        };
        f.pad(&text)
    }
}
