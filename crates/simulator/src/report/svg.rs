//! Line plots as SVG.
//!
//! The file has a white background, which is readable in dark viewers too, and uses the fonts of
//! the viewer. Equal plots have equal bytes.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Size of the picture in pixels.
pub(super) const WIDTH: i32 = 880;
const HEIGHT: i32 = 547;
/// Pixels of the canvas per pixel of the picture. plotters rounds positions to whole pixels of the
/// canvas, and lines with slight slopes need finer steps.
const SCALE: i32 = 4;

/// Margins around the plot area, which hold the numbers and labels of the axes.
const LEFT: i32 = 76;
const RIGHT: i32 = 32;
const TOP: i32 = 105;
const BOTTOM: i32 = 102;
const AXIS_LABELS: i32 = 52;

/// Colours that people with any colour vision can distinguish (after Okabe and Ito).
const COLOURS: [RGBColor; 3] =
    [RGBColor(0x00, 0x72, 0xb2), RGBColor(0xd5, 0x5e, 0x00), RGBColor(0x00, 0x9e, 0x73)];
const GUIDE: RGBColor = RGBColor(0x8a, 0x92, 0x9c);
const GRID: RGBColor = RGBColor(0xe6, 0xe8, 0xeb);
const AXIS: RGBColor = RGBColor(0x9a, 0xa2, 0xac);
pub(super) const TITLE: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
pub(super) const TEXT: RGBColor = RGBColor(0x4a, 0x52, 0x5c);
pub(super) const NOTE: RGBColor = RGBColor(0x6b, 0x73, 0x7d);
/// Opacity of bands.
const SHADE: f64 = 0.18;

const FONT: FontFamily<'static> = FontFamily::Name("system-ui, -apple-system, Arial, sans-serif");
/// plotters writes font sizes divided by this.
const FONT_FACTOR: f64 = 1.24;
/// Approximate width of a character in pixels; the font of the viewer is unknown.
const CHARACTER: i32 = 7;
/// Maximum number of characters in a line of the note.
const NOTE_LINE: usize = 125;

/// A line and the band around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: &'static str,
    /// Points (x, y) in the order of x.
    pub line: Vec<(f64, f64)>,
    /// Minimum and maximum (x, low, high) in the order of x; empty for no band.
    pub band: Vec<(f64, f64, f64)>,
}

/// The unit of the x axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the units of these names")]
pub enum Unit {
    Percent,
    Hours,
    Days,
}

impl Unit {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Hours => " h",
            Self::Days => " d",
        }
    }
}

/// A plot of percentages over a percentage or over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The first line of text.
    pub title: String,
    /// The second line of text.
    pub subtitle: String,
    /// Label of the x axis, which spans 0 to `reach`.
    pub x_label: &'static str,
    /// Unit of the x axis.
    pub x_unit: Unit,
    /// Last number of the x axis.
    pub reach: f64,
    /// Label of the y axis, which spans 0 to `y_reach` percent.
    pub y_label: &'static str,
    /// Last percentage of the y axis.
    pub y_reach: f64,
    /// The lines, the topmost first.
    pub series: Vec<Series>,
    /// Name of the dashed diagonal on which both axes are equal, if there is one.
    pub diagonal: Option<&'static str>,
    /// Small print below, wrapped at spaces.
    pub note: &'static str,
}

/// A plot that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot: {0}")]
pub struct PlotError(#[from] DrawingAreaErrorKind<std::io::Error>);

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Plot {
    /// Draws the plot as an SVG file.
    ///
    /// # Errors
    /// plotters reports an error.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        let size = (px(WIDTH).unsigned_abs(), px(HEIGHT).unsigned_abs());
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        canvas.fill(&WHITE)?;
        self.draw_heading(&canvas)?;
        self.draw_legend(&canvas)?;
        self.draw_chart(&canvas)?;
        self.draw_note(&canvas)?;
        canvas.present()?;
        drop(canvas);
        Ok(with_header(&svg, &self.title, HEIGHT))
    }

    fn draw_heading(&self, canvas: &Canvas<'_>) -> Result<(), PlotError> {
        let title = font(18.0, FontStyle::Bold, TITLE);
        canvas.draw(&Text::new(self.title.as_str(), (px(LEFT), px(20)), title))?;
        let subtitle = font(13.0, FontStyle::Normal, TEXT);
        canvas.draw(&Text::new(self.subtitle.as_str(), (px(LEFT), px(48)), subtitle))?;
        Ok(())
    }

    fn draw_legend(&self, canvas: &Canvas<'_>) -> Result<(), PlotError> {
        const LINE: i32 = 82;
        let (mut x, swatch) = (LEFT, 24);
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let ends = vec![(px(x), px(LINE)), (px(x + swatch), px(LINE))];
            if !series.band.is_empty() {
                let corners = [(px(x), px(LINE - 6)), (px(x + swatch), px(LINE + 6))];
                canvas.draw(&Rectangle::new(corners, colour.mix(SHADE).filled()))?;
            }
            canvas.draw(&PathElement::new(ends, line_style(colour)))?;
            x = name_swatch(canvas, x + swatch + 8, LINE, series.name)?;
        }
        let Some(diagonal) = self.diagonal else { return Ok(()) };
        for dash in [0, 10, 20] {
            let ends = vec![(px(x + dash), px(LINE)), (px(x + dash + 5), px(LINE))];
            canvas.draw(&PathElement::new(ends, guide_style()))?;
        }
        name_swatch(canvas, x + swatch + 8, LINE, diagonal)?;
        Ok(())
    }

    fn draw_chart(&self, canvas: &Canvas<'_>) -> Result<(), PlotError> {
        let area = canvas.margin(px(TOP), px(BOTTOM - AXIS_LABELS), px(20), px(RIGHT));
        let mut chart = ChartBuilder::on(&area)
            .set_label_area_size(LabelAreaPosition::Left, px(LEFT - 20))
            .set_label_area_size(LabelAreaPosition::Bottom, px(AXIS_LABELS))
            .build_cartesian_2d(0.0..self.reach, 0.0..self.y_reach)?;
        let decimals = |reach: f64| usize::from(reach < 8.0);
        let (x_decimals, y_decimals) = (decimals(self.reach), decimals(self.y_reach));
        let x_number = |number: &f64| format!("{number:.x_decimals$}{}", self.x_unit.suffix());
        let y_number = |number: &f64| format!("{number:.y_decimals$}%");
        chart
            .configure_mesh()
            .max_light_lines(0)
            .bold_line_style(GRID.stroke_width(px(1).unsigned_abs()))
            .axis_style(AXIS.stroke_width(px(1).unsigned_abs()))
            .set_all_tick_mark_size(px(5))
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&x_number)
            .y_label_formatter(&y_number)
            .label_style(font(13.0, FontStyle::Normal, TEXT))
            .x_desc(self.x_label)
            .y_desc(self.y_label)
            .draw()?;
        self.draw_lines(&mut chart)
    }

    /// Draws bands before lines, so that no band covers a line. The first series is on top.
    fn draw_lines(&self, chart: &mut Chart<'_, '_>) -> Result<(), PlotError> {
        for (series, colour) in self.series.iter().zip(COLOURS).rev() {
            let upper = series.band.iter().map(|&(x, _, high)| (x, high));
            let lower = series.band.iter().rev().map(|&(x, low, _)| (x, low));
            let edge: Vec<(f64, f64)> = upper.chain(lower).collect();
            if !edge.is_empty() {
                chart.draw_series([Polygon::new(edge, colour.mix(SHADE))])?;
            }
        }
        if self.diagonal.is_some() {
            let end = f64::min(self.reach, 100.0);
            let dash = px(5);
            let diagonal = [(0.0, 0.0), (end, end)];
            chart.draw_series(DashedLineSeries::new(diagonal, dash, dash, guide_style()))?;
        }
        for (series, colour) in self.series.iter().zip(COLOURS).rev() {
            let line = series.line.iter().copied();
            chart.draw_series(LineSeries::new(line, line_style(colour)))?;
        }
        Ok(())
    }

    fn draw_note(&self, canvas: &Canvas<'_>) -> Result<(), PlotError> {
        for (line, y) in wrapped(self.note).into_iter().zip((HEIGHT - 34..).step_by(16)) {
            let style = font(11.5, FontStyle::Normal, NOTE);
            canvas.draw(&Text::new(line, (px(LEFT), px(y)), style))?;
        }
        Ok(())
    }
}

/// Adds a header that scales the canvas down and describes the plot to screen readers.
pub(super) fn with_header(svg: &str, title: &str, height: i32) -> String {
    let body = svg.split_once('\n').map_or("", |(_, body)| body);
    let (wide, high) = (px(WIDTH), px(height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {wide} {high}\" role=\"img\">\n<title>{}</title>\n{body}",
        escaped(title)
    )
}

/// Converts a position in the picture to a position on the canvas.
pub(super) const fn px(pixels: i32) -> i32 {
    pixels * SCALE
}

/// Draws a legend entry; returns the position of the next one.
pub(super) fn name_swatch(
    canvas: &Canvas<'_>,
    x: i32,
    y: i32,
    name: &'static str,
) -> Result<i32, PlotError> {
    let middle = Pos::new(HPos::Left, VPos::Center);
    let style = font(13.0, FontStyle::Normal, TEXT).pos(middle);
    canvas.draw(&Text::new(name, (px(x), px(y)), style))?;
    let width = i32::try_from(name.chars().count()).unwrap_or(0) * CHARACTER;
    Ok(x + width + 26)
}

pub(super) fn font(size: f64, style: FontStyle, colour: RGBColor) -> TextStyle<'static> {
    let size = size * f64::from(SCALE) * FONT_FACTOR;
    FontDesc::new(FONT, size, style).color(&colour)
}

fn line_style(colour: RGBColor) -> ShapeStyle {
    colour.stroke_width(px(5).unsigned_abs() / 2)
}

fn guide_style() -> ShapeStyle {
    GUIDE.stroke_width(px(3).unsigned_abs() / 2)
}

/// Wraps the text into lines that fit below the plot.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < NOTE_LINE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let line = vec![(0.0, 0.0), (50.0, 40.0), (130.0, 97.5)];
        let band = line.iter().map(|&(x, y)| (x, y - 1.0, y + 1.0)).collect();
        Plot {
            title: "a <title> & more".to_owned(),
            subtitle: "ten seeds".to_owned(),
            x_label: "arrived",
            x_unit: Unit::Percent,
            reach: 130.0,
            y_label: "allocated",
            y_reach: 100.0,
            series: vec![Series { name: "GPU", line, band }],
            diagonal: Some("all of it"),
            note: "small print",
        }
    }

    #[test]
    fn every_text_is_in_the_svg() {
        let svg = plot().to_svg().unwrap();
        for text in ["ten seeds", "GPU", "arrived", "allocated", "all of it", "small print", "120%"]
        {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
    }

    #[test]
    fn text_is_escaped() {
        let svg = plot().to_svg().unwrap();
        assert!(svg.contains("<title>a &lt;title&gt; &amp; more</title>"), "{svg}");
        assert!(!svg.contains("a <title>"), "{svg}");
    }

    #[test]
    fn equal_plots_give_equal_bytes() {
        assert_eq!(plot().to_svg().unwrap(), plot().to_svg().unwrap());
    }

    #[test]
    fn lines_end_where_their_numbers_are() {
        let mut plot = plot();
        plot.series[0].line = vec![(0.0, 0.0), (130.0, 100.0)];
        let svg = plot.to_svg().unwrap();
        let (left, right) = (px(LEFT), px(WIDTH - RIGHT));
        let (top, bottom) = (px(TOP), px(HEIGHT - BOTTOM));
        let near = |line: &str| {
            let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
            let numbers: Vec<i32> = numbers.collect();
            let ends = [left, bottom, right, top];
            numbers.len() == 4 && numbers.iter().zip(ends).all(|(a, b)| (a - b).abs() <= SCALE)
        };
        let points = svg.split("points=\"").filter_map(|part| part.split('"').next());
        assert!(points.clone().any(near), "{:?}", points.collect::<Vec<_>>());
    }

    #[test]
    fn empty_plot_has_axes() {
        let plot = Plot { series: Vec::new(), reach: 1.0, ..plot() };
        assert!(plot.to_svg().unwrap().contains("100%"));
    }

    #[test]
    fn long_notes_are_wrapped_at_spaces() {
        let lines = wrapped(&"word ".repeat(60));
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.chars().count() <= NOTE_LINE));
    }
}
