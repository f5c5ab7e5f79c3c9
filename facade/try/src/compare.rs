//! Runs a command on both sides in turn.

use std::{
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Message, Metadata};
use clap::Args;

use crate::patch::{IS_INTERRUPTED, Patch};

const BUILD: &str = "build --release";

#[derive(Args)]
pub(crate) struct Compare {
    /// How often each side runs, after one run that does not count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The command of cargo that builds the program, such as `bench --no-run --bench NAME`
    #[arg(long, default_value = BUILD, value_name = "COMMAND")]
    build: String,
    /// The program, if the workspace has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Also measures with Linux's `perf` what part of the CPU is spent in the code of timers
    #[arg(long)]
    perf: bool,
    /// The command to run. `{}` stands for the path of the program
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What the runs of one side took, in seconds.
#[derive(Default)]
struct Runs {
    time: Vec<f64>,
    cpu: Vec<f64>,
}

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
        let programs = [
            patch.on_tokio(|cargo| self.build(cargo))?,
            patch.on_wheel(|cargo| self.build(cargo))?,
        ];
        let mut sides = [Runs::default(), Runs::default()];
        for run in 0..=self.runs {
            // Each side is first in every other run.
            for side in [run as usize % 2, 1 - run as usize % 2] {
                let name = ["tokio", "wheel"][side];
                match run {
                    0 => eprintln!("--- {name}, a run that does not count"),
                    _ => eprintln!("--- {name}, run {run} of {}", self.runs),
                }
                let (time, cpu) = self.measure(&programs[side])?;
                if run > 0 {
                    sides[side].time.push(time);
                    sides[side].cpu.extend(cpu);
                }
            }
        }
        let [tokio, wheel] = sides;
        println!(
            "\n{:<8}{:>30}{:>30}{:>15}",
            "seconds", "tokio", "wheel", "wheel / tokio"
        );
        row("time", tokio.time, wheel.time);
        row("CPU", tokio.cpu, wheel.cpu);
        if self.perf {
            let [tokio, wheel] = programs.map(|program| self.share(&program, &patch.folder));
            let (tokio, wheel) = (tokio?, wheel?);
            println!("{:<8}{tokio:>29.2}%{wheel:>29.2}%", "timers");
            if tokio < 2.0 {
                println!("Timers are a small part of this load: tokio::time suffices.");
            }
        }
        println!(
            "\nMedians of {} runs, with the shortest and the longest run.",
            self.runs
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

    /// Runs the command under `perf`. Returns the share of timers in percent.
    fn share(&self, program: &Path, folder: &Path) -> Result<f64> {
        let data = folder.join("perf.data");
        let mut record = Command::new("perf");
        record
            .args(["record", "--quiet", "--freq", "499", "--output"])
            .arg(&data);
        let status = record.arg("--").args(self.words(program)?).status()?;
        ensure!(status.success(), "{record:?} failed");
        let mut report = Command::new("perf");
        report.args([
            "report",
            "--stdio",
            "--no-children",
            "--fields",
            "overhead,symbol",
        ]);
        let output = report
            .args(["--percent-limit", "0", "--input"])
            .arg(&data)
            .output()?;
        ensure!(output.status.success(), "{report:?} failed");
        Ok(share_of_timers(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs the command. Returns the time, and the CPU time of the user and the system.
    fn measure(&self, program: &Path) -> Result<(f64, Option<f64>)> {
        let words = self.words(program)?;
        let before = cpu()?;
        let start = Instant::now();
        let status = Command::new(&words[0]).args(&words[1..]).status();
        let status = status.with_context(|| format!("{:?} does not start", words[0]))?;
        let time = start.elapsed().as_secs_f64();
        ensure!(status.success(), "the command failed: {status}");
        Ok((
            time,
            cpu()?.zip(before).map(|(after, before)| after - before),
        ))
    }
}

/// Returns the programs that cargo builds by default.
fn programs(metadata: &Metadata) -> Vec<&str> {
    let mut programs = Vec::new();
    for package in metadata.workspace_default_packages() {
        let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let features: Vec<_> = nodes
            .filter(|node| node.id == package.id)
            .flat_map(|node| &node.features)
            .map(|feature| feature.as_str())
            .collect();
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

/// Adds up the percentages of functions that only timers call. The compiler inlines some functions, such as
/// `poll`, into the code of the program, so their share does not count.
fn share_of_timers(report: &str) -> f64 {
    let timers = [
        "tokio::runtime::time",
        "tokio_wheel::driver",
        "tokio_wheel::futures::registration",
        "tokio_wheel::ground",
        "tokio_wheel::timer",
        "tokio_wheel::wheel",
    ];
    let lines = report
        .lines()
        .filter(|line| timers.iter().any(|timer| line.contains(timer)));
    let percent = |line: &str| line.trim().split('%').next()?.parse::<f64>().ok();
    // The sum of no numbers is -0.
    lines.filter_map(percent).sum::<f64>() + 0.0
}

fn row(name: &str, mut tokio: Vec<f64>, mut wheel: Vec<f64>) {
    if tokio.is_empty() {
        return;
    }
    tokio.sort_by(f64::total_cmp);
    wheel.sort_by(f64::total_cmp);
    let median = |runs: &[f64]| runs[runs.len() / 2];
    let (first, last) = (0, tokio.len() - 1);
    let cell = |runs: &[f64]| {
        format!(
            "{:.3} ({:.3} to {:.3})",
            median(runs),
            runs[first],
            runs[last]
        )
    };
    let differ = tokio[last] < wheel[first] || wheel[last] < tokio[first];
    println!(
        "{name:<8}{:>30}{:>30}{:>15.3}{}",
        cell(&tokio),
        cell(&wheel),
        median(&wheel) / median(&tokio),
        if differ { "" } else { "  the ranges overlap" },
    );
}

#[test]
fn the_share_of_timers_counts_functions_of_timers() {
    let report = "
# Overhead  Symbol
    60.00%  [.] program::serve
     2.50%  [.] tokio::runtime::time::entry::TimerEntry::poll_elapsed
     1.25%  [.] <tokio_wheel::futures::registration::Registration as core::ops::drop::Drop>::drop
     0.50%  [.] <tokio::time::timeout::Timeout<T> as core::future::future::Future>::poll
";
    assert_eq!(share_of_timers(report), 3.75);
    assert_eq!(format!("{:.2}", share_of_timers("")), "0.00");
}
