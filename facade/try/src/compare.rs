//! Runs a command on both sides in turn.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Message, Metadata, PackageId};
use clap::Args;

use crate::patch::{self, IS_INTERRUPTED, Patch, Side};

const BUILD: &str = "build --release";

#[derive(Args)]
pub(crate) struct Compare {
    /// How often each side runs, after one run that does not count
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Also runs the program on tokio's alternative timer, which exists in multi-thread runtimes
    ///
    /// The tool compiles a copy of tokio with tokio's unstable features, whose `enable_time` does what
    /// `enable_alt_timer` does.
    #[arg(long)]
    pub(crate) alternative: bool,
    /// The command of cargo that builds the program, such as `bench --no-run --bench NAME`
    #[arg(long, default_value = BUILD, value_name = "COMMAND")]
    build: String,
    /// The program, if the workspace has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Also measures with Linux's `perf` what part of the program's CPU is spent in the code of timers
    ///
    /// The part is that of the functions that only timers call. The true part is larger: it has clock reads,
    /// functions that the compiler has inlined, and waiting for the locks of the timers. The table has the part of
    /// all contended locks as `locks %`.
    #[arg(long)]
    perf: bool,
    /// The command to run. `{}` stands for the path of the program
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The figures of one run, in their order.
type Figures = Vec<(String, f64)>;

impl Compare {
    /// Finds mistakes that would otherwise show only after the builds.
    pub(crate) fn check(&self, metadata: &Metadata) -> Result<()> {
        let names_program = self.command.iter().any(|word| word.contains("{}"));
        ensure!(
            names_program,
            "the command has no `{{}}`, so both sides would run the same"
        );
        if self.build == BUILD && self.bin.is_none() {
            let programs = programs(metadata);
            ensure!(
                programs.len() == 1,
                "choose a program with `--bin NAME`: {programs:?}"
            );
        }
        if self.alternative {
            let features = features(metadata, &patch::tokio(metadata)?.id);
            ensure!(
                features.contains(&"rt-multi-thread"),
                "without tokio's feature `rt-multi-thread` there is no alternative timer"
            );
        }
        if self.perf {
            let mut perf = Command::new("perf");
            perf.args(["record", "--quiet", "--output", "-", "--", "true"]);
            let status = perf.stdout(Stdio::null()).status();
            ensure!(
                status.is_ok_and(|status| status.success()),
                "{perf:?} failed"
            );
        }
        Ok(())
    }

    pub(crate) fn run(&self, patch: &Patch) -> Result<()> {
        let mut sides = vec![Side::Tokio, Side::Alternative, Side::Wheel];
        sides.retain(|&side| side != Side::Alternative || self.alternative);
        let mut programs = Vec::new();
        for side in &sides {
            programs.push(patch.on(*side, |cargo| self.build(cargo))?);
        }
        let mut runs = vec![Vec::new(); sides.len()];
        for round in 0..=self.runs {
            for place in 0..sides.len() {
                // Another side is first in each round.
                let side = (usize::from(round) + place) % sides.len();
                match round {
                    0 => eprintln!("--- {:?}, a run that does not count", sides[side]),
                    _ => eprintln!("--- {:?}, run {round} of {}", sides[side], self.runs),
                }
                let figures = self.measure(&programs[side], &patch.folder)?;
                if round > 0 {
                    runs[side].push(figures);
                }
            }
        }
        let mut shares = Vec::new();
        if self.perf {
            for program in &programs {
                shares.push(vec![self.shares(program, &patch.folder)?]);
            }
        }

        let (_, confidence) = bounds(self.runs.into());
        let interval = format!("{:.0}% interval", confidence * 100.0);
        println!(
            "\n{:<34}{:>10}{:>22}{:>13}{interval:>18}",
            "", "median", "range", "over tokio"
        );
        print(&sides, &runs);
        if self.perf {
            print(&sides, &shares);
            if shares[0][0][0].1 < 2.0 {
                println!("Timers are a small part of this load: tokio::time suffices.");
            }
        }
        println!(
            "\nOver tokio: the median of the ratios of each round, and its interval. An interval with 1 in it shows\n\
            no difference."
        );
        Ok(())
    }

    /// Builds the program, and returns its path.
    fn build(&self, mut cargo: Command) -> Result<PathBuf> {
        cargo.args(self.build.split_whitespace());
        cargo.args(self.bin.iter().flat_map(|bin| ["--bin", bin]));
        cargo
            .arg("--message-format=json-render-diagnostics")
            .stdout(Stdio::piped());
        let mut child = cargo.spawn()?;
        let output = child.stdout.take().context("cargo has no output")?;
        let mut programs = Vec::new();
        for message in Message::parse_stream(BufReader::new(output)) {
            if let Message::CompilerArtifact(artifact) = message? {
                programs.extend(artifact.executable);
            }
        }
        ensure!(child.wait()?.success(), "the build failed");
        match &programs[..] {
            [program] => Ok(program.into()),
            [] => bail!("`cargo {}` builds no program", self.build),
            _ => bail!("choose a program with `--bin NAME`: {programs:?}"),
        }
    }

    /// Returns the command for a program.
    fn words(&self, program: &Path) -> Result<Vec<String>> {
        // A command may end well after Ctrl-C.
        ensure!(!IS_INTERRUPTED.load(Relaxed), "interrupted");
        let program = program
            .to_str()
            .context("the path of the program is not UTF-8")?;
        let words = self.command.iter().map(|word| word.replace("{}", program));
        Ok(words.collect())
    }

    /// Runs the command under `perf`. Returns the shares of timers and locks in percent.
    fn shares(&self, program: &Path, folder: &Path) -> Result<Figures> {
        let data = folder.join("perf.data");
        let mut record = Command::new("perf");
        record
            .args(["record", "--quiet", "--freq", "499", "--output"])
            .arg(&data);
        let status = record.arg("--").args(self.words(program)?).status()?;
        ensure!(status.success(), "{record:?} failed");
        let mut script = Command::new("perf");
        script.args(["script", "--fields", "pid,period,ip,sym,dso", "--input"]);
        let output = script.arg(&data).output()?;
        ensure!(output.status.success(), "{script:?} failed");
        let program = fs::canonicalize(program)?;
        shares(&String::from_utf8_lossy(&output.stdout), &program)
    }

    /// Runs the command. Returns the time, the CPU time of the user and the system, and what the command prints.
    fn measure(&self, program: &Path, folder: &Path) -> Result<Figures> {
        let words = self.words(program)?;
        // At the end of a pipe, the tool would wait for processes that outlive the command.
        let output = folder.join("output");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdout(File::create(&output)?);
        let before = cpu()?;
        let start = Instant::now();
        let status = command.status();
        let status = status.with_context(|| format!("{:?} does not start", words[0]))?;
        let mut figures = vec![("time s".into(), start.elapsed().as_secs_f64())];
        let cpu = cpu()?.zip(before).map(|(after, before)| after - before);
        figures.extend(cpu.map(|cpu| ("CPU s".into(), cpu)));
        let output = fs::read(output)?;
        io::stdout().write_all(&output)?;
        ensure!(status.success(), "the command failed: {status}");
        figures.extend(printed(&String::from_utf8_lossy(&output)));
        Ok(figures)
    }
}

/// Returns the figures in the output of a command: lines `NAME: NUMBER`.
fn printed(output: &str) -> impl Iterator<Item = (String, f64)> {
    output.lines().filter_map(|line| {
        let (name, number) = line.rsplit_once(": ")?;
        let number: f64 = number.trim().parse().ok()?;
        number.is_finite().then(|| (name.trim().into(), number))
    })
}

/// Returns the features that a package is built with.
fn features<'a>(metadata: &'a Metadata, package: &PackageId) -> Vec<&'a str> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes = nodes.filter(|node| node.id == *package);
    nodes
        .flat_map(|node| &node.features)
        .map(|feature| feature.as_str())
        .collect()
}

/// Returns the programs that cargo builds by default.
fn programs(metadata: &Metadata) -> Vec<&str> {
    let mut programs = Vec::new();
    for package in metadata.workspace_default_packages() {
        let features = features(metadata, &package.id);
        let targets = package.targets.iter().filter(|target| {
            let mut needed = target.required_features.iter();
            target.is_bin() && needed.all(|feature| features.contains(&feature.as_str()))
        });
        programs.extend(targets.map(|target| target.name.as_str()));
    }
    programs
}

/// Returns the CPU time of all child processes that have ended, and of their children.
#[cfg(unix)]
fn cpu() -> Result<Option<f64>> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)?;
    let time = usage.user_time() + usage.system_time();
    Ok(Some(time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6))
}
#[cfg(not(unix))]
fn cpu() -> Result<Option<f64>> {
    Ok(None)
}

/// Returns the shares of timers and locks in the samples of the program, in percent.
fn shares(script: &str, program: &Path) -> Result<Figures> {
    let samples: Vec<_> = script.lines().filter_map(sample).collect();
    // The command also starts processes that are not the program.
    let is_program = |sample: &&Sample<'_>| Path::new(sample.file) == program;
    let processes: HashSet<_> = samples
        .iter()
        .filter(is_program)
        .map(|s| s.process)
        .collect();
    let mut periods = HashMap::new();
    for sample in &samples {
        if processes.contains(sample.process) {
            *periods.entry(kind(sample.symbol)).or_default() += sample.period;
        }
    }
    let total: f64 = periods.values().sum();
    ensure!(total > 0.0, "perf found no samples of {program:?}");
    let share = |kind| 100.0 * periods.get(&kind).unwrap_or(&0.0) / total;
    Ok(vec![
        ("timers %".into(), share(Kind::Timer)),
        ("locks %".into(), share(Kind::Lock)),
    ])
}

/// A line of `perf script`: a process was in a function of a file when a period ended.
struct Sample<'a> {
    process: &'a str,
    period: f64,
    symbol: &'a str,
    file: &'a str,
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (rest, file) = line.trim().strip_suffix(')')?.rsplit_once(" (")?;
    let (process, rest) = rest.split_once(' ')?;
    let (period, rest) = rest.trim_start().split_once(' ')?;
    let (_, symbol) = rest.trim_start().split_once(' ')?;
    let period = period.parse().ok()?;
    Some(Sample {
        process,
        period,
        symbol,
        file,
    })
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    Timer,
    Lock,
    Other,
}

/// Returns what a function belongs to. The compiler inlines the program's futures into the methods of `Timeout`, so
/// these do not count.
fn kind(symbol: &str) -> Kind {
    let symbol = symbol
        .trim_start_matches("core::ptr::drop_in_place")
        .trim_start_matches('<');
    let starts = |names: &[&str]| names.iter().any(|name| symbol.starts_with(name));
    let timers = [
        "tokio::runtime::scheduler::util::time",
        "tokio::runtime::time",
        "tokio::runtime::Timer",
        "tokio::time::",
        "tokio_wheel::",
    ];
    let timeouts = [
        "tokio::time::timeout::Timeout",
        "tokio_wheel::futures::timeout::Timeout",
    ];
    if starts(&timers) && !starts(&timeouts) {
        Kind::Timer
    } else if starts(&["parking_lot::raw_mutex", "std::sys::sync::mutex"]) {
        Kind::Lock
    } else {
        Kind::Other
    }
}

/// Returns how many of the sorted ratios lie outside of the interval at each end, and the probability that the
/// interval has the true median in it. It is at least 95% if there are 6 ratios or more.
fn bounds(ratios: usize) -> (usize, f64) {
    // The probability that a given number of ratios is below the true median.
    let mut probability = 0.5f64.powi(ratios as i32);
    let mut confidence = 1.0 - 2.0 * probability;
    for outside in 0..ratios {
        probability *= (ratios - outside) as f64 / (outside + 1) as f64;
        if confidence - 2.0 * probability < 0.95 {
            return (outside, confidence);
        }
        confidence -= 2.0 * probability;
    }
    unreachable!("the interval is empty before it has no ratios")
}

/// Prints the figures that each run has.
fn print(sides: &[Side], runs: &[Vec<Figures>]) {
    for (name, _) in &runs[0][0] {
        let value = |run: &Figures| Some(run.iter().find(|figure| figure.0 == *name)?.1);
        let values = |runs: &Vec<Figures>| runs.iter().map(value).collect::<Option<Vec<_>>>();
        let Some(values) = runs.iter().map(values).collect::<Option<Vec<_>>>() else {
            eprintln!("`{name}` is left out, because some runs did not print it");
            continue;
        };
        for (place, side) in sides.iter().enumerate() {
            let name = if place == 0 { name } else { "" };
            let side = format!("{side:?}").to_lowercase();
            let ratios = values[place].iter().zip(&values[0]);
            let ratios = sorted(ratios.map(|(side, tokio)| side / tokio));
            let values = sorted(values[place].iter().copied());
            let (first, last) = (0, values.len() - 1);
            print!("{name:<22}{side:<12}{:>10}", number(median(&values)));
            if last > 0 {
                let range = format!("{} to {}", number(values[first]), number(values[last]));
                print!("{range:>22}");
            } else {
                print!("{:>22}", "");
            }
            if place > 0 && median(&ratios).is_finite() {
                print!("{:>13.3}", median(&ratios));
                let (outside, _) = bounds(ratios.len());
                let interval = format!("{:.3} to {:.3}", ratios[outside], ratios[last - outside]);
                if last > 0 {
                    print!("{interval:>18}");
                }
            }
            println!();
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    f64::midpoint(sorted[middle], sorted[(sorted.len() - 1) / 2])
}

/// Returns a number with four digits that count.
fn number(value: f64) -> String {
    let digits = 3.0 - value.abs().max(0.1).log10().floor();
    format!("{value:.*}", digits.max(0.0) as usize)
}

#[test]
fn shares_are_of_the_programs_own_samples() {
    let script = "
 7     10  55e9 tokio::runtime::time::entry::TimerEntry::poll_elapsed (/bin/client)
 8     30  55e9 program::serve (/a program/serve)
 8     10  55e9 tokio::runtime::time::entry::TimerEntry::poll_elapsed (/a program/serve)
 8     10  55e9 tokio::runtime::time_alt::timer::Timer::poll_elapsed (/a program/serve)
 8     10  55e9 <tokio_wheel::futures::registration::Registration as core::ops::drop::Drop>::drop (/a program/serve)
 8     10  55e9 core::ptr::drop_in_place<tokio::time::sleep::Sleep> (/a program/serve)
 8     10  55e9 <tokio::time::timeout::Timeout<T> as core::future::future::Future>::poll (/a program/serve)
 8     10  55e9 parking_lot::raw_mutex::RawMutex::lock_slow (/a program/serve)
 8     10  ff00 try_to_wake_up ([kernel.kallsyms])
";
    let expected = vec![("timers %".into(), 40.0), ("locks %".into(), 10.0)];
    assert_eq!(
        shares(script, Path::new("/a program/serve")).unwrap(),
        expected
    );
    assert!(shares(script, Path::new("/another")).is_err());
}

#[test]
fn a_line_with_a_name_and_a_number_is_a_figure() {
    let output = "requests/s: 51234.5\nstarted at 12:00: 7 errors\n p99 ms: 1.25 \nduration: 5 s\nload: NaN\n12\n";
    let figures: Figures = vec![("requests/s".into(), 51234.5), ("p99 ms".into(), 1.25)];
    assert_eq!(printed(output).collect::<Figures>(), figures);
}

#[test]
fn the_interval_has_the_median_in_it_with_the_named_probability() {
    assert_eq!(bounds(1), (0, 0.0));
    assert_eq!(bounds(5), (0, 0.9375));
    assert_eq!(bounds(6), (0, 0.96875));
    assert_eq!(bounds(9), (1, 0.9609375));
    let (outside, confidence) = bounds(1000);
    assert!(
        outside == 468 && (0.95..0.96).contains(&confidence),
        "{outside}"
    );
}
