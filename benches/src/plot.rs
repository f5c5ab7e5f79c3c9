//! Draws plots for light and dark pages. A plot has no background, and its colors differ from both white and black.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use indicatif::HumanCount;
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

pub fn title(timer: &str) -> &str {
    known(timer).map_or(timer, |(title, _)| title)
}

/// Finds the title and the color of a timer. A state may follow the name after a comma:
/// "tokio::time, 20 us" has the color of "tokio::time".
fn known(timer: &str) -> Option<(&'static str, RGBColor)> {
    let name = timer.split(',').next().unwrap_or(timer);
    let mut timers = TIMERS.iter();
    let timer = timers.find(|timer| timer.0 == name || timer.1 == name)?;
    Some((timer.1, timer.2))
}

/// The width of a plot and of its legend. The height of the caption with its note, of the chart, of
/// an entry of the legend, and of the last line.
const WIDTH: u32 = 900;
const LEGEND: u32 = 240;
const HEAD: u32 = 60;
const HEIGHT: u32 = 440;
const ENTRY: u32 = 22;
const FOOT: u32 = 24;

/// The number of places on an axis, more than it has pixels.
const END: i32 = 10_000;

pub struct Axis<'a> {
    pub title: &'a str,
    /// Whether equal steps are equal factors. Otherwise they are equal differences.
    pub is_logarithmic: bool,
    pub marks: Vec<(f64, String)>,
}

impl<'a> Axis<'a> {
    fn of_values(title: &'a str, curves: &[Curve]) -> Self {
        let values = || (curves.iter()).flat_map(|curve| curve.points.iter().map(|point| point.1));
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        let steps = (-3..12).flat_map(|decade| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(decade)));
        let mut steps: Vec<_> = steps.collect();
        steps.retain(|&step| step * 2.5 > low && step < high * 2.5);
        let name = |step| match step {
            1.0.. => HumanCount(step as u64).to_string(),
            _ => step.to_string(),
        };
        Self {
            title,
            is_logarithmic: true,
            marks: steps.into_iter().map(|step| (step, name(step))).collect(),
        }
    }

    /// Returns where a value is on the axis, from 0 to [`END`].
    fn place(&self, value: f64) -> i32 {
        let scale = |value: f64| match self.is_logarithmic {
            true => value.log10(),
            false => value,
        };
        let mark = |at: usize| scale(self.marks[at].0);
        let (first, last) = (mark(0), mark(self.marks.len() - 1));
        let part = (scale(value) - first) / (last - first);
        (part.clamp(0.0, 1.0) * f64::from(END)).round() as i32
    }

    fn coordinates(&self) -> WithKeyPoints<RangedCoordi32> {
        let marks = self.marks.iter().map(|&(mark, _)| self.place(mark));
        (0..END).with_key_points(marks.collect())
    }

    fn name(&self, place: i32) -> String {
        let mut marks = self.marks.iter();
        let mark = marks.find(|&&(mark, _)| self.place(mark) == place);
        mark.map_or_else(String::new, |(_, name)| name.clone())
    }
}

pub struct Curve {
    /// The name in the legend: a timer, and optionally a state.
    pub name: String,
    /// Whether to draw lighter lines.
    pub faint: bool,
    pub points: Vec<(f64, f64)>,
}

pub struct Chart<'a> {
    pub caption: &'a str,
    /// What a reader must know to read the plot.
    pub note: &'a str,
    pub source: &'a str,
    pub x: Axis<'a>,
    /// The title of the logarithmic axis from the bottom to the top.
    pub y: &'a str,
    pub curves: &'a [Curve],
}

impl Chart<'_> {
    /// Writes the plot to `path` as an SVG. Without a curve, it writes no file.
    pub fn draw(&self, path: &Path) -> Result<()> {
        if self.curves.is_empty() {
            return Ok(());
        }
        let (mut svg, size) = (String::new(), (WIDTH, HEAD + HEIGHT + FOOT));
        self.draw_on(&SVGBackend::with_string(&mut svg, size).into_drawing_area())?;
        // A reader who cannot see the plot hears the caption and the note.
        let about = format!(
            " role=\"img\">\n<title>{}</title>\n<desc>{} {}</desc>",
            self.caption, self.note, self.source
        );
        fs::write(path, svg.replacen('>', &about, 1))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn draw_on(&self, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let y = Axis::of_values(self.y, self.curves);
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
            .build_cartesian_2d(self.x.coordinates(), y.coordinates())?;
        chart
            .configure_mesh()
            .x_desc(self.x.title)
            .y_desc(self.y)
            .x_labels(self.x.marks.len())
            .y_labels(y.marks.len())
            .x_label_formatter(&|&place| self.x.name(place))
            .y_label_formatter(&|&place| y.name(place))
            .label_style(text(15))
            .axis_style(GREY)
            .bold_line_style(GREY.mix(0.3))
            .light_line_style(TRANSPARENT)
            .draw()?;
        // The first curve is this crate's, and lies above the others.
        for curve in self.curves.iter().rev() {
            let points = curve.points.iter();
            let points = points.map(|point| (self.x.place(point.0), y.place(point.1)));
            chart.draw_series(LineSeries::new(points, curve.line()))?;
        }
        self.draw_legend(&legend)?;
        root.present()?;
        Ok(())
    }

    fn draw_legend(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        for (i, curve) in self.curves.iter().enumerate() {
            let y = (ENTRY * (i as u32 + 1)) as i32;
            area.draw(&PathElement::new([(0, y), (24, y)], curve.line()))?;
            area.draw(&Text::new(curve.name.clone(), (32, y - 7), text(16)))?;
        }
        Ok(())
    }
}

impl Curve {
    fn line(&self) -> ShapeStyle {
        let color = known(&self.name).map_or(GREY, |(_, color)| color);
        let strength = if self.faint { 0.5 } else { 1.0 };
        color.mix(strength).stroke_width(2)
    }
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&GREY)
}
