//! Runs a command on all sides in turn.

use std::{
    env,
    fmt::Debug,
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

use crate::{
    blocks,
    patch::{self, IS_INTERRUPTED, Patch, Side},
    perf, processes,
    table::{self, Figures},
};

const BUILD: &str = "build --release";

#[derive(Args)]
pub(crate) struct Compare {
    /// How often each side runs, after one run that does not count
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Also runs the program on tokio's alternative timer, which exists in multi-thread runtimes
    ///
    /// The tool compiles a copy of tokio with tokio's unstable features, whose `enable_time` does what
    /// `enable_alt_timer` does. Current-thread runtimes ignore it. If the program has only such runtimes, this side runs
    /// on `tokio::time` too.
    #[arg(long)]
    pub(crate) alternative: bool,
    /// The command of cargo that builds the program, such as `bench --no-run --bench NAME`
    #[arg(long, default_value = BUILD, value_name = "COMMAND")]
    pub(crate) build: String,
    /// The program, if the workspace has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Also measures with Linux's `perf` what part of the program's CPU is spent in the code of timers
    ///
    /// `timers %` has the functions that only timers call. The true part is larger, because it has clock reads,
    /// functions that the compiler has inlined, and waiting for the locks of timers. `locks %` has the slow path of
    /// all contended mutexes. The program must not be stripped.
    #[arg(long)]
    perf: bool,
    /// The command to run. `{}` stands for the path of the program
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Compare {
    /// Finds mistakes that would otherwise show only after the builds.
    pub(crate) fn check(&self, metadata: &Metadata) -> Result<()> {
        let command = self.command.join(" ");
        ensure!(
            command.contains("{}"),
            "the command `{command}` has no `{{}}`, which stands for the path of the program"
        );
        #[cfg(unix)]
        check_command(&self.command[0])?;
        if self.build == BUILD && self.bin.is_none() {
            self.check_programs(&programs(metadata))?;
        }
        if self.alternative {
            let features = features(metadata, &patch::tokio(metadata)?.id);
            ensure!(
                features.contains(&"rt-multi-thread"),
                "without tokio's feature `rt-multi-thread` there is no alternative timer"
            );
        }
        if self.perf {
            perf::check()?;
        }
        Ok(())
    }

    pub(crate) fn run(&self, patch: &Patch) -> Result<()> {
        let mut sides = vec![Side::Tokio, Side::Alternative, Side::Wheel];
        sides.retain(|&side| side != Side::Alternative || self.alternative);
        let flags = env::var("RUSTFLAGS").unwrap_or_default();
        if flags.contains("tokio_unstable") {
            eprintln!(
                "If the program calls `enable_alt_timer`, remove the call: with the wheel, a task that blocks the worker \
                 which set the alarm then stops all timers."
            );
        }
        let mut programs = Vec::new();
        for side in &sides {
            let program = patch.on(*side, |cargo| self.build(cargo))?;
            ensure!(
                !programs.contains(&program),
                "all sides build the same file {program:?}: remove `--target-dir` from the command that builds"
            );
            programs.push(program);
        }
        eprintln!("The command must end by itself: {}", self.command.join(" "));
        let mut runs = vec![Vec::new(); sides.len()];
        let mut blocks = Vec::new();
        let mut shares = Vec::new();
        // After a failure, the tables have what was complete before.
        let mut measure = || -> Result<()> {
            blocks::take(&patch.folder)?;
            for round in 0..=self.runs {
                let mut figures = vec![Vec::new(); sides.len()];
                let mut of_wheel = blocks::Blocks::default();
                for place in 0..sides.len() {
                    // Another side is first in each round.
                    let side = (usize::from(round) + place) % sides.len();
                    let name = sides[side].name();
                    let run = match round {
                        0 => format!("{name}, a run that does not count"),
                        _ => format!("{name}, run {round} of {}", self.runs),
                    };
                    eprintln!("--- {run}");
                    let measured = self.measure(&programs[side], &programs, &patch.folder);
                    figures[side] = measured.context(run)?;
                    let seen = blocks::take(&patch.folder)?;
                    if sides[side] == Side::Wheel {
                        of_wheel = seen;
                    }
                }
                if round > 0 {
                    blocks.push(of_wheel);
                    runs.iter_mut()
                        .zip(figures)
                        .for_each(|(runs, run)| runs.push(run));
                }
            }
            for (program, side) in programs.iter().zip(&sides).filter(|_| self.perf) {
                let run = format!("{}, the run under perf", side.name());
                eprintln!("--- {run}");
                let data = patch.folder.join("perf.data");
                let measured = perf::shares(&self.words(program)?, program, &data);
                shares.push(vec![measured.context(run)?]);
            }
            Ok(())
        };
        let result = measure();
        blocks::end(&patch.folder)?;
        let rounds = runs[0].len();
        if rounds > 0 {
            println!("\n{}", table::header(rounds));
            let words = table::print(&sides, &runs);
            // Time and CPU.
            if runs[0][0].len() <= 2 {
                println!("The command prints no line `NAME: NUMBER`, which would be a figure.");
            }
            if let [of_tokio, ..] = &shares[..] {
                table::print(&sides[..shares.len()], &shares);
                if of_tokio[0].iter().map(|(_, percent)| percent).sum::<f64>() < 2.0 {
                    println!("Timers are a small part of this load: tokio::time suffices.");
                }
            }
            println!("\n{words}");
            blocks::line(&blocks)
                .iter()
                .for_each(|line| println!("{line}"));
        }
        result
    }

    /// Tests that cargo builds one program.
    fn check_programs<T: Debug>(&self, programs: &[T]) -> Result<()> {
        ensure!(
            !programs.is_empty(),
            "`cargo {}` builds no program. `--build COMMAND` names another command, such as \
             `build --release --example NAME`",
            self.build
        );
        ensure!(
            programs.len() == 1,
            "choose a program with `--bin NAME`: {programs:?}"
        );
        Ok(())
    }

    /// Builds the program, and returns its path.
    fn build(&self, mut cargo: Command) -> Result<PathBuf> {
        cargo.args(self.bin.iter().flat_map(|bin| ["--bin", bin]));
        cargo
            .arg("--message-format=json-render-diagnostics")
            .stdout(Stdio::piped());
        let mut child = cargo.spawn()?;
        let output = child.stdout.take().context("cargo has no output")?;
        let messages: Vec<_> = Message::parse_stream(BufReader::new(output)).collect();
        ensure!(child.wait()?.success(), "the build failed");
        let mut programs = Vec::new();
        for message in messages {
            if let Message::CompilerArtifact(artifact) = message? {
                programs.extend(artifact.executable);
            }
        }
        self.check_programs(&programs)?;
        let program = PathBuf::from(programs.remove(0));
        if self.perf {
            perf::check_program(&program)?;
        }
        Ok(program)
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

    /// Runs the command. Returns the time, the CPU time of the user and the system, and what the command prints.
    fn measure(&self, program: &Path, programs: &[PathBuf], folder: &Path) -> Result<Figures> {
        let words = self.words(program)?;
        if let Some(running) = processes::running(programs)? {
            bail!(
                "the program runs already, and the load test may measure this process instead of its own: {running}"
            );
        }
        // At the end of a pipe, the tool would wait for processes that outlive the command.
        let output = folder.join("output");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdout(File::create(&output)?);
        let before = cpu()?;
        let start = Instant::now();
        let status = command.status();
        let interpreter = "the first line of a script names its interpreter, such as `#!/bin/sh`";
        let status =
            status.with_context(|| format!("{:?} does not start: {interpreter}", words[0]))?;
        let mut figures = vec![("time s".into(), start.elapsed().as_secs_f64())];
        let cpu = cpu()?.zip(before).map(|(after, before)| after - before);
        figures.extend(cpu.map(|cpu| ("CPU s".into(), cpu)));
        let output = fs::read(output)?;
        io::stdout().write_all(&output)?;
        let command = words.join(" ");
        let running = processes::running(programs)?;
        if let Some(running) = &running {
            eprintln!("The command `{command}` has left a process of the program: {running}");
        }
        ensure!(status.success(), "the command `{command}` failed: {status}");
        ensure!(
            running.is_none(),
            "the command must end the processes that it starts, and wait for them: the next run would measure them, and \
             their CPU is not counted"
        );
        for (name, number) in printed(&String::from_utf8_lossy(&output)) {
            // A load test may print its progress.
            figures.retain(|(earlier, _)| *earlier != name);
            figures.push((name, number));
        }
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

/// Tests that a command can start.
#[cfg(unix)]
fn check_command(command: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if command == "{}" {
        return Ok(());
    }
    let folders: Vec<_> = if command.contains('/') {
        vec![env::current_dir()?]
    } else {
        env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
    };
    let files = folders.iter().map(|folder| folder.join(command));
    let mut files = files.filter_map(|file| fs::metadata(file).ok());
    let is_executable =
        |file: fs::Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    ensure!(
        files.any(is_executable),
        "found no executable {command:?} in {folders:?}. `chmod +x` makes a file executable"
    );
    Ok(())
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

#[test]
fn a_line_with_a_name_and_a_number_is_a_figure() {
    let output = "requests/s: 51234.5\nstarted at 12:00: 7 errors\n p99 ms: 1.25 \nduration: 5 s\nload: NaN\n12\n";
    let figures: Figures = vec![("requests/s".into(), 51234.5), ("p99 ms".into(), 1.25)];
    assert_eq!(printed(output).collect::<Figures>(), figures);
}
