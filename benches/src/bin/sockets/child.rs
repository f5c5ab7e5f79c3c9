//! Runs this program's roles as processes, which answer lines of JSON with lines of JSON.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio_wheel_benches::peer::program_for;

use crate::{serve::Server, timer::Timer};

/// What a process does that this program starts, until its parent ends.
#[derive(Serialize, Deserialize)]
pub(crate) enum Role {
    /// A server with so many limits.
    StormServer(u64),
    CalmServer,
    /// A server with so many workers, of which a task blocks one.
    BlockedServer(usize),
    /// A server with one worker, pinned to a CPU.
    AxumServer(Server, usize),
    /// Keeps so many connections to a server open, which are silent after one request.
    Silent(SocketAddr, u64),
}

/// A process that is killed when this value is dropped.
pub(crate) struct Child {
    role: String,
    process: process::Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn start<T: DeserializeOwned>(
        timer: Timer,
        role: &Role,
    ) -> anyhow::Result<(Self, T)> {
        let role = serde_json::to_string(&(timer, role))?;
        let program = program_for(timer.peer())?;
        let mut process = Command::new(program)
            .args(["child", &role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process")?;
        let mut child = Self {
            stdin: process.stdin.take().expect("it is piped"),
            stdout: BufReader::new(process.stdout.take().expect("it is piped")),
            role,
            process,
        };
        let answer = child.answer()?;
        Ok((child, answer))
    }

    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            // The process has printed the reason on standard error.
            bail!("{} has failed: {}", self.role, self.process.wait()?);
        }
        serde_json::from_str(&line).with_context(|| format!("{} has printed {line:?}", self.role))
    }

    pub(crate) fn ask<T: DeserializeOwned>(&mut self, what: &impl Serialize) -> anyhow::Result<T> {
        writeln!(self.stdin, "{}", serde_json::to_string(what)?)?;
        self.answer()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn told<T: DeserializeOwned>() -> anyhow::Result<T> {
    let mut line = String::new();
    ensure!(
        io::stdin().read_line(&mut line)? > 0,
        "the parent has ended"
    );
    Ok(serde_json::from_str(&line)?)
}

pub(crate) fn answer(what: &impl Serialize) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(what)?)?;
    Ok(())
}
