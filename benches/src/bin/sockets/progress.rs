//! Shows how far a command is. Shows nothing if standard error is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar with `steps` steps.
pub(crate) fn bar(steps: u64, name: &str) -> ProgressBar {
    let template = format!("{name} {{pos}} of {{len}} {{wide_bar}} {{elapsed}} of {{duration}}");
    let style = ProgressStyle::with_template(&template).expect("the template is well-formed");
    let bar = ProgressBar::new(steps).with_style(style);
    bar.tick();
    bar
}
