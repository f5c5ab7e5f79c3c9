//! Proves with small samples that the program `sockets` does what it says. No test depends on the
//! speed of the machine.

use std::{env, path::PathBuf, process::Command};

/// Runs the program, and returns what it printed. The program itself fails if a request of a storm,
/// or in the calm, gets no answer.
fn run(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sockets"))
        .args(args)
        .arg("--rounds=1")
        .output()
        .expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Returns the figures without limits, and two others, in each row of this name.
fn rows<'a>(printed: &'a str, name: &str) -> Vec<[&'a str; 3]> {
    let rows = printed
        .lines()
        .filter_map(|line| line.trim().strip_prefix(name));
    let cells = rows.map(|row| row.split_whitespace().take(3).collect::<Vec<_>>());
    cells
        .map(|cells| cells.try_into().expect("three"))
        .collect()
}

/// In all storms with all timers, no limit fires early, all limits expire, and each request of an
/// active client gets its reply.
#[test]
fn storms_close_the_silent_and_serve_the_active() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("storm-plots");
    let plots = folder.to_str().expect("the path is text");
    let args = ["storm", "--connections=550", "--timers=300", "--svg", plots];
    let printed = run(&args);
    assert!(printed.contains("50 connections are closed at one instant"));
    for name in ["limits that expired early", "limits pending 10 s later"] {
        assert_eq!(rows(&printed, name), [["0"; 3]; 4], "{printed}");
    }
    for scene in ["instant", "timers-instant"] {
        let plot = folder.join(format!("storm-{scene}.svg"));
        assert!(plot.exists(), "{}", plot.display());
    }
}

#[test]
fn the_calm_comparison_runs() {
    let printed = run(&["calm", "--connections=300", "--capacity=1000"]);
    assert!(printed.contains("Fewer than six rounds"));
    assert!(printed.contains(", tokio 1."), "it names the machine");
    let rates = rows(&printed, "requests/s");
    assert_eq!(rates.len(), 4);
    assert!(!rates.as_flattened().contains(&"0"), "{printed}");
}

#[test]
fn a_task_blocks_beside_all_timers() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("blocked-plots");
    let plots = folder.to_str().expect("the path is text");
    let printed = run(&["blocked", "--workers=2", "--svg", plots]);
    assert_eq!(
        rows(&printed, "round trips worst, ms").len(),
        2,
        "{printed}"
    );
    assert!(folder.join("blocking.svg").exists());
}

/// The scene itself fails if bytes are missing.
#[test]
fn a_tunnel_copies_beside_tokio() {
    let printed = run(&["tunnel", "--mebibytes=1", "--buffers=2"]);
    for ways in ["one way, 2 KiB", "both ways, 2 KiB"] {
        assert_eq!(rows(&printed, ways).len(), 1, "{printed}");
    }
}

#[test]
fn serve_answers_beside_axum() {
    let printed = run(&["serve"]);
    let servers = printed.lines().filter(|line| line.ends_with('x'));
    assert_eq!(servers.count(), 4, "{printed}");
}
