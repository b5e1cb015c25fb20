//! The progress of a workload.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use perf::runner::Progress;

const TEMPLATE: &str = "{spinner} {prefix} {elapsed} {wide_msg}";

/// A line on standard error: on a terminal it changes and is cleared on drop.
pub(super) struct Spinner(ProgressBar);

impl Spinner {
    pub(super) fn start(workload: &str, number: usize, of: usize) -> Self {
        if !io::stderr().is_terminal() {
            // As with other notes, errors of writing are ignored.
            let _ = writeln!(io::stderr().lock(), "{number}/{of} {workload}");
        }
        let style = ProgressStyle::with_template(TEMPLATE);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.set_prefix(format!("{number}/{of} {workload}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Spinner {
    fn doing(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }
}
