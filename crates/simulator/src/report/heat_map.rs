//! The nodes without and with a change as SVG: a square for each, coloured by what is requested of
//! it.

use std::collections::{BTreeMap, BTreeSet};

use dry_run::NodeUsage;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::svg::{NOTE, PlotError, TEXT, TITLE, WIDTH, font, name_swatch, px, with_header};

/// Space around the panels, and between them.
const MARGIN: i32 = 28;
/// The first pixel of the panels.
const TOP: i32 = 118;
/// Height of the name of a zone.
const ZONE: i32 = 24;
/// Width and height of a node with its gap, the largest first. The first with which both panels fit
/// counts.
const CELLS: [i32; 6] = [26, 20, 14, 10, 7, 5];
/// Height up to which panels fit.
const FITS: i32 = 620;

/// The colours of 0 %, 50 % and 100 %.
const RAMP: [(u8, u8, u8); 3] = [(0xe3, 0xee, 0xf6), (0x5b, 0xa3, 0xcf), (0x08, 0x30, 0x6b)];
const CORDONED: RGBColor = RGBColor(0x6b, 0x73, 0x7d);
const ADDED: RGBColor = RGBColor(0x00, 0x9e, 0x73);
const REMOVED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The nodes of two runs.
#[derive(Debug)]
pub struct HeatMap<'a> {
    before: Side<'a>,
    after: Side<'a>,
}

/// The nodes of one run.
#[derive(Debug)]
struct Side<'a> {
    title: String,
    zones: BTreeMap<&'a str, Vec<Square>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Square {
    /// Requested share of CPU or memory, whichever is more.
    share: f64,
    edge: Option<RGBColor>,
}

/// Returns the heat maps of the nodes without and with a change.
pub fn plot<'a>(before: &'a [NodeUsage], after: &'a [NodeUsage]) -> HeatMap<'a> {
    let names = |nodes: &'a [NodeUsage]| -> BTreeSet<&str> {
        nodes.iter().map(|node| node.name.as_str()).collect()
    };
    HeatMap {
        before: Side::of("Without the change", before, &names(after), REMOVED),
        after: Side::of("With the change", after, &names(before), ADDED),
    }
}

impl<'a> Side<'a> {
    fn of(
        title: &str,
        nodes: &'a [NodeUsage],
        others: &BTreeSet<&str>,
        only_here: RGBColor,
    ) -> Self {
        let mut zones: BTreeMap<&str, Vec<Square>> = BTreeMap::new();
        for node in nodes {
            let is_cordoned = node.unschedulable.then_some(CORDONED);
            let edge =
                if others.contains(node.name.as_str()) { is_cordoned } else { Some(only_here) };
            let of = |name: &str| node.resources.get(name).and_then(|own| own.percent());
            let share = of("cpu").into_iter().chain(of("memory")).fold(0.0, f64::max) / 100.0;
            zones.entry(&node.zone).or_default().push(Square { share, edge });
        }
        let count = nodes.len();
        let plural = if count == 1 { "" } else { "s" };
        Self { title: format!("{title}: {count} node{plural}"), zones }
    }

    /// Height with cells of this size, in columns.
    fn height(&self, cell: i32, columns: i32) -> i32 {
        let rows = |nodes: &Vec<Square>| count(nodes.len()).div_euclid(columns) + 1;
        self.zones.values().map(|nodes| ZONE + 8 + rows(nodes) * cell).sum::<i32>() + ZONE
    }

    fn draw(
        &self,
        canvas: &Canvas<'_>,
        left: i32,
        cell: i32,
        columns: i32,
    ) -> Result<(), PlotError> {
        let title = font(14.0, FontStyle::Bold, TITLE);
        canvas.draw(&Text::new(self.title.as_str(), (px(left), px(TOP - 4)), title))?;
        let mut top = TOP + ZONE;
        let gap = (cell / 6).max(1);
        for (zone, nodes) in &self.zones {
            let name = if zone.is_empty() { "no zone" } else { zone };
            let text = format!("{name} ({})", nodes.len());
            let style = font(12.0, FontStyle::Normal, TEXT);
            canvas.draw(&Text::new(text, (px(left), px(top)), style))?;
            top += ZONE - 4;
            for (number, square) in (0_i32..).zip(nodes) {
                let (x, y) = (left + number % columns * cell, top + number / columns * cell);
                square.draw(canvas, x, y, cell - gap)?;
            }
            top += (count(nodes.len()).div_euclid(columns) + 1) * cell + 12;
        }
        Ok(())
    }
}

impl Square {
    fn draw(self, canvas: &Canvas<'_>, x: i32, y: i32, size: i32) -> Result<(), PlotError> {
        let square = |inset: i32, colour: RGBColor| {
            let corners =
                [(px(x) + inset, px(y) + inset), (px(x + size) - inset, px(y + size) - inset)];
            Rectangle::new(corners, colour.filled())
        };
        // plotters draws the edges of rectangles as thin lines.
        let mut inset = 0;
        if let Some(edge) = self.edge {
            canvas.draw(&square(0, edge))?;
            inset = px((size / 7).max(1));
        }
        canvas.draw(&square(inset, colour(self.share)))?;
        Ok(())
    }
}

impl HeatMap<'_> {
    /// Draws the maps as an SVG file.
    ///
    /// # Errors
    /// plotters reports an error.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        let width = (WIDTH - 3 * MARGIN) / 2;
        let heights = CELLS.map(|cell| {
            let columns = width / cell;
            (cell, columns, self.before.height(cell, columns).max(self.after.height(cell, columns)))
        });
        let fits = heights.iter().find(|(.., height)| *height <= FITS);
        let (cell, columns, panel) = *fits.unwrap_or(&heights[CELLS.len() - 1]);
        let height = TOP + panel + MARGIN;
        let mut svg = String::new();
        let size = (px(WIDTH).unsigned_abs(), px(height).unsigned_abs());
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        canvas.fill(&WHITE)?;
        let title = font(18.0, FontStyle::Bold, TITLE);
        canvas.draw(&Text::new(
            "What the change does to the nodes",
            (px(MARGIN), px(20)),
            title,
        ))?;
        let text = "Requested of CPU or memory, whichever is more";
        let style = font(13.0, FontStyle::Normal, NOTE);
        canvas.draw(&Text::new(text, (px(MARGIN), px(46)), style))?;
        draw_legend(&canvas)?;
        self.before.draw(&canvas, MARGIN, cell, columns)?;
        self.after.draw(&canvas, 2 * MARGIN + width, cell, columns)?;
        canvas.present()?;
        drop(canvas);
        Ok(with_header(&svg, "What the change does to the nodes", height))
    }
}

fn draw_legend(canvas: &Canvas<'_>) -> Result<(), PlotError> {
    const LINE: i32 = 82;
    const SIZE: i32 = 14;
    let entries = [
        ("0 %", 0.0, None),
        ("50 %", 0.5, None),
        ("100 %", 1.0, None),
        ("cordoned", 0.0, Some(CORDONED)),
        ("removed", 0.0, Some(REMOVED)),
        ("added", 0.0, Some(ADDED)),
    ];
    let mut x = MARGIN;
    for (name, share, edge) in entries {
        Square { share, edge }.draw(canvas, x, LINE - SIZE / 2, SIZE)?;
        x = name_swatch(canvas, x + SIZE + 8, LINE, name)?;
    }
    Ok(())
}

/// Returns the colour of a share, which is at most 1.
fn colour(share: f64) -> RGBColor {
    let place = share.clamp(0.0, 1.0) * 2.0;
    let (from, to, rest) =
        if place < 1.0 { (RAMP[0], RAMP[1], place) } else { (RAMP[1], RAMP[2], place - 1.0) };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let mix = |from: u8, to: u8| {
        (f64::from(from) + (f64::from(to) - f64::from(from)) * rest).round() as u8
    };
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX / 64)
}

#[cfg(test)]
mod tests {
    use dry_run::Usage;

    use super::*;

    fn node(name: &str, zone: &str, cpu: f64) -> NodeUsage {
        let usage = Usage { requested: cpu, allocatable: 4.0 };
        NodeUsage {
            name: name.to_owned(),
            unschedulable: name == "b",
            taints: Vec::new(),
            zone: zone.to_owned(),
            pool: String::new(),
            resources: BTreeMap::from([("cpu".to_owned(), usage)]),
        }
    }

    #[test]
    fn nodes_of_one_side_are_marked_and_zones_named() {
        let before = [node("a", "west", 0.0), node("b", "east", 4.0)];
        let after = [node("b", "east", 4.0), node("c", "east", 2.0)];
        let map = plot(&before, &after);
        assert_eq!(map.before.zones["west"], [Square { share: 0.0, edge: Some(REMOVED) }]);
        let cordoned = Square { share: 1.0, edge: Some(CORDONED) };
        assert_eq!(map.after.zones["east"], [cordoned, Square { share: 0.5, edge: Some(ADDED) }]);
        let svg = map.to_svg().unwrap();
        for text in ["With the change: 2 nodes", "west (1)", "east (2)", "cordoned"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert!(svg.contains("#08306B") || svg.contains("#08306b"), "{svg}");
    }

    #[test]
    fn thousands_of_nodes_fit_beside_each_other() {
        let nodes: Vec<NodeUsage> =
            (0..5_000).map(|number| node(&format!("n{number}"), "z", 1.0)).collect();
        let svg = plot(&nodes, &[]).to_svg().unwrap();
        assert_eq!(svg, plot(&nodes, &[]).to_svg().unwrap(), "equal maps have equal bytes");
        let height = svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert!(height.unwrap().parse::<i32>().unwrap() < 1_200, "{height:?}");
    }
}
