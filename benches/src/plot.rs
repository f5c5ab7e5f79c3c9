//! Draws plots for light and dark pages. A plot has no background, and its colors differ from both
//! white and black.

use std::{collections::BTreeMap, ops::Range, path::Path};

use anyhow::Result;
use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    },
    prelude::*,
};

use crate::{late::Late, lateness::Scene, peer::PeerKind};

const GREY: RGBColor = RGBColor(128, 128, 128);

/// The name that readers know each timer by, and its color in the plots of all programs.
const TIMERS: [(&str, &str, RGBColor); 8] = [
    ("tokio_wheel", "tokio_wheel", RGBColor(224, 72, 62)),
    ("tokio", "tokio::time", RGBColor(48, 136, 224)),
    ("pingora", "pingora-timeout", RGBColor(150, 98, 214)),
    ("futures_timer", "futures-timer", RGBColor(152, 118, 84)),
    ("async_io", "async-io", RGBColor(40, 162, 84)),
    (
        "tokio_wheel_high",
        "high-res tokio_wheel",
        RGBColor(214, 88, 164),
    ),
    ("tokio_hrtime", "tokio-hrtime", RGBColor(0, 160, 168)),
    ("thread", "thread::sleep", RGBColor(176, 168, 32)),
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

const WIDTH: u32 = 860;

/// The part of the width that the legend takes.
const LEGEND: u32 = 190;

/// The height of a chart of lines.
const HEIGHT: u32 = 440;

/// The height of the caption with its note, and the height of the margins with the axis.
const HEAD: u32 = 58;
const MARGINS: u32 = 24;
const AXIS: u32 = 48;

/// The height of a row, and of an entry of the legend.
const ROW: u32 = 26;
const ENTRY: u32 = 22;

/// An axis between two values, with marks.
#[derive(Clone)]
pub struct Axis {
    title: String,
    span: (f64, f64),
    logarithmic: bool,
    marks: Vec<(f64, String)>,
    /// How many pixels the names of the marks may take.
    room: u32,
}

impl Axis {
    /// Creates an axis on which equal steps are equal differences.
    pub fn linear(title: &str, span: (f64, f64), marks: Vec<(f64, String)>) -> Self {
        Self {
            title: title.to_owned(),
            span,
            logarithmic: false,
            marks,
            room: 60,
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

    /// Creates an axis of names in rows, with the first name at the top. [`row`] returns the height
    /// of a row.
    pub fn rows(names: &[String]) -> Self {
        let marks = names.iter().enumerate();
        Self {
            room: 150,
            ..Self::linear(
                "",
                (row(names.len()) + 0.5, row(0) + 0.5),
                marks.map(|(i, name)| (row(i), name.clone())).collect(),
            )
        }
    }

    /// Returns where a value is on the axis, from 0 at the beginning to 1 at the end.
    fn part(&self, value: f64) -> f64 {
        let place = |value: f64| {
            if self.logarithmic {
                value.log10()
            } else {
                value
            }
        };
        let (first, last) = (place(self.span.0), place(self.span.1));
        (place(value) - first) / (last - first)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let part = self.part(*value).clamp(0.0, 1.0);
        first + (part * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.iter().map(|&(mark, _)| mark).collect()
    }

    fn range(&self) -> Range<f64> {
        self.span.0..self.span.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        let name = self.marks.iter().find(|(mark, _)| mark == value);
        name.map_or_else(String::new, |(_, name)| name.clone())
    }
}

/// Returns the position of the `i`th row of [`Axis::rows`].
pub fn row(i: usize) -> f64 {
    -(i as f64)
}

/// How a plot shows points.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line from each point to the next point.
    Line,
    /// A line through the points, and a dot on each point.
    DottedLine,
    /// A dot on each point.
    Dots,
    /// A bar from the left to each point.
    Bars,
}

/// The points of one timer. A point beyond an axis is drawn at the end of that axis.
pub struct Curve {
    /// The name in the legend: a timer that [`color`] knows, and optionally a state.
    pub name: String,
    /// Whether to draw outlines instead of full dots, and thinner and lighter lines.
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
        // Each bar shows its value, so bars need no axis.
        let axis = if self.mark == Mark::Bars { 0 } else { AXIS };
        let rows = ROW * self.y.marks.len() as u32;
        let height = HEAD
            + match self.mark {
                Mark::Line | Mark::DottedLine => HEIGHT,
                Mark::Dots => MARGINS + axis + rows.max(ENTRY * self.curves.len() as u32),
                Mark::Bars => MARGINS + rows,
            };
        let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
        let (head, body) = root.split_vertically(HEAD);
        head.draw(&Text::new(self.caption, (12, 12), text(19)))?;
        head.draw(&Text::new(self.note, (12, 37), text(15)))?;
        let (area, legend) = body.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(28)
            .x_label_area_size(axis)
            .y_label_area_size(self.y.room)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        chart
            .configure_mesh()
            .x_desc(&*self.x.title)
            .y_desc(&*self.y.title)
            .x_labels(self.x.marks.len())
            .y_labels(self.y.marks.len())
            .label_style(text(14))
            .axis_style(GREY)
            .bold_line_style(GREY.mix(0.3))
            .light_line_style(TRANSPARENT)
            .draw()?;
        // The first curve is the thickest, so that it stays visible below the others. The second
        // curve is drawn on top of all.
        let mut curves: Vec<_> = self.curves.iter().collect();
        curves[1..].reverse();
        for curve in curves {
            let points = || curve.points.iter().copied();
            if matches!(self.mark, Mark::Line | Mark::DottedLine) {
                chart.draw_series(LineSeries::new(points(), curve.line()))?;
            }
            if matches!(self.mark, Mark::DottedLine | Mark::Dots) {
                let dot = |point| Circle::new(point, curve.size(), curve.dot());
                chart.draw_series(points().map(dot))?;
            }
            if self.mark == Mark::Bars {
                let left = self.x.span.0;
                let color = color(&curve.name).filled();
                let bar = |(x, y)| Rectangle::new([(left, y - 0.3), (x, y + 0.3)], color);
                chart.draw_series(points().map(bar))?;
            }
        }
        if self.mark != Mark::Bars {
            self.draw_legend(&legend)?;
        }
        root.present()?;
        Ok(())
    }

    fn draw_legend(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        for (i, curve) in self.curves.iter().enumerate() {
            let y = (MARGINS + ENTRY * i as u32) as i32;
            if self.mark != Mark::Dots {
                area.draw(&PathElement::new([(0, y), (24, y)], curve.line()))?;
            }
            if self.mark != Mark::Line {
                area.draw(&Circle::new((12, y), curve.size(), curve.dot()))?;
            }
            area.draw(&Text::new(curve.name.clone(), (32, y - 7), text(15)))?;
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

/// Draws how late the sleeps of a scene woke, with a curve for each timer.
pub fn lateness(path: &Path, scene: Scene, late: &[(PeerKind, &Late)]) -> Result<()> {
    let span = (0.001, 100.0);
    let mut curves: Vec<_> = (late.iter())
        .map(|(peer, late)| Curve {
            name: title(peer.name()).to_owned(),
            faint: false,
            ours: *peer == PeerKind::TokioWheel,
            points: steps(late, span),
        })
        .collect();
    curves.sort_by_key(|curve| !["tokio_wheel", "tokio::time"].contains(&&*curve.name));
    let percent = [0, 20, 40, 60, 80, 100].map(|part| (f64::from(part) / 100.0, part.to_string()));
    let decades = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0].map(|ms| (ms, ms.to_string()));
    Chart {
        caption: match scene {
            Scene::Idle => "Sleeps of 1 to 100 ms on an idle runtime",
            Scene::Busy => "Sleeps of 1 to 100 ms beside a task that yields in a loop",
            Scene::Crowd => "200,000 sleeps over a second",
        },
        note: "A curve further to the left is better.",
        x: Axis::logarithmic("lateness, ms (logarithmic)", span, decades.into()),
        y: Axis::linear(
            "share of the sleeps that are at most so late, %",
            (0.0, 1.0),
            percent.into(),
        ),
        mark: Mark::Line,
        curves: &curves,
    }
    .draw(path)
}

/// Returns the curve from one end of the axis to the other. Points that share a pixel become one
/// step. Sleeps that are later than the end of the axis are missing from the top of the curve.
fn steps(late: &Late, span: (f64, f64)) -> Vec<(f64, f64)> {
    let pixels_per_decade = f64::from(WIDTH - LEGEND) / (span.1 / span.0).log10();
    let mut columns = BTreeMap::new();
    for (ms, part) in late.cumulative().take_while(|&(ms, _)| ms <= span.1) {
        let ms = ms.max(span.0);
        columns.insert((ms.log10() * pixels_per_decade) as i32, (ms, part));
    }
    let mut points = vec![(span.0, 0.0)];
    let mut below = 0.0;
    for (ms, part) in columns.into_values() {
        points.extend([(ms, below), (ms, part)]);
        below = part;
    }
    points.push((span.1, below));
    points
}
