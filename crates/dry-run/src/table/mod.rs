//! Plain text tables in the style of `kubectl get`: columns of words aligned left, columns of
//! numbers aligned right, no frame, no truncation and no wrapping. Colour is used only on a
//! terminal.

mod amount;

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

use tabled::builder::Builder;
use tabled::settings::object::{Cell as Place, Columns, Rows};
use tabled::settings::{Alignment, Color, Modify, Padding, Style};

pub use self::amount::amount;

/// Whether a table is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// With colour.
    On,
    /// Plain text without escape sequences.
    Off,
}

impl Colour {
    /// Returns `On` if standard output is a terminal and `NO_COLOR` is unset or empty
    /// (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        Self::of(io::stdout().is_terminal(), env::var_os("NO_COLOR").as_deref())
    }

    fn of(terminal: bool, no_color: Option<&OsStr>) -> Self {
        if terminal && no_color.is_none_or(OsStr::is_empty) { Self::On } else { Self::Off }
    }
}

/// Number of rows of a table that is not shown in full.
pub const LISTED: usize = 50;

/// Returns how many of so many rows are shown, and the line about the others.
pub fn cut(rows: usize, is_whole: bool) -> (usize, String) {
    let shown = if is_whole { rows } else { rows.min(LISTED) };
    let line = match rows - shown {
        0 => String::new(),
        more => format!("and {more} more; --all lists them\n"),
    };
    (shown, line)
}

/// Whether standard output is a terminal, where the end of a long text is what is seen.
pub fn ends_in_view() -> bool {
    io::stdout().is_terminal()
}

/// A column: its header and its alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    header: String,
    alignment: Alignment,
}

impl Column {
    /// Creates a column of words, aligned left.
    pub fn words(header: impl Into<String>) -> Self {
        Self { header: header.into(), alignment: Alignment::left() }
    }

    /// Creates a column of numbers, aligned right.
    pub fn numbers(header: impl Into<String>) -> Self {
        Self { header: header.into(), alignment: Alignment::right() }
    }
}

/// The colour of a cell, where colour is on. The text carries the full meaning without it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// The default colour.
    #[default]
    Plain,
    /// Green: as expected.
    Good,
    /// Yellow: unusual.
    Odd,
    /// Red: a problem.
    Bad,
}

impl Tone {
    fn color(self) -> Option<Color> {
        match self {
            Self::Plain => None,
            Self::Good => Some(Color::FG_GREEN),
            Self::Odd => Some(Color::FG_YELLOW),
            Self::Bad => Some(Color::FG_RED),
        }
    }
}

/// The text of a cell and its tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Creates a cell with a tone. Control characters are shown as escapes, so no name can move the
    /// cursor or break a line.
    pub fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: visible(text.as_ref()), tone }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// A table that is filled row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Creates an empty table with these columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells stay empty; extra cells get a column without header.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) -> &mut Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }

    /// Renders the table as lines of text, header first. Each line ends with a line feed.
    pub fn render(&self, colour: Colour) -> String {
        let mut builder = Builder::with_capacity(self.rows.len() + 1, self.columns.len());
        builder.push_record(self.columns.iter().map(|column| visible(&column.header)));
        for row in &self.rows {
            builder.push_record(row.iter().map(|cell| cell.text.as_str()));
        }
        let mut table = builder.build();
        table.with(Style::empty()).with(Padding::new(0, 2, 0, 0));
        for (ix, column) in self.columns.iter().enumerate() {
            table.with(Modify::new(Columns::one(ix)).with(column.alignment));
        }
        if colour == Colour::On {
            self.paint(&mut table);
        }
        let mut text = String::new();
        for line in table.to_string().lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn paint(&self, table: &mut tabled::Table) {
        table.with(Modify::new(Rows::first()).with(Color::BOLD));
        for (y, row) in self.rows.iter().enumerate() {
            for (x, cell) in row.iter().enumerate() {
                if let Some(color) = cell.tone.color() {
                    table.with(Modify::new(Place::new(y + 1, x)).with(color));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Table {
        let mut table = Table::new([
            Column::words("NODE"),
            Column::numbers("PODS"),
            Column::numbers("CPU %"),
            Column::words("STATE"),
        ]);
        table
            .row([Cell::from("n1"), "3".into(), "7.5".into(), Cell::toned("ready", Tone::Good)])
            .row(["a-node-with-a-long-name", "120", "99.9", "cordoned"]);
        table
    }

    #[test]
    fn words_align_left_and_numbers_right_without_trailing_spaces() {
        let expected = "\
NODE                     PODS  CPU %  STATE
n1                          3    7.5  ready
a-node-with-a-long-name   120   99.9  cordoned
";
        assert_eq!(nodes().render(Colour::Off), expected);
    }

    #[test]
    fn colour_adds_only_escape_sequences() {
        let coloured = nodes().render(Colour::On);
        assert!(coloured.contains("\u{1b}[1m"), "the header is bold: {coloured:?}");
        assert!(coloured.contains("\u{1b}[32mready"), "good is green: {coloured:?}");
        let plain: Vec<String> = stripped(&coloured).lines().map(trimmed).collect();
        assert_eq!(plain, nodes().render(Colour::Off).lines().map(trimmed).collect::<Vec<_>>());
    }

    fn trimmed(line: &str) -> String {
        line.trim_end().to_owned()
    }

    /// Returns the text without `ESC [ ... m`.
    fn stripped(text: &str) -> String {
        let mut parts = text.split('\u{1b}');
        let mut plain = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
        }
        plain
    }

    #[test]
    fn long_cells_are_not_truncated() {
        let mut table = Table::new([Column::words("REASON"), Column::words("POD")]);
        let reason = "0/5 nodes are available: ".repeat(40);
        table.row([reason.as_str(), "p1"]);
        assert!(table.render(Colour::Off).contains(&reason));
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut table = Table::new([Column::words("POD")]);
        table.row(["a\u{1b}[2Jb\nc\td"]);
        assert_eq!(table.render(Colour::Off), "POD\na\\u{1b}[2Jb\\nc\\td\n");
    }

    #[test]
    fn empty_table_is_its_header_and_short_rows_are_filled() {
        let mut table = Table::new([Column::words("A"), Column::numbers("B")]);
        assert_eq!(table.render(Colour::Off), "A  B\n");
        table.row(["x"]);
        assert_eq!(table.render(Colour::Off), "A  B\nx\n");
        assert_eq!(Table::new([]).render(Colour::Off), "");
    }

    #[test]
    fn wide_characters_keep_columns_aligned() {
        let mut table = Table::new([Column::words("NAME"), Column::numbers("N")]);
        table.row(["Größe", "1"]).row(["節点", "22"]);
        assert_eq!(table.render(Colour::Off), "NAME    N\nGröße   1\n節点   22\n");
    }

    #[test]
    fn colour_needs_a_terminal_and_no_no_color() {
        for (terminal, no_color, expected) in [
            (true, None, Colour::On),
            (true, Some(""), Colour::On),
            (true, Some("1"), Colour::Off),
            (false, None, Colour::Off),
            (false, Some("1"), Colour::Off),
        ] {
            let seen = Colour::of(terminal, no_color.map(OsStr::new));
            assert_eq!(seen, expected, "terminal {terminal}, NO_COLOR {no_color:?}");
        }
    }
}
