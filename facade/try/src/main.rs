#![forbid(unsafe_code)]

//! Tries tokio-wheel on a whole program, dependencies included: `cargo install --path facade/try`, then
//! `cargo on-wheel --help` in the program's folder.

mod blocks;
mod cargo;
mod compare;
mod patch;
mod perf;
mod processes;
mod table;

#[cfg(unix)]
use std::os::unix::process::ExitStatusExt;
use std::{env, fs, path::PathBuf, process::ExitCode, sync::atomic::Ordering::Relaxed};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use cargo::Cargo;
use patch::{Patch, Side};

#[derive(Parser)]
#[command(bin_name = "cargo")]
enum Tool {
    OnWheel(OnWheel),
}

/// Tries tokio-wheel on a whole program and its dependencies
///
/// Makes a folder with a package named `tokio`, which is the program's own version of tokio with `time`
/// replaced by tokio-wheel. Cargo then uses this package for the program and all of its dependencies.
///
/// This is an experiment for the workspace of a binary. It pins the version of tokio, and does not reach the
/// users of a library. For production, depend on tokio-on-wheel or tokio-wheel.
#[derive(Args)]
#[command(version)]
struct OnWheel {
    /// The folder of the program [default: the current folder]
    #[arg(long, global = true)]
    program: Option<PathBuf>,
    /// The folder to make [default: on-wheel in the target folder]
    #[arg(long, global = true)]
    folder: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a command of cargo on the wheel, such as `cargo on-wheel cargo test --workspace`
    ///
    /// Changes no file: cargo builds in a target folder of its own, and Cargo.lock is restored afterwards. To
    /// go back, run the command without `on-wheel cargo`.
    Cargo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<String>,
    },
    /// Runs a command with the program on tokio and on the wheel in turn, and compares time and CPU
    ///
    /// The command is a benchmark or a load test. It ends by itself, and waits for the processes that it
    /// starts, because the tool counts the CPU of finished processes.
    ///
    /// Lines `NAME: NUMBER` of the command's output, such as `requests/s: 51234.5`, become figures of the
    /// table as well. The tool prints the output after each run.
    Compare(compare::Compare),
    /// Only makes the folder, and prints the lines of Cargo.toml that use it
    Patch,
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        // `Debug` would add a backtrace if the user has set RUST_BACKTRACE for the program.
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let Tool::OnWheel(options) = Tool::parse();
    if let Some(program) = &options.program {
        env::set_current_dir(program)
            .with_context(|| format!("--program {}", program.display()))?;
    }
    // On Ctrl-C, cargo ends as well, and this process restores Cargo.lock.
    ctrlc::set_handler(|| patch::IS_INTERRUPTED.store(true, Relaxed))?;
    let cargo = Cargo::new(match &options.command {
        Command::Cargo { arguments } => arguments.clone(),
        Command::Compare(compare) => compare.build.split_whitespace().map(String::from).collect(),
        Command::Patch => vec!["--all-features".into()],
    })?;
    let lock = cargo.lock();
    let is_new = !lock.exists() && !matches!(options.command, Command::Patch);
    let result = options.run(cargo);
    if is_new && lock.exists() {
        fs::remove_file(lock)?;
    }
    result
}

impl OnWheel {
    fn run(self, cargo: Cargo) -> Result<ExitCode> {
        let lock = || fs::read_to_string(cargo.lock()).unwrap_or_default();
        // Cargo does not write Cargo.lock for manifests alone.
        patch::check_manifests(&cargo.metadata(&["--no-deps"])?)?;
        patch::check(&lock())?;
        if cargo.lock().exists() && !matches!(self.command, Command::Patch) {
            let opened = fs::OpenOptions::new().append(true).open(cargo.lock());
            let needed = "must be writable, because the tool changes it for a build";
            opened.with_context(|| format!("{} {needed}", cargo.lock().display()))?;
        }
        let metadata = cargo.metadata(&[])?;
        // A dependency may bring the wheel.
        patch::check(&lock())?;
        if let Command::Compare(compare) = &self.command {
            compare.check(&metadata)?;
        }
        let alternative = matches!(&self.command, Command::Compare(compare) if compare.alternative);
        let patch = Patch::make(cargo, metadata, self.folder, alternative)?;
        match self.command {
            Command::Cargo { .. } => {
                let status = patch.on(Side::Wheel, |mut cargo| Ok(cargo.status()?))?;
                eprintln!("This used the wheel for all timers of tokio.");
                let code = status.code();
                // A shell shows this code of a program that a signal has ended.
                #[cfg(unix)]
                let code = code.or(status.signal().map(|signal| 128 + signal));
                let code = code.and_then(|code| u8::try_from(code).ok());
                return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
            }
            Command::Compare(compare) => compare.run(&patch)?,
            Command::Patch => println!("{patch}"),
        }
        Ok(ExitCode::SUCCESS)
    }
}
