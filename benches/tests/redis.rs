//! Proves that the program `redis` answers every request, and that its server never outlives it.
//!
//! Without a redis-server, the tests that need it say so on standard error and pass.

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The longest time that any step may take on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_redis"))
}

/// Returns whether redis-server is installed. If it is not, says on standard error that the test is
/// skipped.
fn has_server() -> bool {
    let has = Command::new("redis-server")
        .arg("--version")
        .output()
        .is_ok();
    if !has {
        let _ = writeln!(
            io::stderr(),
            "SKIPPED: redis-server is not installed: apt-get install redis-server"
        );
    }
    has
}

/// Returns whether a process runs and is a redis-server.
fn is_server(process: u64) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| stat.contains("(redis-server)") && !stat.contains(") Z "))
}

/// Fails unless a server ends in time.
fn assert_ends(process: u64) {
    let begin = Instant::now();
    while is_server(process) {
        assert!(
            begin.elapsed() < PATIENCE,
            "redis-server {process} did not end"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_answers_every_request_and_ends_its_server() {
    if !has_server() {
        return;
    }
    let dir = env::temp_dir().join(format!("tokio-wheel-redis-test-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let json = dir.join("samples.json");
    let output = program()
        .args([
            "--rounds", "1", "--turn", "200", "--depth", "16,256", "--json",
        ])
        .arg(&json)
        .env("TMPDIR", &dir)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");

    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let series = report["series"].as_array().unwrap();
    assert_eq!(series.len(), 8);
    for series in series {
        let [turn] = &series["turns"].as_array().unwrap()[..] else {
            panic!("one round has one sample: {series}");
        };
        let requests = turn["requests"].as_u64().unwrap();
        let whole = |name: &str| turn["all"][name].as_u64().unwrap();
        assert!(0 < requests && requests <= whole("answered"), "{series}");
        assert_eq!(whole("sent"), whole("answered"), "{series}");
    }
    let stdout = String::from_utf8(output.stdout).unwrap();
    for line in stdout.lines() {
        assert!(line.chars().count() <= 100, "a long line: {line}");
    }
    assert!(
        stdout.contains("Fewer than six rounds show nothing"),
        "{stdout}"
    );

    assert!(!is_server(report["server_process"].as_u64().unwrap()));
    fs::remove_file(&json).unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "something is left");
    fs::remove_dir(&dir).unwrap();
}

/// Starts the program with a server that runs until a signal.
///
/// Also returns the program's standard error, because the program may still write to it.
fn start(dir: &Path) -> (Child, BufReader<ChildStderr>, u64) {
    fs::create_dir_all(dir).unwrap();
    let mut program = program()
        .args(["--minutes", "10", "--half-width", "0"])
        .env("TMPDIR", dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(program.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let process = line
        .rsplit_once("process ")
        .and_then(|(_, process)| process.trim().parse().ok());
    let process = process.unwrap_or_else(|| panic!("no process: {line}"));
    assert!(is_server(process));
    (program, stderr, process)
}

fn ends_with(signal: Signal) -> (Option<i32>, usize) {
    let name = format!("tokio-wheel-redis-{}-{signal:?}", std::process::id());
    let dir = env::temp_dir().join(name);
    let (mut program, _stderr, server) = start(&dir);
    kill_process(Pid::from_child(&program), signal).unwrap();
    let status = program.wait().unwrap();
    assert_ends(server);
    let left = fs::read_dir(&dir).unwrap().count();
    fs::remove_dir_all(&dir).unwrap();
    (status.code(), left)
}

#[test]
fn the_server_ends_with_an_interrupted_program() {
    if has_server() {
        assert_eq!(ends_with(Signal::INT), (Some(1), 0));
        assert_eq!(ends_with(Signal::TERM), (Some(1), 0));
    }
}

#[test]
fn the_server_ends_with_a_killed_program() {
    if has_server() {
        let (code, _) = ends_with(Signal::KILL);
        assert_eq!(code, None);
    }
}

#[test]
fn a_missing_server_is_named() {
    for command in ["compare", "count"] {
        let output = program().arg(command).env("PATH", "").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "redis-server is not installed: apt-get install redis-server\n"
        );
    }
}
