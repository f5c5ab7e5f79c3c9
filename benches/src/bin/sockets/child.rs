//! Runs this program's roles as processes of their own. The parent writes lines of JSON to their
//! standard input, and they answer with lines on standard output.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Serialize, de::DeserializeOwned};

use crate::Role;

/// Asks the kernel to end this process when its parent ends.
pub(crate) fn end_with_parent() -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot follow the parent's end")
}

/// A process that ends when this value is dropped.
pub(crate) struct Child {
    role: String,
    process: process::Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn start(role: &Role) -> anyhow::Result<Self> {
        let role = serde_json::to_string(role)?;
        let mut process = Command::new(env::current_exe()?)
            .args(["child", &role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process")?;
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Self {
            role,
            process,
            stdin,
            stdout,
        })
    }

    /// Sends the process a value.
    pub(crate) fn tell(&mut self, what: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(what)?;
        writeln!(self.stdin, "{line}").with_context(|| format!("{} is gone", self.role))
    }

    /// Waits for the next value of the process.
    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            // The process has printed the reason on standard error.
            bail!("{} has failed: {}", self.role, self.process.wait()?);
        }
        serde_json::from_str(&line).with_context(|| format!("{} has printed {line:?}", self.role))
    }

    /// Sends the process a value, and waits for its answer.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, what: &impl Serialize) -> anyhow::Result<T> {
        self.tell(what)?;
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

/// Waits for the next value from the parent. Returns `None` if the parent has closed standard input.
pub(crate) fn told<T: DeserializeOwned>() -> anyhow::Result<Option<T>> {
    let mut line = String::new();
    if io::stdin().read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// Sends the parent a value.
pub(crate) fn answer(what: &impl Serialize) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(what)?)?;
    Ok(())
}
