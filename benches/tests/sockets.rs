//! Proves with small samples that the program `sockets` does what it says. No test depends on the
//! speed of the machine.

use std::{env, fs, path::PathBuf, process::Command};

use serde_json::Value;

/// Runs the program, and returns what it printed and its tables. The program itself fails if a
/// request of a storm, or in the calm, gets no answer.
fn run(name: &str, args: &[&str]) -> (String, Vec<Value>) {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let output = Command::new(env!("CARGO_BIN_EXE_sockets"))
        .args([name, "--rounds=1", "--json"])
        .arg(&file)
        .args(args)
        .output()
        .expect("the program starts");
    let printed = String::from_utf8(output.stdout).expect("it prints text");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    let tables = fs::read(&file).expect("it writes its figures");
    let tables = serde_json::from_slice(&tables).expect("they are JSON");
    (printed, tables)
}

fn figures(table: &Value, name: &str) -> [Option<f64>; 3] {
    ["none", "tokio", "wheel"].map(|timer| {
        let mut runs = table["runs"].as_array().expect("an array").iter();
        let run = runs
            .find(|run| run[0] == timer)
            .expect("each timer has a run");
        let mut figures = run[1].as_array().expect("an array").iter();
        let figure = figures.find(|figure| figure[0] == name);
        figure.expect("each run has the figure")[2].as_f64()
    })
}

/// In all storms with all timers, no limit fires early, all limits expire, and each request of an
/// active client gets its reply.
#[test]
fn storms_close_the_silent_and_serve_the_active() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("storm-plots");
    let plots = folder.to_str().expect("the path is text");
    let sizes = ["--connections=550", "--timers=300", "--svg", plots];
    let (printed, tables) = run("storm", &sizes);
    assert!(printed.contains("50 connections are closed at one instant"));
    let scenes = ["instant", "second", "timers-instant", "timers-second"];
    assert_eq!(tables.len(), scenes.len());
    for (table, scene) in tables.iter().zip(scenes) {
        let plot = folder.join(format!("storm-{scene}.svg"));
        assert!(plot.exists(), "{}", plot.display());
        for name in ["limits that expired early", "limits pending 10 s later"] {
            assert_eq!(figures(table, name), [Some(0.0); 3], "{name}, {scene}");
        }
    }
}

/// Each request of the calm comparison gets its reply.
#[test]
fn the_calm_comparison_runs() {
    let (printed, tables) = run("calm", &["--connections=300", "--capacity=1000"]);
    assert!(printed.contains("Fewer than six rounds"));
    assert!(
        printed.contains(", tokio 1."),
        "the table names the machine"
    );
    assert_eq!(tables.len(), 4);
    for table in &tables {
        let answered = figures(table, "requests/s");
        assert!(answered.into_iter().all(|rate| rate > Some(0.0)), "{table}");
    }
}
