//! Proves with small samples that the program `sockets` does what it says. No test depends on the
//! speed of the machine.

use std::{env, fs, path::PathBuf, process::Command};

use serde_json::Value;

/// Runs the program, and returns what it printed and its figures. The program itself fails if it
/// does not serve a client of a storm.
fn run(name: &str, args: &[&str]) -> (String, Value) {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let output = Command::new(env!("CARGO_BIN_EXE_sockets"))
        .args(args)
        .arg("--json")
        .arg(&file)
        .output()
        .expect("the program starts");
    let printed = String::from_utf8(output.stdout).expect("it prints text");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    let figures = fs::read(&file).expect("it writes its figures");
    let figures = serde_json::from_slice(&figures).expect("they are JSON");
    (printed, figures)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("it is an array")
}

/// In all storms with all timers, no limit fires early, all connections expire, and each request of
/// an active client gets its reply.
#[test]
fn storms_close_the_silent_and_serve_the_active() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("storm-plots");
    let plots = folder.to_str().expect("the path is text");
    let sizes = [
        "--rounds=1",
        "--connections=60",
        "--active=10",
        "--timers=300",
    ];
    let mut args = vec!["storm", "--rate=500", "--svg", plots];
    args.extend(sizes);
    let (printed, figures) = run("storm", &args);
    assert!(printed.contains("50 connections are closed at one instant"));
    let scenes = array(&figures);
    assert_eq!(scenes.len(), 4);
    for scene in scenes {
        let plot = folder.join(format!("storm-{}.svg", scene["scene"].as_str().unwrap()));
        assert!(plot.exists(), "{}", plot.display());
        // No connection expires before its deadline, and the last connection has the last deadline.
        let spread = match scene["scene"].as_str() {
            Some("second" | "timers-second") => 900.0,
            _ => 0.0,
        };
        for series in array(&scene["series"]) {
            let run = &series["runs"][0];
            let limits = series["timer"] != "none";
            let expected = if limits {
                &scene["expiring"]
            } else {
                &Value::from(0)
            };
            assert_eq!(
                (&run["expired"], &run["early"]),
                (expected, &Value::from(0))
            );
            let last = run["expiries"]["last_ms"].as_f64().unwrap();
            assert!(!limits || last >= spread, "{last} ms, {scene}");
        }
    }
}

/// With a pool that is large enough, no timeout fires early, and each request that hangs times out.
/// Without limits, such a request never gets a reply.
#[test]
fn requests_that_hang_time_out_and_none_is_early() {
    let args = ["saturated", "--rounds=1", "--idle=0,300", "--connections=8"];
    let (_, figures) = run(
        "saturated",
        &[&args[..], &["--capacity=200", "--seconds=0.2"]].concat(),
    );
    let cells = array(&figures);
    assert_eq!(cells.len(), 6);
    for series in cells.iter().flat_map(|cell| array(&cell["series"])) {
        let run = &series["runs"][0];
        let (requests, fired) = (
            run["requests"].as_u64().unwrap(),
            run["fired"].as_u64().unwrap(),
        );
        assert_eq!(run["early"], 0, "{series}");
        if series["timer"] == "none" {
            assert_eq!(fired, 0, "{series}");
            assert!(run["answered"].as_f64() < Some(100.0), "{series}");
        } else {
            assert!(fired >= requests.div_ceil(20), "{series}");
        }
    }
}

/// Each request of the calm comparison gets its reply.
#[test]
fn the_calm_comparison_runs() {
    let sizes = ["--rounds=1", "--connections=20", "--busy=4", "--every=1"];
    let times = ["--turns=1", "--seconds=0.2", "--rpcs=1000"];
    let (printed, figures) = run("calm", &[&["calm"], &sizes[..], &times].concat());
    assert!(printed.contains("Fewer than six rounds"));
    for series in array(&figures) {
        assert!(
            series["runs"][0]["http"]["requests"].as_u64() > Some(0),
            "{series}"
        );
    }
}

/// The error for a wrong argument names the argument and what is allowed.
#[test]
fn wrong_arguments_are_named() {
    for (args, message) in [
        (
            ["storm", "--active=18000"],
            "--active is 18000, but must be less than",
        ),
        (["storm", "--rounds=0"], "0 is not in 1.."),
        (["saturated", "--seconds=9"], "must be between 0.1 and 1.2"),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_sockets"));
        let output = program.args(args).output().expect("the program starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains(message),
            "{args:?}: {error}"
        );
    }
}
