//! Line plots as SVG.
//!
//! A [`Plot`] is put together from axes and series and written with [`ToString`] or `write!`. The
//! file is self-contained and small: a white ground of its own (so that it reads in dark viewers
//! too), fonts of the viewer, lines thinned out to what the width can show. The same plot gives the
//! same bytes.

use std::fmt::{self, Display, Formatter, Write as _};

const WIDTH: f64 = 880.0;
const AREA_HEIGHT: f64 = 340.0;
/// Where the area of the lines begins, unless the numbers beside it need more room.
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 32.0;

/// Colours that people with any colour vision tell apart (after Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const GUIDE_COLOUR: &str = "#8a929c";
/// How bands are filled.
const SHADE: &str = r#"fill-opacity="0.18""#;
const TITLE_LOOK: &str = r##"font-size="18" font-weight="600" fill="#1b1f24""##;
const TEXT: &str = "#4a525c";
const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

/// Points of all lines and band edges together; at up to 12 bytes each, a file stays below 200 KiB.
const MOST_POINTS: usize = 12_000;
/// Points of one line: about two for every pixel of the width.
const MOST_POINTS_PER_LINE: usize = 1_600;
/// Numbers beyond this are left out like infinite ones, so that no difference overflows.
const LARGEST: f64 = 1e300;

/// An axis: what it measures, and the numbers it spans.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    label: String,
    unit: String,
    range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis that spans the data; an upright one is widened to whole ticks.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), unit: String::new(), range: None }
    }

    /// Text behind the number of every tick, for example `%`.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Spans `low` to `high`; lines are cut off beyond. Ignored unless `low` is less than `high`.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = (usable(low) && usable(high) && low < high).then_some((low, high));
        self
    }
}

/// The least and the most at one place of the x axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Where.
    pub x: f64,
    /// Least.
    pub low: f64,
    /// Most.
    pub high: f64,
}

/// A line with a name. Points that are not finite are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    band: Vec<Band>,
    guide: bool,
}

impl Series {
    /// A line in a colour of its own through (x, y) in this order.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        let points = points.into_iter().filter(|&(x, y)| usable(x) && usable(y)).collect();
        Self { name: name.into(), points, band: Vec::new(), guide: false }
    }

    /// A thin dashed grey line to compare with. It does not widen the axes.
    pub fn guide(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { guide: true, ..Self::line(name, points) }
    }

    /// Shades the room between least and most behind the line.
    #[must_use]
    pub fn band(mut self, band: Vec<Band>) -> Self {
        let complete = |band: &Band| usable(band.x) && usable(band.low) && usable(band.high);
        self.band = band.into_iter().filter(complete).collect();
        self
    }

    /// Everything the axes must span.
    fn extent(&self) -> impl Iterator<Item = (f64, f64)> {
        let edges = self.band.iter().flat_map(|band| [(band.x, band.low), (band.x, band.high)]);
        self.points.iter().copied().chain(edges)
    }
}

fn usable(number: f64) -> bool {
    number.abs() <= LARGEST
}

/// A line plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    title: String,
    subtitle: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    note: String,
}

impl Plot {
    /// A plot without lines.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        let title = title.into();
        Self { title, subtitle: String::new(), x, y, series: Vec::new(), note: String::new() }
    }

    /// A smaller line below the title.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// Adds a line.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Small print below the plot, wrapped at spaces.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.guide || series.points.is_empty())
    }

    /// How many points a line or the edge of a band may have.
    fn points_per_line(&self) -> usize {
        let edges = |series: &Series| if series.band.is_empty() { 1 } else { 3 };
        let lines: usize = self.series.iter().map(edges).sum();
        (MOST_POINTS / lines.max(1)).clamp(4, MOST_POINTS_PER_LINE)
    }

    /// The colour of each series.
    fn colours(&self) -> Vec<&'static str> {
        let mut palette = COLOURS.iter().copied().cycle();
        let colour = |series: &Series| {
            if series.guide { GUIDE_COLOUR } else { palette.next().unwrap_or(GUIDE_COLOUR) }
        };
        self.series.iter().map(colour).collect()
    }
}

impl Display for Plot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let layout = Layout::of(self);
        let colours = self.colours();
        layout.open(f, self)?;
        layout.header(f, self)?;
        layout.legend(f, &self.series, &colours)?;
        layout.x_axis(f, &self.x)?;
        layout.y_axis(f, &self.y)?;
        layout.lines(f, self, &colours)?;
        layout.note(f)?;
        f.write_str("</svg>\n")
    }
}

/// The numbers an axis spans, the pixels they lie on, and the ticks.
struct Scale {
    numbers: (f64, f64),
    pixels: (f64, f64),
    ticks: Ticks,
}

impl Scale {
    /// Spans the range of the axis, or just the values.
    fn close(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        pixels: (f64, f64),
        most: f64,
    ) -> Self {
        let numbers = axis.range.unwrap_or_else(|| spanned(values));
        Self { numbers, pixels, ticks: Ticks::within(numbers, most) }
    }

    /// Spans the range of the axis, or the values widened to whole ticks.
    fn wide(axis: &Axis, values: impl Iterator<Item = f64>, pixels: (f64, f64), most: f64) -> Self {
        let mut scale = Self::close(axis, values, pixels, most);
        if axis.range.is_none() {
            let (low, high) = scale.numbers;
            let step = scale.ticks.step;
            scale.numbers = ((low / step).floor() * step, (high / step).ceil() * step);
            scale.ticks = Ticks::within(scale.numbers, most);
        }
        scale
    }

    fn pixel(&self, number: f64) -> f64 {
        let (low, high) = self.numbers;
        let (from, to) = self.pixels;
        from + (number - low) / (high - low) * (to - from)
    }
}

/// Least and most of the values, apart from each other even when the values are not.
fn spanned(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (f64::min(low, value), f64::max(high, value))
    });
    if low > high {
        return (0.0, 1.0);
    }
    // Closer than this, neighbouring ticks would be the same number.
    let least = f64::max(low.abs(), high.abs()) * 1e-9;
    if high - low > least { (low, high) } else { (low, low + f64::max(least * 10.0, 1.0)) }
}

/// The smallest of 1, 2, 5 times a power of ten that is not less.
fn round_step(at_least: f64) -> f64 {
    let power = 10_f64.powf(at_least.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power);
    step.into_iter().find(|step| *step >= at_least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// Round numbers at even distances.
struct Ticks {
    first: f64,
    step: f64,
    count: usize,
}

impl Ticks {
    fn within((low, high): (f64, f64), most: f64) -> Self {
        let step = round_step((high - low) / most);
        let first = (low / step - 1e-9).ceil();
        let count = ((high / step + 1e-9).floor() - first).clamp(0.0, most) as usize + 1;
        Self { first, step, count }
    }

    fn numbers(&self) -> impl Iterator<Item = f64> {
        (0..self.count).map(|ix| (self.first + ix as f64) * self.step)
    }

    /// The number with as many decimals as the step has, thousands apart.
    fn label(&self, number: f64) -> String {
        if self.step >= 1e12 || self.step < 1e-6 {
            return format!("{number:e}");
        }
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        let text = format!("{:.decimals$}", number.abs());
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let negative = number < 0.0 && text.contains(|c: char| ('1'..='9').contains(&c));
        let mut label = if negative { "\u{2212}".to_owned() } else { String::new() };
        for (ix, digit) in whole.char_indices() {
            if ix > 0 && (whole.len() - ix) % 3 == 0 {
                label.push(',');
            }
            label.push(digit);
        }
        if !fraction.is_empty() {
            label.push('.');
            label.push_str(fraction);
        }
        label
    }
}

/// Where everything goes.
struct Layout {
    x: Scale,
    y: Scale,
    left: f64,
    top: f64,
    bottom: f64,
    subtitle: f64,
    /// Left end and base line of every entry of the legend.
    legend: Vec<(f64, f64)>,
    note: Vec<String>,
    height: f64,
}

impl Layout {
    const LEGEND_LINE: f64 = 24.0;
    const NOTE_LINE: f64 = 16.0;

    fn of(plot: &Plot) -> Self {
        let extent = || plot.series.iter().filter(|series| !series.guide).flat_map(Series::extent);
        let subtitle = if plot.subtitle.is_empty() { 34.0 } else { 57.0 };
        let note = wrapped(&plot.note, 130);

        // Where the lines begin depends on the numbers beside them, what is above on where they
        // begin, and where those numbers are drawn on what is above.
        let mut y = Scale::wide(&plot.y, extent().map(|(_, y)| y), (AREA_HEIGHT, 0.0), 6.0);
        let labels = y.ticks.numbers().map(|number| y.ticks.label(number) + &plot.y.unit);
        let left = labels.map(|label| text_width(&label) + 40.0).fold(LEFT, f64::max);
        let legend = place_legend(&plot.series, left, subtitle + 28.0);
        let top = legend.last().map_or(subtitle, |&(_, y)| y) + 20.0;
        let bottom = top + AREA_HEIGHT;
        y.pixels = (bottom, top);
        Self {
            x: Scale::close(&plot.x, extent().map(|(x, _)| x), (left, RIGHT), 10.0),
            y,
            left,
            top,
            bottom,
            subtitle,
            legend,
            height: bottom + 70.0 + note.len() as f64 * Self::NOTE_LINE,
            note,
        }
    }

    /// Ground, description for those who cannot see it, and the styles.
    fn open(&self, f: &mut Formatter<'_>, plot: &Plot) -> fmt::Result {
        let (height, title) = (Px(self.height), Escaped(&plot.title));
        let size = format!(r#"width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}""#);
        let look = format!(r#"font-family="{FONTS}" font-size="13" fill="{TEXT}""#);
        writeln!(f, r#"<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {look}>"#)?;
        writeln!(f, "<title>{title}</title>")?;
        writeln!(f, "<desc>{} over {}</desc>", Escaped(&plot.y.label), Escaped(&plot.x.label))?;
        writeln!(f, r##"<rect width="100%" height="100%" rx="8" fill="#ffffff"/>"##)?;
        let left = self.left;
        writeln!(
            f,
            r#"<clipPath id="area"><rect x="{left}" y="{}" width="{}" height="{}"/></clipPath>"#,
            self.top - 2.0,
            RIGHT - self.left + 2.0,
            self.bottom - self.top + 3.0
        )
    }

    fn header(&self, f: &mut Formatter<'_>, plot: &Plot) -> fmt::Result {
        let left = self.left;
        writeln!(f, r#"<text x="{left}" y="34" {TITLE_LOOK}>{}</text>"#, Escaped(&plot.title))?;
        if plot.subtitle.is_empty() {
            return Ok(());
        }
        let y = self.subtitle;
        writeln!(f, r#"<text x="{left}" y="{y}">{}</text>"#, Escaped(&plot.subtitle))
    }

    fn legend(&self, f: &mut Formatter<'_>, series: &[Series], colours: &[&str]) -> fmt::Result {
        for ((series, colour), (x, y)) in series.iter().zip(colours).zip(&self.legend) {
            let (line, end) = (y - 4.5, x + 24.0);
            if !series.band.is_empty() {
                let top = line - 6.0;
                writeln!(
                    f,
                    r#"<rect x="{x}" y="{top}" width="24" height="12" fill="{colour}" {SHADE}/>"#
                )?;
            }
            let stroke = Stroke { colour, guide: series.guide };
            writeln!(f, r#"<path d="M{} {line}H{}" {stroke}/>"#, Px(*x), Px(end))?;
            let text = Px(end + 8.0);
            writeln!(f, r#"<text x="{text}" y="{y}">{}</text>"#, Escaped(&series.name))?;
        }
        Ok(())
    }

    fn x_axis(&self, f: &mut Formatter<'_>, axis: &Axis) -> fmt::Result {
        let (top, bottom) = (Px(self.top), Px(self.bottom));
        let at = |number| Px(self.x.pixel(number));
        write!(f, r##"<path stroke="#eceef1" d=""##)?;
        for number in self.x.ticks.numbers() {
            write!(f, "M{} {top}V{bottom}", at(number))?;
        }
        writeln!(f, "\"/>")?;
        writeln!(f, r#"<g text-anchor="middle">"#)?;
        let y = Px(self.bottom + 20.0);
        for number in self.x.ticks.numbers() {
            let label = format!("{}{}", self.x.ticks.label(number), axis.unit);
            let x = Px(self.x.pixel(number).min(WIDTH - 6.0 - text_width(&label) / 2.0));
            writeln!(f, r#"<text x="{x}" y="{y}">{}</text>"#, Escaped(&label))?;
        }
        let (x, y) = (Px((self.left + RIGHT) / 2.0), Px(self.bottom + 46.0));
        writeln!(f, r#"<text x="{x}" y="{y}">{}</text></g>"#, Escaped(&axis.label))
    }

    fn y_axis(&self, f: &mut Formatter<'_>, axis: &Axis) -> fmt::Result {
        let left = self.left;
        let at = |number| self.y.pixel(number);
        write!(f, r##"<path stroke="#dfe2e6" d=""##)?;
        for number in self.y.ticks.numbers() {
            write!(f, "M{left} {}H{RIGHT}", Px(at(number)))?;
        }
        writeln!(f, "\"/>")?;
        let base = Px(self.bottom);
        writeln!(f, r##"<path stroke="#9aa2ac" d="M{left} {base}H{RIGHT}"/>"##)?;
        writeln!(f, r#"<g text-anchor="end">"#)?;
        let x = left - 10.0;
        for number in self.y.ticks.numbers() {
            let (y, label) = (Px(at(number) + 4.5), self.y.ticks.label(number));
            writeln!(f, r#"<text x="{x}" y="{y}">{label}{}</text>"#, Escaped(&axis.unit))?;
        }
        writeln!(f, "</g>")?;
        let turned = format!("translate(20 {}) rotate(-90)", Px((self.top + self.bottom) / 2.0));
        writeln!(
            f,
            r#"<text transform="{turned}" text-anchor="middle">{}</text>"#,
            Escaped(&axis.label)
        )
    }

    /// Bands first, so that none covers a line; the first series comes out on top.
    fn lines(&self, f: &mut Formatter<'_>, plot: &Plot, colours: &[&str]) -> fmt::Result {
        if plot.is_empty() {
            let (x, y) = (Px((self.left + RIGHT) / 2.0), Px((self.top + self.bottom) / 2.0));
            writeln!(f, r#"<text x="{x}" y="{y}" text-anchor="middle">no data</text>"#)?;
        }
        let most = plot.points_per_line();
        writeln!(f, r#"<g clip-path="url(#area)">"#)?;
        for (series, colour) in plot.series.iter().zip(colours).rev() {
            if !series.band.is_empty() {
                let band = self.band(series, most);
                writeln!(f, r#"<path d="{band}Z" fill="{colour}" {SHADE}/>"#)?;
            }
        }
        for (series, colour) in plot.series.iter().zip(colours).rev() {
            if !series.points.is_empty() {
                let stroke = Stroke { colour, guide: series.guide };
                let line = self.path(thinned(&series.points, most));
                writeln!(f, r#"<path d="{line}" {stroke}/>"#)?;
            }
        }
        writeln!(f, "</g>")
    }

    /// Along the upper edge and back along the lower one.
    fn band(&self, series: &Series, most: usize) -> String {
        let band = thinned_band(&series.band, most);
        let upper = band.iter().map(|band| (band.x, band.high));
        let lower = band.iter().rev().map(|band| (band.x, band.low));
        self.path(upper.chain(lower))
    }

    fn path(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (x, y) in points {
            path.push_str(if path.is_empty() { "M" } else { "L" });
            path.push_str(&format!("{} {}", Px(self.x.pixel(x)), Px(self.y.pixel(y))));
        }
        path
    }

    fn note(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let left = self.left;
        for (ix, line) in self.note.iter().enumerate() {
            let y = Px(self.bottom + 72.0 + ix as f64 * Self::NOTE_LINE);
            writeln!(
                f,
                r##"<text x="{left}" y="{y}" font-size="11.5" fill="#6b737d">{}</text>"##,
                Escaped(line)
            )?;
        }
        Ok(())
    }
}

/// Pixels that a text of ordinary size takes, more or less: the fonts are not known here.
fn text_width(text: &str) -> f64 {
    7.5 * text.chars().count() as f64
}

/// Puts the entries of the legend side by side, on further lines where the width ends.
fn place_legend(series: &[Series], left: f64, first_line: f64) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (left, first_line);
    let mut places = Vec::with_capacity(series.len());
    for series in series {
        let width = 24.0 + 8.0 + text_width(&series.name);
        if x > left && x + width > RIGHT {
            (x, y) = (left, y + Layout::LEGEND_LINE);
        }
        places.push((x, y));
        x += width + 26.0;
    }
    places
}

/// Lines of at most that many characters, broken at spaces; longer words stay whole.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// At most that many points that look the same: of every run of neighbours the lowest and the
/// highest, and both ends of the line.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let [first, inner @ .., last] = points else { return points.to_vec() };
    if points.len() <= most {
        return points.to_vec();
    }
    let runs = (most / 2).saturating_sub(1).max(1);
    let extremes = inner.chunks(inner.len().div_ceil(runs).max(1)).flat_map(lowest_and_highest);
    [*first].into_iter().chain(extremes).chain([*last]).collect()
}

/// Both in the order of the line.
fn lowest_and_highest(run: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let by_height = |a: &usize, b: &usize| run[*a].1.total_cmp(&run[*b].1);
    let ends = [(0..run.len()).min_by(by_height), (0..run.len()).max_by(by_height)];
    let mut ends: Vec<usize> = ends.into_iter().flatten().collect();
    ends.sort_unstable();
    ends.dedup();
    ends.into_iter().map(|ix| run[ix]).collect()
}

/// At most that many places, each with the least and the most of the run it stands for.
fn thinned_band(band: &[Band], most: usize) -> Vec<Band> {
    let [first, inner @ .., last] = band else { return band.to_vec() };
    if band.len() <= most {
        return band.to_vec();
    }
    let runs = most.saturating_sub(2).max(1);
    let widest = |run: &[Band]| {
        run.iter().copied().reduce(|one, other| Band {
            x: one.x,
            low: one.low.min(other.low),
            high: one.high.max(other.high),
        })
    };
    let middle = inner.chunks(inner.len().div_ceil(runs).max(1)).filter_map(widest);
    [*first].into_iter().chain(middle).chain([*last]).collect()
}

/// How a line is drawn.
struct Stroke<'a> {
    colour: &'a str,
    guide: bool,
}

impl Display for Stroke<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let look = if self.guide {
            r#"stroke-width="1.5" stroke-dasharray="5 5""#
        } else {
            r#"stroke-width="2.5" stroke-linejoin="round" stroke-linecap="round""#
        };
        write!(f, r#"fill="none" stroke="{}" {look}"#, self.colour)
    }
}

/// A pixel position with one decimal, held near the picture so that a line that leaves it stays
/// drawable.
struct Px(f64);

impl Display for Px {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round().clamp(-1e6, 1e6);
        write!(f, "{}", tenths / 10.0)
    }
}

/// Text that is safe inside an element and inside an attribute. Characters that XML does not allow
/// become the replacement character.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' | '\r' => f.write_char(' ')?,
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> (Axis, Axis) {
        (Axis::new("time, s"), Axis::new("share, %"))
    }

    fn plot(series: impl IntoIterator<Item = Series>) -> Plot {
        let (x, y) = axes();
        series.into_iter().fold(Plot::new("a plot", x, y), Plot::series)
    }

    fn labels(low: f64, high: f64, most: f64) -> Vec<String> {
        let ticks = Ticks::within((low, high), most);
        ticks.numbers().map(|number| ticks.label(number)).collect()
    }

    /// What stands between `<text ...>` and `</text>`.
    fn texts(svg: &str) -> Vec<&str> {
        let inner = |part: &'_ str| part.find('>').map(|start| start + 1);
        svg.split("<text")
            .skip(1)
            .filter_map(|part| part.split("</text>").next()?.get(inner(part)?..))
            .collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(0.0, 100.0, 6.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(0.0, 130.0, 10.0), ["0", "20", "40", "60", "80", "100", "120"]);
        assert_eq!(labels(0.0, 0.3, 6.0), ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"]);
        assert_eq!(labels(-1500.0, 1500.0, 4.0), ["\u{2212}1,000", "0", "1,000"]);
        assert_eq!(labels(0.0, 12_902_960.0, 5.0), ["0", "5,000,000", "10,000,000"]);
        assert_eq!(labels(3e14, 9e14, 3.0), ["4e14", "6e14", "8e14"]);
    }

    #[test]
    fn an_upright_axis_without_range_spans_the_data_in_whole_ticks() {
        let (axis, _) = axes();
        for (values, expected) in [
            (vec![3.0, 97.0], (0.0, 100.0)),
            (vec![-0.4, 1.1], (-0.5, 1.5)),
            (vec![5.0, 5.0], (5.0, 6.0)),
            (vec![], (0.0, 1.0)),
        ] {
            let values = || values.iter().copied();
            let scale = Scale::wide(&axis, values(), (0.0, 100.0), 5.0);
            assert_eq!(scale.numbers, expected, "{:?}", values().collect::<Vec<_>>());
        }
    }

    #[test]
    fn everything_that_was_named_is_written() {
        let svg = plot([Series::line("GPU", vec![(0.0, 1.0), (9.0, 4.0)])])
            .subtitle("ten seeds")
            .note("small print")
            .to_string();
        let texts = texts(&svg);
        for expected in ["a plot", "ten seeds", "GPU", "time, s", "share, %", "small print"] {
            assert!(texts.contains(&expected), "{expected} is missing in {texts:?}");
        }
        assert!(svg.contains("fill=\"#ffffff\""), "the ground is white in every viewer");
    }

    #[test]
    fn text_cannot_break_out() {
        let (x, y) = (Axis::new("<x>").unit("\"'"), Axis::new("a&b"));
        let svg = Plot::new("</title><script>\u{1}", x, y)
            .series(Series::line("<s>", vec![(0.0, 0.0), (1.0, 1.0)]))
            .to_string();
        assert!(svg.contains("&lt;/title&gt;&lt;script&gt;\u{fffd}"), "{svg}");
        assert!(
            svg.contains("&lt;s&gt;") && svg.contains("a&amp;b") && svg.contains("&quot;&#39;")
        );
        assert!(!svg.contains("<script") && !svg.contains("<s>") && !svg.contains("<x>"));
    }

    #[test]
    fn lines_meet_the_corners_of_a_fixed_range() {
        let svg = Plot::new("p", Axis::new("x").range(0.0, 10.0), Axis::new("y").range(0.0, 1.0))
            .series(Series::line("s", vec![(0.0, 0.0), (10.0, 1.0)]))
            .to_string();
        assert!(svg.contains("d=\"M76 422L848 82\""), "{svg}");
    }

    #[test]
    fn a_band_runs_along_the_top_and_back_along_the_bottom() {
        let band =
            vec![Band { x: 0.0, low: 0.2, high: 0.4 }, Band { x: 10.0, low: 0.5, high: 1.0 }];
        let svg = Plot::new("p", Axis::new("x").range(0.0, 10.0), Axis::new("y").range(0.0, 1.0))
            .series(Series::line("s", vec![(0.0, 0.3), (10.0, 0.8)]).band(band))
            .to_string();
        assert!(svg.contains("d=\"M76 286L848 82L848 252L76 354Z\""), "{svg}");
    }

    #[test]
    fn a_plot_without_data_says_so() {
        assert!(texts(&plot([]).to_string()).contains(&"no data"));
        let nan = Series::line("s", vec![(f64::NAN, 1.0), (1.0, f64::INFINITY), (1e305, 0.0)]);
        let guide = Series::guide("g", vec![(0.0, 0.0), (1.0, 1.0)]);
        assert!(texts(&plot([nan, guide]).to_string()).contains(&"no data"));
    }

    #[test]
    fn extreme_numbers_still_give_a_plot() {
        for points in [
            vec![(0.0, 0.0)],
            vec![(-1e300, -1e300), (1e300, 1e300)],
            vec![(0.0, 1e-300), (1e-300, 0.0)],
            vec![(1e18, 1e18 + 256.0), (1e18, 1e18)],
        ] {
            let svg = plot([Series::line("s", points.clone())]).to_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{points:?}: {svg}");
            assert!(svg.len() < 20_000, "{points:?}: {} bytes", svg.len());
        }
    }

    #[test]
    fn a_million_points_stay_under_200_kib_and_keep_their_peaks() {
        let wave = |phase: f64| {
            let mut points: Vec<_> = (0..300_000)
                .map(|ix| (f64::from(ix), (f64::from(ix) * 0.01 + phase).sin()))
                .collect();
            points[123_456].1 = 7.5;
            points
        };
        let band = |points: &[(f64, f64)]| {
            points.iter().map(|&(x, y)| Band { x, low: y - 1.0, high: y + 1.0 }).collect::<Vec<_>>()
        };
        let series = (0..6).map(|ix| {
            let points = wave(f64::from(ix));
            let band = band(&points);
            Series::line(format!("series {ix}"), points).band(band)
        });
        let svg = plot(series).to_string();
        assert!(svg.len() < 200 * 1024, "{} bytes", svg.len());
        let thin = thinned(&wave(0.0), 600);
        assert!(thin.len() <= 600, "{} points", thin.len());
        assert!(thin.contains(&(123_456.0, 7.5)), "the peak is kept");
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0), "the order is kept");
    }

    #[test]
    fn a_long_legend_takes_several_lines() {
        let series: Vec<_> = (0..12)
            .map(|ix| Series::line(format!("a rather long name {ix}"), vec![(0.0, f64::from(ix))]))
            .collect();
        let places = place_legend(&series, LEFT, 60.0);
        assert!(places.last().is_some_and(|&(_, y)| y > 60.0));
        assert!(places.iter().all(|&(x, _)| (LEFT..RIGHT).contains(&x)));
    }

    #[test]
    fn wide_numbers_get_the_room_they_need() {
        let left =
            |most: f64| Layout::of(&plot([Series::line("s", vec![(0.0, 0.0), (1.0, most)])])).left;
        assert_eq!(left(100.0), LEFT);
        assert!(left(90_000_000.0) > LEFT + 20.0);
    }

    #[test]
    fn one_plot_gives_one_text() {
        let plot = plot([Series::line("s", vec![(0.0, 0.1), (1.0, 0.2)])]);
        assert_eq!(plot.to_string(), plot.to_string());
    }
}
