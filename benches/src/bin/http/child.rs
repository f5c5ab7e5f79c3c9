//! This program's other commands, as processes of their own.

use std::{
    env,
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, bail};

use crate::{load::Plan, sample::Sample, serve::Config, timers::Timer};

/// A server, which ends when this is dropped, or when this process does.
pub(crate) struct Server {
    _process: Process,
    addr: SocketAddr,
}

impl Server {
    /// Starts a server and waits until it serves.
    pub(crate) fn start(timer: Timer, config: Config) -> anyhow::Result<Self> {
        let mut command = this_program("serve")?;
        command
            .args(["--until-eof", "--timer", timer.name()])
            .args(config.to_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a server")?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        match (read, line.trim().parse()) {
            (Ok(_), Ok(addr)) => Ok(Self {
                _process: Process(child),
                addr,
            }),
            _ => {
                // It has said why on standard error.
                let _ = child.kill();
                bail!("the server has not started: {}", child.wait()?)
            }
        }
    }

    /// Starts its clients.
    pub(crate) fn clients(&self, plan: Plan) -> anyhow::Result<Clients> {
        let mut child = this_program("load")?
            .args(["--on-command", "--server", &self.addr.to_string()])
            .args(plan.to_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the clients")?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Clients {
            process: Process(child),
            stdin,
            stdout,
        })
    }
}

/// The clients of a server, connected to it and busy when they are told.
pub(crate) struct Clients {
    process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Clients {
    /// Waits until they are connected.
    pub(crate) fn ready(&mut self) -> anyhow::Result<()> {
        self.line().map(drop)
    }

    /// Has them load the server for a turn.
    pub(crate) fn turn(&mut self) -> anyhow::Result<()> {
        writeln!(self.stdin).context("the clients are gone")?;
        self.line().map(drop)
    }

    /// What they have measured, after their last turn.
    pub(crate) fn sample(mut self) -> anyhow::Result<Sample> {
        let line = self.line()?;
        serde_json::from_str(&line).context("the clients printed something else than a sample")
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            // They have said why on standard error.
            bail!("the clients have failed: {}", self.process.0.wait()?);
        }
        Ok(line)
    }
}

/// Ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn this_program(subcommand: impl AsRef<OsStr>) -> anyhow::Result<Command> {
    let program = env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.arg(subcommand);
    Ok(command)
}
