//! A progress bar for a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use simulator::Progress;

const TEMPLATE: &str = "{bar:40} {pos}/{len} pods, {per_sec}, {eta} left";

/// A bar on standard error, shown only on a terminal and cleared on drop.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let style = ProgressStyle::with_template(TEMPLATE);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style))
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn expect(&self, arrivals: usize) {
        self.0.inc_length(arrivals as u64);
    }

    fn arrived(&self) {
        self.0.inc(1);
    }
}
