//! Draws plots for light and dark pages. A plot has no background, and its colors differ from both
//! white and black.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use plotters::{
    coord::{
        Shift,
        combinators::{BindKeyPoints as _, WithKeyPoints},
        types::RangedCoordi32,
    },
    prelude::*,
};

const GREY: RGBColor = RGBColor(128, 128, 128);

/// The name that readers know each timer by, and its color in the plots of all programs.
const TIMERS: [(&str, &str, RGBColor); 6] = [
    ("tokio_wheel", "tokio_wheel", RGBColor(224, 72, 62)),
    ("tokio", "tokio::time", RGBColor(48, 136, 224)),
    (
        "tokio_alt",
        "alternative tokio::time",
        RGBColor(0, 160, 168),
    ),
    ("pingora", "pingora-timeout", RGBColor(150, 98, 214)),
    ("futures_timer", "futures-timer", RGBColor(152, 118, 84)),
    ("async_io", "async-io", RGBColor(40, 162, 84)),
];

/// Returns the color of a timer, or gray for an unknown timer. A state may follow the name after a
/// comma: "tokio::time, armed" has the color of "tokio::time".
fn color(timer: &str) -> RGBColor {
    known(timer).map_or(GREY, |(_, color)| color)
}

/// Returns the name of a timer in plots. An unknown timer keeps its own name.
pub fn title(timer: &str) -> &str {
    known(timer).map_or(timer, |(title, _)| title)
}

fn known(timer: &str) -> Option<(&'static str, RGBColor)> {
    let name = timer.split(',').next().unwrap_or(timer);
    let is_known = |&&(key, title, _): &&(&str, &str, RGBColor)| [key, title].contains(&name);
    let (_, title, color) = TIMERS.iter().find(is_known)?;
    Some((title, *color))
}

const WIDTH: u32 = 900;

/// The part of the width that the legend takes.
const LEGEND: u32 = 240;

/// The height of the chart.
const HEIGHT: u32 = 440;

/// The size of a plot.
const SIZE: (u32, u32) = (WIDTH, HEAD + HEIGHT + FOOT);

/// The height of the caption with its note, of an entry of the legend, and of the last line.
const HEAD: u32 = 60;
const ENTRY: u32 = 22;
const FOOT: u32 = 24;

/// The number of places on an axis, more than it has pixels.
const END: i32 = 10_000;

/// An axis between two values, with marks.
pub struct Axis {
    title: String,
    span: (f64, f64),
    logarithmic: bool,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// Creates an axis on which equal steps are equal differences.
    pub fn linear(title: &str, span: (f64, f64), marks: Vec<(f64, String)>) -> Self {
        Self {
            title: title.to_owned(),
            span,
            logarithmic: false,
            marks,
        }
    }

    /// Creates an axis on which equal steps are equal factors.
    pub fn logarithmic(title: &str, span: (f64, f64), marks: Vec<(f64, String)>) -> Self {
        Self {
            logarithmic: true,
            ..Self::linear(title, span, marks)
        }
    }

    /// Creates a logarithmic axis for the values within `span`. It begins and ends at a round
    /// number.
    pub fn decades(title: &str, span: (f64, f64), name: impl Fn(f64) -> String) -> Self {
        let steps = (-3..12).flat_map(|decade| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(decade)));
        let steps: Vec<_> = steps.collect();
        let below = steps.iter().rev().find(|&&step| step <= span.0);
        let above = steps.iter().find(|&&step| step >= span.1);
        let span = (*below.unwrap_or(&span.0), *above.unwrap_or(&span.1));
        let within = |step: &f64| (span.0..=span.1).contains(step);
        let marks = steps.into_iter().filter(within);
        Self::logarithmic(title, span, marks.map(|step| (step, name(step))).collect())
    }

    /// Returns where a value is on the axis, from 0 to [`END`]. A value beyond the axis is drawn at
    /// its end.
    fn place(&self, value: f64) -> i32 {
        let scale = |value: f64| match self.logarithmic {
            true => value.log10(),
            false => value,
        };
        let (first, last) = (scale(self.span.0), scale(self.span.1));
        let part = (scale(value) - first) / (last - first);
        (part.clamp(0.0, 1.0) * f64::from(END)).round() as i32
    }

    fn coordinates(&self) -> WithKeyPoints<RangedCoordi32> {
        let marks = self.marks.iter().map(|&(mark, _)| self.place(mark));
        (0..END).with_key_points(marks.collect())
    }

    /// Returns the name of the mark at a place.
    fn name(&self, place: i32) -> String {
        let mut marks = self.marks.iter();
        let mark = marks.find(|&&(mark, _)| self.place(mark) == place);
        mark.map_or_else(String::new, |(_, name)| name.clone())
    }
}

/// How a plot shows points.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line from each point to the next point.
    Line,
    /// A line through the points, and a dot on each point.
    DottedLine,
}

/// The points of one timer. A point beyond an axis is drawn at the end of that axis.
pub struct Curve {
    /// The name in the legend: a timer that [`color`] knows, and optionally a state.
    pub name: String,
    /// Whether to draw outlines instead of full dots, and lighter lines.
    pub faint: bool,
    /// Whether the curve shows this crate, and therefore stands out.
    pub ours: bool,
    /// The coordinates of the points.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
pub struct Chart<'a> {
    /// What the plot shows.
    pub caption: &'a str,
    /// What a reader must know to read the plot.
    pub note: &'a str,
    /// The command and the machine.
    pub source: &'a str,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from the bottom to the top.
    pub y: Axis,
    /// How the plot shows its points.
    pub mark: Mark,
    /// The curves, in the order of the legend.
    pub curves: &'a [Curve],
}

impl Chart<'_> {
    /// Writes the plot to `path` as an SVG. Without a curve, it writes no file.
    pub fn draw(&self, path: &Path) -> Result<()> {
        if self.curves.is_empty() {
            return Ok(());
        }
        let mut svg = String::new();
        self.draw_on(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())?;
        // A reader who cannot see the plot hears the caption and the note.
        let about = format!(
            " role=\"img\">\n<title>{}</title>\n<desc>{} {}</desc>",
            self.caption, self.note, self.source
        );
        fs::write(path, svg.replacen('>', &about, 1))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn draw_on(&self, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let (head, body) = root.split_vertically(HEAD);
        head.draw(&Text::new(self.caption, (12, 12), text(20)))?;
        head.draw(&Text::new(self.note, (12, 37), text(16)))?;
        let (body, foot) = body.split_vertically(HEIGHT);
        foot.draw(&Text::new(self.source, (12, 2), text(14)))?;
        let (area, legend) = body.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(28)
            .x_label_area_size(48)
            .y_label_area_size(78)
            .build_cartesian_2d(self.x.coordinates(), self.y.coordinates())?;
        chart
            .configure_mesh()
            .x_desc(&*self.x.title)
            .y_desc(&*self.y.title)
            .x_labels(self.x.marks.len())
            .y_labels(self.y.marks.len())
            .x_label_formatter(&|&place| self.x.name(place))
            .y_label_formatter(&|&place| self.y.name(place))
            .label_style(text(15))
            .axis_style(GREY)
            .bold_line_style(GREY.mix(0.3))
            .light_line_style(TRANSPARENT)
            .draw()?;
        // The first curve is the thickest, so that it stays visible below the others. The second
        // curve is drawn on top of all.
        let mut curves: Vec<_> = self.curves.iter().collect();
        curves[1..].reverse();
        for curve in curves {
            let points = curve.points.iter();
            let points = points.map(|&(x, y)| (self.x.place(x), self.y.place(y)));
            chart.draw_series(LineSeries::new(points.clone(), curve.line()))?;
            if self.mark == Mark::DottedLine {
                let dot = |point| Circle::new(point, curve.size(), curve.dot());
                chart.draw_series(points.map(dot))?;
            }
        }
        self.draw_legend(&legend)?;
        root.present()?;
        Ok(())
    }

    fn draw_legend(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        for (i, curve) in self.curves.iter().enumerate() {
            let y = (ENTRY * (i as u32 + 1)) as i32;
            area.draw(&PathElement::new([(0, y), (24, y)], curve.line()))?;
            if self.mark == Mark::DottedLine {
                area.draw(&Circle::new((12, y), curve.size(), curve.dot()))?;
            }
            area.draw(&Text::new(curve.name.clone(), (32, y - 7), text(16)))?;
        }
        Ok(())
    }
}

impl Curve {
    fn line(&self) -> ShapeStyle {
        let strength = if self.faint { 0.5 } else { 1.0 };
        let width = if self.ours { 4 } else { 2 };
        color(&self.name).mix(strength).stroke_width(width)
    }

    fn dot(&self) -> ShapeStyle {
        let color = color(&self.name);
        if self.faint {
            color.stroke_width(2)
        } else {
            color.filled()
        }
    }

    fn size(&self) -> i32 {
        if self.ours { 6 } else { 4 }
    }
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&GREY)
}
