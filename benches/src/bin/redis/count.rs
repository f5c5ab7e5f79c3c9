//! Counts the system calls and the instructions of a request, which repeat from run to run.
//!
//! The program runs a client that sends many requests and a client that sends fewer. It divides the
//! difference of the counts by the difference of the requests. So the start of a client does not
//! count.
//!
//! Both tools change the batches. With strace, each system call takes longer. With valgrind, one
//! thread runs at a time, about fifty times slower, so the server always has time to answer. Each
//! row shows its batches.

use std::{
    env, fs, io,
    path::Path,
    process::{self, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;
use tokio_wheel_benches::table;

use crate::{
    child::arguments,
    load::{Whole, describe},
    server::Server,
    timers::Timer,
    unless_signaled,
};

/// What to count.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many requests are in flight: one or more numbers.
    #[arg(long, value_delimiter = ',', default_values_t = [16, 256, 4_096],
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    depth: Vec<u32>,
    /// The number of workers of the client's runtime. 0 means tokio's current_thread runtime.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=64))]
    workers: u8,
    /// How often to take each count.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// The tool that counts.
    #[arg(long, value_enum)]
    tool: Option<Tool>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tool {
    /// Counts system calls.
    Strace,
    /// Counts instructions outside of the kernel.
    Valgrind,
}

impl Tool {
    const ALL: [Self; 2] = [Self::Strace, Self::Valgrind];

    fn name(self) -> &'static str {
        match self {
            Self::Strace => "strace",
            Self::Valgrind => "valgrind",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Strace => "system calls/request",
            Self::Valgrind => "instructions/request",
        }
    }

    /// Returns how many requests the smaller and the larger client send, each a multiple of the
    /// depth.
    fn sizes(self, depth: u32) -> [u64; 2] {
        let depth = u64::from(depth);
        let about = |requests: u64| requests.div_ceil(depth) * depth;
        match self {
            Self::Strace => [about(20_000), about(20_000) + about(100_000)],
            Self::Valgrind => [about(8_000), about(8_000) + about(24_000)],
        }
    }

    fn is_installed(self) -> Result<bool> {
        let mut tool = process::Command::new(self.name());
        tool.arg("--version").stdout(Stdio::null());
        match tool.status() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            other => Ok(other?.success()),
        }
    }

    /// Counts what a client does while it runs.
    async fn count(self, client: &[String], log: &Path) -> Result<(f64, Whole)> {
        let mut command = Command::new(self.name());
        match self {
            Self::Strace => command.args(["-f", "-c", "-q", "-o"]).arg(log),
            Self::Valgrind => command
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(format!("--log-file={}", log.display())),
        };
        command.arg(env::current_exe()?).args(client);
        let output = command.kill_on_drop(true).output().await?;
        ensure!(
            output.status.success(),
            "{} failed: {}",
            self.name(),
            String::from_utf8_lossy(&output.stderr)
        );
        let text = fs::read_to_string(log)?;
        let count = match self {
            // An example of such a line: 100.00    0.123456           4     30702       12 total
            Self::Strace => (text.lines().find(|line| line.ends_with("total")))
                .and_then(|line| line.split_whitespace().nth(3)),
            Self::Valgrind => {
                (text.split("Collected :").nth(1)).and_then(|rest| rest.split_whitespace().next())
            }
        };
        let count = count.with_context(|| format!("{} counted nothing:\n{text}", self.name()))?;
        Ok((count.parse()?, serde_json::from_slice(&output.stdout)?))
    }
}

/// Counts, and prints the counts.
pub(crate) fn run(args: &Args) -> Result<()> {
    unless_signaled(async {
        let server = Server::start(args.workers)?;
        println!(
            "GET after GET on one multiplexed connection of the crate redis, each under a timeout of 30 s.\n\
             redis-server {}, {};\n\
             the median of {} runs [the lowest and the highest]\n",
            server.version,
            describe(args.workers),
            args.runs,
        );
        let tools = Tool::ALL.into_iter();
        for tool in tools.filter(|&tool| args.tool.is_none_or(|only| only == tool)) {
            if tool.is_installed()? {
                count_all(tool, args, &server).await?;
            } else {
                let name = tool.name();
                println!("{}: not counted: apt-get install {name}\n", tool.title());
            }
        }
        Ok(())
    })
}

async fn count_all(tool: Tool, args: &Args, server: &Server) -> Result<()> {
    let titles = ["in flight, timer", tool.title(), "more than none", "batch"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for &depth in &args.depth {
        let mut none = None;
        for timer in Timer::ALL {
            let mut row = vec![format!("{depth:5}  {}", timer.name())];
            let (mut counts, mut batches) = (Vec::new(), Vec::new());
            for _ in 0..args.runs {
                let (count, batch) = per_request(tool, timer, depth, args.workers, server).await?;
                counts.push(count);
                batches.push(batch);
            }
            let low = counts.iter().copied().fold(f64::INFINITY, f64::min);
            let high = counts.iter().copied().fold(0.0, f64::max);
            let count = table::median(counts);
            let more = count - *none.get_or_insert(count);
            let decimals = match tool {
                Tool::Strace => 3,
                Tool::Valgrind => 0,
            };
            row.extend([
                format!("{count:.decimals$} [{low:.decimals$} {high:.decimals$}]"),
                format!("{more:+.decimals$}"),
                format!("{:.1}", table::median(batches)),
            ]);
            rows.push(row);
        }
    }
    table::print(&rows);
    println!();
    Ok(())
}

/// Returns the count per request, and how many requests the server found at a time.
async fn per_request(
    tool: Tool,
    timer: Timer,
    depth: u32,
    workers: u8,
    server: &Server,
) -> Result<(f64, f64)> {
    let mut runs = Vec::new();
    for requests in tool.sizes(depth) {
        let mut client = arguments(timer, workers, server);
        client.extend(["--depth".to_owned(), depth.to_string()]);
        client.extend(["--requests".to_owned(), requests.to_string()]);
        let (count, whole) = tool.count(&client, &server.dir.join("count")).await?;
        let (sent, answered) = (whole.sent, whole.answered);
        ensure!(
            requests == answered && sent == answered,
            "of {requests} requests, the server had {sent}, and {answered} were answered"
        );
        runs.push((count, whole));
    }
    let [(fewer, short), (more, long)] = runs[..] else {
        unreachable!("there are two sizes");
    };
    let requests = (long.answered - short.answered) as f64;
    // Uses only the longer run. With large batches, the shorter run may have more reads.
    let batch = long.answered as f64 / long.server_reads.max(1) as f64;
    Ok(((more - fewer) / requests, batch))
}
