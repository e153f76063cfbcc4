//! The pictures.

use std::path::Path;

use plotters::prelude::*;

/// Colours that differ in brightness too; the first one is ours.
const COLOURS: [RGBColor; 8] = [
    RGBColor(200, 30, 45),
    RGBColor(31, 99, 168),
    RGBColor(46, 139, 87),
    RGBColor(230, 145, 30),
    RGBColor(120, 80, 160),
    RGBColor(95, 95, 95),
    RGBColor(60, 180, 190),
    RGBColor(150, 105, 60),
];

const GREY: RGBColor = RGBColor(110, 110, 110);
const FONT: &str = "sans-serif";
type Failure = Box<dyn std::error::Error>;

/// A row of bars: what it stands for, and how long it is.
pub type Row = (String, f64);

/// Lines, each with its name and its points.
pub type Line = (String, Vec<(f64, f64)>);

const CUT: f64 = 8.0;

/// The texts around a picture.
pub struct Frame<'a> {
    /// Where the picture goes.
    pub path: &'a Path,
    /// The heading above the picture.
    pub title: &'a str,
    /// The grey line below the title.
    pub stamp: &'a str,
    /// The name of the horizontal axis.
    pub x: &'a str,
    /// The name of the vertical axis.
    pub y: &'a str,
}

/// Horizontal bars, ours first. A thin line goes down from the end of ours; what is more than [`CUT`] times as long is cut off.
pub fn bars(frame: &Frame<'_>, rows: &[Row]) -> Result<(), Failure> {
    const LABELS: i32 = 290;
    const HEIGHT: i32 = 30;
    const TOP: i32 = 62;

    let count = i32::try_from(rows.len())?;
    let (width, height) = (860_i32, TOP + count * HEIGHT + 44);
    let root = SVGBackend::new(frame.path, (width.try_into()?, height.try_into()?)).into_drawing_area();
    root.fill(&WHITE)?;
    headings(&root, frame)?;
    let most = rows.first().map_or(f64::INFINITY, |ours| ours.1 * CUT);
    let longest = rows.iter().map(|row| row.1.min(most)).fold(f64::MIN_POSITIVE, f64::max);
    #[expect(clippy::cast_possible_truncation, reason = "pixels")]
    let length = |value: f64| (value.min(most) / longest * f64::from(width - LABELS - 110)) as i32;
    let mut at = TOP;
    for (number, (label, value)) in rows.iter().enumerate() {
        let colour = if number == 0 { COLOURS[0] } else { COLOURS[1] };
        let middle = at + HEIGHT / 2;
        root.draw(&Text::new(label.clone(), (14, middle - 7), (FONT, 14).into_font()))?;
        if value.is_finite() {
            let end = LABELS + length(*value).max(1);
            root.draw(&Rectangle::new([(LABELS, at + 5), (end, at + HEIGHT - 5)], colour.filled()))?;
            let cut = if *value > most { " (cut off)" } else { "" };
            root.draw(&Text::new(crate::table::number(*value) + cut, (end + 6, middle - 7), (FONT, 14).into_font()))?;
        }
        at += HEIGHT;
    }
    if let Some((_, ours)) = rows.first() {
        let x = LABELS + length(*ours);
        root.draw(&PathElement::new(vec![(x, TOP), (x, at)], COLOURS[0].mix(0.5)))?;
    }
    root.draw(&Text::new(frame.x, (LABELS, at + 14), (FONT, 13).into_font().color(&GREY)))?;
    root.present()?;
    Ok(())
}

fn headings(root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, frame: &Frame<'_>) -> Result<(), Failure> {
    root.draw(&Text::new(frame.title, (14, 12), (FONT, 18).into_font().style(FontStyle::Bold)))?;
    root.draw(&Text::new(frame.stamp, (14, 37), (FONT, 12).into_font().color(&GREY)))?;
    Ok(())
}

/// Lines over two logarithmic axes.
pub fn lines(frame: &Frame<'_>, lines: &[Line]) -> Result<(), Failure> {
    let root = SVGBackend::new(frame.path, (860, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    headings(&root, frame)?;
    let points = || lines.iter().flat_map(|line| &line.1);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let low = points().map(of).fold(f64::INFINITY, f64::min);
        let high = points().map(of).fold(f64::MIN_POSITIVE, f64::max);
        (low, high)
    };
    let ((left, right), (low, high)) = (range(|point| point.0), range(|point| point.1));
    let (_, below) = root.split_vertically(58);
    let (left_side, right_side) = below.split_horizontally(600);
    let mut chart = ChartBuilder::on(&left_side)
        .margin_left(16)
        .margin_right(24)
        .margin_bottom(8)
        .x_label_area_size(42)
        .y_label_area_size(70)
        .build_cartesian_2d((left..right * 1.02).log_scale(), (low * 0.7..high * 1.6).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(BLACK.mix(0.1))
        .x_desc(frame.x)
        .y_desc(frame.y)
        .x_label_formatter(&|value| mark(*value))
        .y_label_formatter(&|value| mark(*value))
        .label_style((FONT, 13))
        .draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let style = colour.stroke_width(if number == 0 { 3 } else { 2 });
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        let y = 14 + 22 * i32::try_from(number)?;
        right_side.draw(&PathElement::new(vec![(0, y), (18, y)], style))?;
        right_side.draw(&Text::new(name.clone(), (25, y - 6), (FONT, 13).into_font()))?;
    }
    root.present()?;
    Ok(())
}

/// A number at an axis.
fn mark(value: f64) -> String {
    if value < 1.0 {
        crate::table::number(value)
    } else {
        crate::table::number(value.round()).replace(".00", "").replace(".0", "")
    }
}
