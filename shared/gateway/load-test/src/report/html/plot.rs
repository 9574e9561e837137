//! Plots of a report's HTML page, as inline SVG.

use std::fmt::Write as _;

/// Line in a plot of a report's HTML page.
pub(super) struct Line<'a> {
    /// Name of the line in the plot's legend.
    pub(super) label: &'a str,
    /// CSS class of the line, which determines its colour.
    pub(super) class: &'a str,
    /// Values of the line from left to right at equal distances, each from 0 (bottom) to 1 (top).
    /// `None` interrupts the line.
    pub(super) values: Vec<Option<f64>>,
}

/// Mark on a plot's axis: its position along the axis from 0 to 1, and its text.
pub(super) type Mark = (f64, String);

/// Frame of a plot in a report's HTML page: title and axes, without the lines.
pub(super) struct Plot<'a> {
    /// Description of the plot for screen readers.
    pub(super) title: &'a str,
    pub(super) x: Vec<Mark>,
    pub(super) y: Vec<Mark>,
}

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 250.0;
/// Space on the left of a plot for the labels of the vertical axis, in units of the SVG view box.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;

/// Maximum number of values of a line that are drawn: one for every two units of the plot's width.
/// More would not be seen.
pub(super) const MOST_VALUES: usize = 470;

/// Writes a plot with its legend as inline SVG to the end of `page`.
pub(super) fn write(page: &mut String, plot: &Plot<'_>, lines: &[Line<'_>]) {
    page.push_str("<figure>");
    page.push_str("<figcaption class=\"legend\">");
    for Line { label, class, .. } in lines {
        let _ = write!(
            page,
            "<span><svg viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"plot {class}\" d=\"M2 5H22\"/></svg>{label}</span>"
        );
    }
    page.push_str("</figcaption>");
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        super::escape::Escaped(plot.title)
    );
    for (place, text) in &plot.y {
        let y = at_y(*place);
        let _ = write!(
            page,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (place, text) in &plot.x {
        let x = at_x(*place);
        let _ =
            write!(page, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", HEIGHT - 6.0);
    }
    for line in lines {
        let _ = write!(page, "<path class=\"plot {}\" d=\"{}\"/>", line.class, path(&line.values));
    }
    page.push_str("</svg></figure>");
}

fn at_x(place: f64) -> f64 {
    LEFT + place.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn at_y(place: f64) -> f64 {
    HEIGHT - BOTTOM - place.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
}

fn path(values: &[Option<f64>]) -> String {
    let mut path = String::new();
    let mut command = 'M';
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else {
            command = 'M';
            continue;
        };
        let _ = write!(path, "{command}{:.1} {:.1}", at_x(place(index, values.len())), at_y(*value));
        command = 'L';
    }
    path
}

/// Returns the horizontal position in a plot, from 0 to 1, of the value at `index` in a line of
/// `length` values.
pub(super) fn place(index: usize, length: usize) -> f64 {
    if length < 2 { 0.0 } else { super::size(index) / super::size(length - 1) }
}

/// Returns the numbers at which an axis has marks: round, evenly spaced, from 0 to the first that
/// is at least `most`, with at most `parts` intervals.
pub(super) fn round_numbers(most: f64, parts: f64) -> Vec<f64> {
    let magnitude = 10_f64.powf((most.max(parts) / parts).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * magnitude);
    let step = steps.into_iter().find(|step| step * parts >= most).unwrap_or(most);
    let mut numbers = vec![0.0, step];
    while let Some(last) = numbers.last().copied().filter(|last| *last < most) {
        numbers.push(last + step);
    }
    numbers
}

/// Returns the marks of a logarithmic axis that covers `least` to `most`, one at each power of ten,
/// and a function from values to positions on the axis. `text` formats a value for its mark.
pub(super) fn powers(
    least: f64,
    most: f64,
    text: impl Fn(f64) -> String,
) -> (Vec<Mark>, impl Fn(f64) -> f64) {
    let first = least.max(1.0).log10().floor();
    let last = most.max(10.0).log10().ceil().max(first + 1.0);
    let place = move |value: f64| (value.max(1.0).log10() - first) / (last - first);
    let mut axis = Vec::new();
    let mut power = first;
    while power <= last {
        axis.push((place(10_f64.powf(power)), text(10_f64.powf(power))));
        power += 1.0;
    }
    (axis, place)
}
