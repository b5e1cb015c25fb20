//! Measured figures and their presentation.

use dry_run::table::{Colour, Column, Table};
use futures::future::LocalBoxFuture;
use serde_json::{Map, Value};

/// A figure.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) measure: fn() -> LocalBoxFuture<'static, anyhow::Result<Vec<Figure>>>,
}

/// The value; the name contains the unit.
pub(crate) struct Figure {
    name: String,
    value: f64,
    /// The target, as text.
    target: &'static str,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), value, target: "" }
    }

    pub(crate) fn with_target(self, target: &'static str) -> Self {
        Self { target, ..self }
    }
}

/// Formats a part as one line of JSON.
pub(crate) fn json(part: &str, figures: &[Figure]) -> Value {
    let mut object = Map::from_iter([("part".to_owned(), part.into())]);
    object.extend(figures.iter().map(|figure| (figure.name.clone(), rounded(figure.value))));
    object.into()
}

fn rounded(value: f64) -> Value {
    ((value * 1e4).round() / 1e4).into()
}

/// Formats all parts as a table.
pub(crate) fn table(measured: &[(&str, Vec<Figure>)]) -> String {
    let mut table = Table::new([
        Column::words("PART"),
        Column::words("FIGURE"),
        Column::numbers("VALUE"),
        Column::words("TARGET"),
    ]);
    for (part, figures) in measured {
        for Figure { name, value, target } in figures {
            table.row([*part, name, &shown(*value), *target]);
        }
    }
    table.render(Colour::of_stdout())
}

/// Rounds to three significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
