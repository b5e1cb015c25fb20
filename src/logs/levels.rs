//! The verbosity of the log, and the events that it selects.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, callsite};
use tracing_subscriber::layer::{Context, Filter};

use super::vmodule::Vmodule;

/// Verbose libraries: below [`LIBRARIES_FROM`] only their warnings are logged.
const LIBRARIES: [&str; 9] =
    ["axum", "axum_server", "h2", "hyper", "hyper_util", "kube", "kube_client", "rustls", "tower"];

/// The verbosity from which on these libraries log.
const LIBRARIES_FROM: u8 = 6;

/// The verbosity of all files, and higher ones of single files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels {
    /// Verbosity of all files (`-v`).
    pub verbosity: u8,
    /// Higher verbosities of single files (`--vmodule`).
    pub vmodule: Vmodule,
}

impl From<u8> for Levels {
    fn from(verbosity: u8) -> Self {
        Self { verbosity, vmodule: Vmodule::default() }
    }
}

impl Levels {
    pub(super) fn filter(self) -> (VerbosityFilter, Verbosity) {
        let verbosity = Verbosity(Arc::new(self.verbosity.into()));
        (VerbosityFilter { verbosity: verbosity.clone(), vmodule: self.vmodule }, verbosity)
    }
}

/// The verbosity of the log (`-v`), which can be changed at run time.
#[derive(Clone)]
pub struct Verbosity(Arc<AtomicU8>);

impl fmt::Debug for Verbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Verbosity").field(&self.get()).finish()
    }
}

impl Verbosity {
    /// Returns the verbosity in effect.
    pub fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the verbosity.
    pub fn set(&self, verbosity: u8) {
        self.0.store(verbosity, Ordering::Relaxed);
        callsite::rebuild_interest_cache();
    }
}

/// Selects the events that are verbose enough.
#[derive(Debug)]
pub(super) struct VerbosityFilter {
    verbosity: Verbosity,
    vmodule: Vmodule,
}

impl VerbosityFilter {
    fn selects(&self, event: &Metadata<'_>) -> bool {
        let needed = needed(event);
        self.verbosity.get() >= needed || self.vmodule.verbosity(event) >= needed
    }
}

/// Returns the verbosity from which on an event is logged.
fn needed(event: &Metadata<'_>) -> u8 {
    let own = match *event.level() {
        Level::ERROR | Level::WARN => return 0,
        Level::INFO => 0,
        Level::DEBUG => 2,
        Level::TRACE => 4,
    };
    let library = event.target().split("::").next().unwrap_or_default();
    if LIBRARIES.contains(&library) { LIBRARIES_FROM.max(own) } else { own }
}

impl<S> Filter<S> for VerbosityFilter {
    fn enabled(&self, event: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        self.selects(event)
    }

    fn callsite_enabled(&self, event: &'static Metadata<'static>) -> Interest {
        if self.selects(event) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let highest = self.verbosity.get().max(self.vmodule.highest());
        Some(match highest {
            0 | 1 => LevelFilter::INFO,
            2 | 3 => LevelFilter::DEBUG,
            4.. => LevelFilter::TRACE,
        })
    }
}
