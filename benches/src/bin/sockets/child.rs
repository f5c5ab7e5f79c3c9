//! This program's other commands, as processes of their own. They are told what to do by lines on standard input,
//! and answer by lines on standard output.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Serialize, de::DeserializeOwned};

/// Has the kernel end this process with the one that started it.
pub(crate) fn end_with_parent() -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot follow the parent's end")
}

/// A process, which ends when this is dropped. See [`end_with_parent`] for the other way.
pub(crate) struct Child {
    name: &'static str,
    process: process::Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Child {
    /// Starts one of this program's commands.
    pub(crate) fn start(
        name: &'static str,
        args: impl IntoIterator<Item = String>,
    ) -> anyhow::Result<Self> {
        let program = env::current_exe().context("cannot find this program")?;
        let mut process = Command::new(program)
            .arg(name)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{name}`"))?;
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Self {
            name,
            process,
            stdin,
            stdout,
        })
    }

    /// Tells it something, as a line of JSON.
    pub(crate) fn tell(&mut self, what: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(what)?;
        writeln!(self.stdin, "{line}").with_context(|| format!("`{}` is gone", self.name))
    }

    /// Waits for its next line, which says no more than that it is ready.
    pub(crate) fn ready(&mut self) -> anyhow::Result<()> {
        self.line().map(drop)
    }

    /// Waits for its next line, and reads it as JSON.
    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.line()?;
        serde_json::from_str(&line)
            .with_context(|| format!("`{}` has printed {:?}", self.name, line.trim_end()))
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            // It has said why on standard error.
            bail!("`{}` has failed: {}", self.name, self.process.wait()?);
        }
        Ok(line)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the next line that the parent tells this process. `None` if the parent has no more to say.
pub(crate) fn told<T: DeserializeOwned>() -> anyhow::Result<Option<T>> {
    let mut line = String::new();
    if io::stdin().read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// Answers the parent, as a line of JSON.
pub(crate) fn answer(what: &impl Serialize) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(what)?)?;
    Ok(())
}
