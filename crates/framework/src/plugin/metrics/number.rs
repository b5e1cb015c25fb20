//! Counters and gauges.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::Instrument;

/// A number that only grows. The plugin keeps one clone of the [`Arc`], its
/// [`Plugin`](crate::Plugin) another.
#[derive(Debug)]
pub struct Counter {
    name: Arc<str>,
    help: Arc<str>,
    value: AtomicU64,
}

impl Counter {
    /// Returns a counter that is exported as `name`, for example `gpu_share_rejections_total`.
    pub fn new(name: &str, help: &str) -> Arc<Self> {
        Arc::new(Self::unshared(name, help))
    }

    pub(super) fn unshared(name: &str, help: &str) -> Self {
        Self { name: name.into(), help: help.into(), value: AtomicU64::new(0) }
    }

    /// Adds 1.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.value.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

impl Instrument for Counter {
    fn name(&self) -> &str {
        &self.name
    }

    fn help(&self) -> &str {
        &self.help
    }

    fn blank(&self) -> Self {
        Self { name: self.name.clone(), help: self.help.clone(), value: AtomicU64::new(0) }
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
    /// Returns a gauge that is exported as `name`.
    pub fn new(name: &str, help: &str) -> Arc<Self> {
        Arc::new(Self::unshared(name, help))
    }

    pub(super) fn unshared(name: &str, help: &str) -> Self {
        Self { name: name.into(), help: help.into(), value: AtomicI64::new(0) }
    }

    /// Sets the number.
    pub fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }
}

impl Instrument for Gauge {
    fn name(&self) -> &str {
        &self.name
    }

    fn help(&self) -> &str {
        &self.help
    }

    fn blank(&self) -> Self {
        Self { name: self.name.clone(), help: self.help.clone(), value: AtomicI64::new(0) }
    }
}
