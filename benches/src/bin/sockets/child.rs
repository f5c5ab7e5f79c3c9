//! Runs this program's other commands as processes of their own. The parent writes lines to their
//! standard input, and they answer with lines on standard output.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Serialize, de::DeserializeOwned};

/// Asks the kernel to end this process when its parent ends.
pub(crate) fn end_with_parent() -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot follow the parent's end")
}

/// A process that ends when this value is dropped. If the program is killed, [`end_with_parent`]
/// ends the process.
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

    /// Sends the process a value, as a line of JSON.
    pub(crate) fn tell(&mut self, what: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(what)?;
        writeln!(self.stdin, "{line}").with_context(|| format!("`{}` is gone", self.name))
    }

    /// Waits for the next line, which only says that the process is ready.
    pub(crate) fn ready(&mut self) -> anyhow::Result<()> {
        self.line().map(drop)
    }

    /// Waits for the next line, and reads it as JSON.
    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.line()?;
        serde_json::from_str(&line)
            .with_context(|| format!("`{}` has printed {:?}", self.name, line.trim_end()))
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            // The process has printed the reason on standard error.
            bail!("`{}` has failed: {}", self.name, self.process.wait()?);
        }
        Ok(line)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the next line from the parent. Returns `None` if the parent has closed standard input.
pub(crate) fn told<T: DeserializeOwned>() -> anyhow::Result<Option<T>> {
    let mut line = String::new();
    if io::stdin().read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// Sends the parent a value, as a line of JSON.
pub(crate) fn answer(what: &impl Serialize) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(what)?)?;
    Ok(())
}
