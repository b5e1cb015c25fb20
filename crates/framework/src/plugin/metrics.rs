//! Numbers a plugin counts by itself, exported under the name it gives them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows. The plugin keeps one clone of the [`Arc`], its
/// [`Plugin`](crate::Plugin) another.
#[derive(Debug)]
pub struct Counter {
    name: Arc<str>,
    help: Arc<str>,
    value: AtomicU64,
}

impl Counter {
    /// A counter that is exported as `name`, for example `gpu_share_rejections_total`.
    pub fn new(name: &str, help: &str) -> Arc<Self> {
        Arc::new(Self { name: name.into(), help: help.into(), value: AtomicU64::new(0) })
    }

    /// Counts one more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts `more`.
    pub fn add(&self, more: u64) {
        self.value.fetch_add(more, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug)]
pub struct Gauge {
    name: Arc<str>,
    help: Arc<str>,
    value: AtomicI64,
}

impl Gauge {
    /// A gauge that is exported as `name`.
    pub fn new(name: &str, help: &str) -> Arc<Self> {
        Arc::new(Self { name: name.into(), help: help.into(), value: AtomicI64::new(0) })
    }

    /// Sets the number.
    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// The number as it is.
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// A metric of a plugin.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Metric {
    /// Only grows.
    Counter(Arc<Counter>),
    /// Goes up and down.
    Gauge(Arc<Gauge>),
}

impl Metric {
    /// The name it is exported under.
    pub fn name(&self) -> &str {
        match self {
            Self::Counter(counter) => &counter.name,
            Self::Gauge(gauge) => &gauge.name,
        }
    }

    /// The number as it is; a counter beyond the largest `i64` stays there.
    pub fn value(&self) -> i64 {
        match self {
            Self::Counter(counter) => i64::try_from(counter.get()).unwrap_or(i64::MAX),
            Self::Gauge(gauge) => gauge.get(),
        }
    }

    /// What it tells, for people.
    pub fn help(&self) -> &str {
        match self {
            Self::Counter(counter) => &counter.help,
            Self::Gauge(gauge) => &gauge.help,
        }
    }
}

impl From<&Arc<Counter>> for Metric {
    fn from(counter: &Arc<Counter>) -> Self {
        Self::Counter(counter.clone())
    }
}

impl From<&Arc<Gauge>> for Metric {
    fn from(gauge: &Arc<Gauge>) -> Self {
        Self::Gauge(gauge.clone())
    }
}
