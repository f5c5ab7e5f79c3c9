//! How far a command is. Where standard error is no terminal, nothing is shown.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar of so many steps.
pub(crate) fn bar(steps: u64, name: &str) -> ProgressBar {
    let template = format!("{name} {{pos}} of {{len}} {{wide_bar}} {{elapsed}} of {{duration}}");
    let style = ProgressStyle::with_template(&template).expect("the template is well-formed");
    let bar = ProgressBar::new(steps).with_style(style);
    bar.tick();
    bar
}
