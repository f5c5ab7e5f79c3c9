//! Runs the redis-server: Debian's package, on a free port, in a temporary directory, without
//! persistence.
//!
//! The server never outlives the program. [`Server`] kills it when it is dropped, and the program
//! drops it on errors and signals too. If the program is killed, the kernel kills the server. The
//! process asks the kernel for that before it becomes the server (`PR_SET_PDEATHSIG`). Three tests
//! in `benches/tests/redis.rs` prove this: `a_run_answers_every_request_and_ends_its_server`,
//! `the_server_ends_with_an_interrupted_program` and `the_server_ends_with_a_killed_program`.

use std::{
    env, fmt, fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail, ensure};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue, InfoDict,
    aio::MultiplexedConnection, cmd,
};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::runtime;
use tokio_wheel_benches::lab::{cores, stay_on_core};

/// The key that every request asks for. Its value follows.
pub(crate) const KEY: &str = "session:0123456789abcdef";
pub(crate) const VALUE: &str = "a value of thirty-two characters";

const PROGRAM: &str = "redis-server";

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// The error if the machine has no redis-server.
#[derive(Debug)]
pub(crate) struct NotInstalled;

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redis-server is not installed: apt-get install redis-server")
    }
}

impl std::error::Error for NotInstalled {}

/// A running redis-server, which ends when this value is dropped.
pub(crate) struct Server {
    process: Child,
    /// The directory of its log, which is removed with the server.
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    pub(crate) version: String,
}

impl Server {
    /// Starts a server beside a client of `workers` workers, and waits until it accepts
    /// connections.
    ///
    /// Stores the value that the requests ask for, through a client whose runtime has no clock.
    pub(crate) fn start(workers: u8) -> anyhow::Result<Self> {
        let installed = Command::new(PROGRAM)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        match installed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(NotInstalled),
            other => other.with_context(|| format!("cannot start {PROGRAM}"))?,
        };
        let dir = env::temp_dir().join(format!("tokio-wheel-redis-{}", process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let log = fs::File::create(dir.join("log"))?;
        let port = free_port()?;
        let process = Command::new(env::current_exe()?)
            .args(["server", "--parent", &process::id().to_string()])
            .args(["--port", &port.to_string()])
            .args(["--client", &workers.to_string()])
            .arg("--dir")
            .arg(&dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start this program")?;
        let mut server = Self {
            process,
            dir,
            port,
            version: String::new(),
        };
        server.wait()?;
        // Uses a thread of its own, because this thread may be in a runtime.
        server.version = thread::scope(|scope| scope.spawn(|| server.prepare()).join())
            .map_err(|_| anyhow!("the client needs tokio::time"))??;
        eprintln!(
            "redis-server {} on port {port}, process {}",
            server.version,
            server.pid()
        );
        Ok(server)
    }

    /// Returns the id of the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the server accepts connections.
    fn wait(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while TcpStream::connect(address(self.port)).is_err() {
            if let Some(status) = self.process.try_wait()? {
                let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                bail!("{PROGRAM} has not started: {status}\n{log}");
            }
            ensure!(
                begin.elapsed() < PATIENCE,
                "{PROGRAM} has not started within {PATIENCE:?}"
            );
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Stores the value, and returns the server's version.
    ///
    /// This runtime has no clock: a client that used `tokio::time` would panic here.
    fn prepare(&self) -> anyhow::Result<String> {
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let (pid, version) = runtime.block_on(async {
            let mut connection = connect(self.port).await?;
            let () = cmd("SET")
                .arg(KEY)
                .arg(VALUE)
                .query_async(&mut connection)
                .await?;
            let value: String = cmd("GET").arg(KEY).query_async(&mut connection).await?;
            ensure!(value == VALUE, "{PROGRAM} answers {value:?}");
            let info: InfoDict = cmd("INFO")
                .arg("server")
                .query_async(&mut connection)
                .await?;
            anyhow::Ok((
                field::<u32>(&info, "process_id")?,
                field(&info, "redis_version")?,
            ))
        })?;
        ensure!(
            self.pid() == pid,
            "port {} belongs to another server, process {pid}: start again",
            self.port
        );
        Ok(version)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended by itself. It has nothing to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Opens a connection that many tasks share. Its own timeouts are off.
pub(crate) async fn connect(port: u16) -> anyhow::Result<MultiplexedConnection> {
    let address = address(port);
    let client = Client::open(ConnectionAddr::Tcp(address.ip().to_string(), port))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let connection = connection.await;
    connection.with_context(|| format!("cannot connect to {PROGRAM} on {address}"))
}

/// Returns a field of the server's INFO.
pub(crate) fn field<T: FromRedisValue>(info: &InfoDict, name: &str) -> anyhow::Result<T> {
    info.get(name)
        .with_context(|| format!("{PROGRAM} does not report {name}"))
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(address(0))?.local_addr()?.port())
}

/// The arguments of the process that becomes a server.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    client: u8,
    #[arg(long)]
    dir: PathBuf,
}

/// Returns whether a client of `workers` workers leaves a core to the server.
///
/// If so, the server has the last core, and each worker has one of the others. Otherwise the kernel
/// decides.
pub(crate) fn are_apart(workers: u8) -> bool {
    usize::from(workers.max(1)) < cores().len()
}

/// Becomes a server. Returns only on failure.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|pid| pid.as_raw_pid() as u32);
    ensure!(parent == Some(args.parent), "the parent has ended");
    if are_apart(args.client) {
        stay_on_core(cores().len() - 1);
    }
    let error = Command::new(PROGRAM)
        .args(["--bind", "127.0.0.1", "--port", &args.port.to_string()])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(&args.dir)
        .exec();
    Err(error).with_context(|| format!("cannot start {PROGRAM}"))
}
