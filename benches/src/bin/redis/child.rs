//! Runs the clients as processes of their own.

use std::{env, process::Stdio, time::Duration};

use anyhow::{Context as _, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{load::Turn, server::Server, timers::Timer};

/// A client that takes turns. The client ends when this value is dropped.
pub(crate) struct Client {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a client of a server.
    pub(crate) fn start(timer: Timer, workers: u8, server: &Server) -> anyhow::Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(arguments(timer, workers, server))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a client")?;
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Self {
            process,
            stdin,
            stdout,
        })
    }

    /// Makes the client keep `depth` requests in flight for a turn.
    pub(crate) async fn turn(&mut self, depth: u32, middle: Duration) -> anyhow::Result<Turn> {
        let command = format!("{depth} {}\n", middle.as_millis());
        let sent = self.stdin.write_all(command.as_bytes()).await;
        sent.context("a client has ended")?;
        let mut line = String::new();
        if self.stdout.read_line(&mut line).await? == 0 {
            // The client has printed the reason on standard error.
            bail!("a client has failed: {}", self.process.wait().await?);
        }
        let turn: Turn = serde_json::from_str(&line)?;
        let (sent, answered) = (turn.all.sent, turn.all.answered);
        ensure!(
            sent == answered,
            "the server had {sent} requests, and {answered} were answered"
        );
        Ok(turn)
    }
}

/// Returns the arguments that make this program a client.
pub(crate) fn arguments(timer: Timer, workers: u8, server: &Server) -> Vec<String> {
    let mut arguments = vec!["load".to_owned()];
    for (name, value) in [
        ("--timer", timer.to_arg()),
        ("--workers", workers.to_string()),
        ("--port", server.port.to_string()),
        ("--server", server.pid().to_string()),
    ] {
        arguments.extend([name.to_owned(), value]);
    }
    arguments
}
