//! How often tasks blocked a worker of the program on the wheel: what the metrics of tokio-wheel say.
//!
//! Load tests often kill the program, so it cannot report at its end. In the copy of tokio-wheel that the tool makes, the
//! watch instead writes a file when it sees a block, if the tool's folder for such files exists.

use std::{fs, io::ErrorKind, path::Path, time::Duration};

use anyhow::{Result, ensure};

use crate::patch::Files;

/// The place in `driver/watch.rs` after which the watch reports.
const SEEN: &str = "agenda.longest_block.fetch_max(nanos, Relaxed);";
const REPORT: &str = "crate::report::seen(seen.counts, nanos);";

/// Changes the sources of tokio-wheel: the watch reports the blocks that it sees.
pub(crate) fn report(files: &mut Files) -> Result<()> {
    let mut places = 0;
    for (path, content) in &mut *files {
        let source = std::str::from_utf8(content)?;
        places += source.matches(SEEN).count();
        let mut source = source.replace(SEEN, &format!("{SEEN} {REPORT}"));
        if path == Path::new("lib.rs") {
            source += "mod report;\n";
        }
        *content = source.into();
    }
    ensure!(places == 1, "{places} places in tokio-wheel have `{SEEN}`");
    files.push((
        "report.rs".into(),
        include_bytes!("blocks/report.rs").into(),
    ));
    Ok(())
}

/// The blocks in one run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Blocks {
    count: u64,
    longest: Duration,
}

/// Returns what the processes of a run have reported, and makes an empty folder for the next run.
pub(crate) fn take(folder: &Path) -> Result<Blocks> {
    let reports = folder.join("blocks");
    let mut blocks = Blocks::default();
    for file in fs::read_dir(&reports).into_iter().flatten() {
        let text = fs::read_to_string(file?.path())?;
        // A process may have been killed before it wrote.
        if let Some((count, longest)) = text.split_once(' ') {
            blocks.count += count.parse::<u64>()?;
            blocks.longest = blocks.longest.max(Duration::from_nanos(longest.parse()?));
        }
    }
    end(folder)?;
    fs::create_dir(reports)?;
    Ok(blocks)
}

/// Removes the folder, so that programs report no longer.
pub(crate) fn end(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder.join("blocks")) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns a line about the blocks of all runs, if there were any.
pub(crate) fn line(runs: &[Blocks]) -> Option<String> {
    let count: u64 = runs.iter().map(|run| run.count).sum();
    let longest = runs.iter().map(|run| run.longest).max()?;
    let times = match count {
        0 => return None,
        1 => "once".into(),
        _ => format!("{count} times"),
    };
    Some(format!(
        "On the wheel, a task blocked a worker {times} in all runs, the longest for at least {} ms.",
        longest.as_millis()
    ))
}
