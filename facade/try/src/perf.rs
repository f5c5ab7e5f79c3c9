//! The share of the program's CPU that timers take, by samples of Linux's `perf`.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::table::Figures;

/// Tests that `perf` can record.
pub(crate) fn check() -> Result<()> {
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--output", "-", "--", "true"]);
    let status = perf.stdout(Stdio::null()).status();
    let status = status.context("`--perf` needs Linux's perf (Debian: linux-perf)")?;
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    ensure!(
        status.success(),
        "`perf record` failed: `kernel.perf_event_paranoid` is {}, and must be at most 2, which \
         `sudo sysctl kernel.perf_event_paranoid=2` sets. A container must also allow perf_event_open",
        level.as_deref().unwrap_or("unknown").trim()
    );
    Ok(())
}

/// Tests that a program has the names of its functions.
pub(crate) fn check_program(program: &Path) -> Result<()> {
    let table = b".symtab\0";
    ensure!(
        fs::read(program)?
            .windows(table.len())
            .any(|bytes| bytes == table),
        "{program:?} is stripped, and `--perf` needs names: set CARGO_PROFILE_RELEASE_STRIP=debuginfo"
    );
    Ok(())
}

/// Runs a command under `perf`. Returns the shares of timers and locks in percent.
pub(crate) fn shares(command: &[String], program: &Path, data: &Path) -> Result<Figures> {
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "--freq", "499", "--output"]);
    record.arg(data).arg("--").args(command);
    ensure!(record.status()?.success(), "{record:?} failed");
    let mut script = Command::new("perf");
    script.args(["script", "--fields", "pid,period,ip,sym,dso", "--input"]);
    let output = script.arg(data).output()?;
    ensure!(output.status.success(), "{script:?} failed");
    let program = fs::canonicalize(program)?;
    shares_in(&String::from_utf8_lossy(&output.stdout), &program)
}

/// Returns the shares of timers and locks in the samples of the program, in percent.
fn shares_in(script: &str, program: &Path) -> Result<Figures> {
    let samples: Vec<_> = script.lines().filter_map(sample).collect();
    // The command also starts processes that are not the program.
    let is_program =
        |sample: &&Sample<'_>| Path::new(sample.file) == program && sample.symbol != "[unknown]";
    let processes: HashSet<_> = samples
        .iter()
        .filter(is_program)
        .map(|s| s.process)
        .collect();
    let mut periods = HashMap::new();
    for sample in &samples {
        if processes.contains(sample.process) {
            *periods.entry(kind(sample.symbol)).or_default() += sample.period;
        }
    }
    let total: f64 = periods.values().sum();
    ensure!(
        total > 0.0,
        "perf found no function of {program:?}, which may have run too briefly or under another path"
    );
    let share = |kind| 100.0 * periods.get(&kind).unwrap_or(&0.0) / total;
    Ok(vec![
        ("timers %".into(), share(Kind::Timer)),
        ("locks %".into(), share(Kind::Lock)),
    ])
}

/// A line of `perf script`: a process was in a function of a file when a period ended.
struct Sample<'a> {
    process: &'a str,
    period: f64,
    symbol: &'a str,
    file: &'a str,
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (rest, file) = line.trim().strip_suffix(')')?.rsplit_once(" (")?;
    let (process, rest) = rest.split_once(' ')?;
    let (period, rest) = rest.trim_start().split_once(' ')?;
    let (_, symbol) = rest.trim_start().split_once(' ')?;
    let period = period.parse().ok()?;
    Some(Sample {
        process,
        period,
        symbol,
        file,
    })
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    Timer,
    Lock,
    Other,
}

/// Returns what a function belongs to. The compiler inlines the program's futures into the methods of `Timeout`, so
/// these do not count.
fn kind(symbol: &str) -> Kind {
    // rustc's newer names have `::` before a function's type.
    let around = [
        "core::ptr::drop_in_place",
        "::",
        "<",
        "core::option::Option",
        "<",
    ];
    let symbol = around.into_iter().fold(symbol, |symbol, part| {
        symbol.strip_prefix(part).unwrap_or(symbol)
    });
    let starts = |names: &[&str]| names.iter().any(|name| symbol.starts_with(name));
    let timers = [
        "tokio::runtime::scheduler::util::time",
        "tokio::runtime::time",
        "tokio::runtime::Timer",
        "tokio::time::",
        "tokio_wheel::",
        "bounded_wheel::",
    ];
    let timeouts = [
        "tokio::time::timeout::Timeout",
        "tokio_wheel::futures::timeout::Timeout",
    ];
    if starts(&timers) && !starts(&timeouts) {
        Kind::Timer
    } else if starts(&["parking_lot::raw_mutex", "std::sys::sync::mutex"]) {
        Kind::Lock
    } else {
        Kind::Other
    }
}

#[test]
fn a_program_without_names_is_stripped() {
    assert!(check_program(&std::env::current_exe().unwrap()).is_ok());
    assert!(check_program(Path::new("Cargo.toml")).is_err());
}

/// Functions of timers and other functions.
#[cfg(test)]
const FUNCTIONS: [(Kind, &str); 17] = [
    (
        Kind::Timer,
        "<tokio::time::sleep::Sleep as core::future::future::Future>::poll",
    ),
    (
        Kind::Timer,
        "tokio::runtime::scheduler::util::time_alt::insert_inject_timers",
    ),
    (Kind::Timer, "tokio::runtime::time::wheel::Wheel::remove"),
    (
        Kind::Timer,
        "tokio::runtime::time::<impl tokio::runtime::time::handle::Handle>::clear_entry",
    ),
    (
        Kind::Timer,
        "tokio::runtime::time_alt::timer::Timer::poll_elapsed",
    ),
    (
        Kind::Timer,
        "core::ptr::drop_in_place<core::option::Option<tokio::runtime::Timer>>",
    ),
    (
        Kind::Timer,
        "tokio_wheel::futures::sleep::Sleep::poll_with_budget",
    ),
    (
        Kind::Timer,
        "<tokio_wheel::futures::sleep::Sleep as core::ops::drop::Drop>::drop",
    ),
    (
        Kind::Timer,
        "core::ptr::drop_in_place::<tokio_wheel::driver::shard::Held>",
    ),
    (Kind::Timer, "bounded_wheel::rings::Rings<_,_>::unlink"),
    (
        Kind::Timer,
        "bounded_wheel::advance::<impl bounded_wheel::Wheel<T,_,_>>::next_expiration",
    ),
    (
        Kind::Timer,
        "<bounded_wheel::nodes::Nodes<core::task::wake::Waker>>::free",
    ),
    (Kind::Lock, "parking_lot::raw_mutex::RawMutex::lock_slow"),
    (
        Kind::Other,
        "<tokio::time::timeout::Timeout<T> as core::future::future::Future>::poll",
    ),
    (
        Kind::Other,
        "<tokio_wheel::futures::timeout::Timeout<T> as core::future::future::Future>::poll",
    ),
    (Kind::Other, "program::serve"),
    (Kind::Other, "slab::Slab<T>::insert_at"),
];

#[test]
fn shares_are_of_the_programs_own_samples() {
    let of_program = |(_, name): &_| format!(" 8  10  55e9 {name} (/a program/serve)\n");
    let of_others = "
 7  10  55e9 tokio::runtime::time::entry::TimerEntry::poll_elapsed (/bin/client)
 8  30  ff00 try_to_wake_up ([kernel.kallsyms])
 9  10  55e9 [unknown] (/bin/stripped)
";
    let script = String::from_iter(FUNCTIONS.iter().map(of_program)) + of_others;
    let expected = vec![("timers %".into(), 60.0), ("locks %".into(), 5.0)];
    assert_eq!(
        shares_in(&script, Path::new("/a program/serve")).unwrap(),
        expected
    );
    assert!(shares_in(&script, Path::new("/bin/stripped")).is_err());
}

/// The scripts of `benches/programs` count the same functions, in the output of perf and of callgrind.
#[cfg(unix)]
#[test]
fn the_scripts_of_benches_count_the_same_functions() {
    use std::{env, os::unix::fs::PermissionsExt};

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |file: &str, content: String| {
        let path = folder.join(file);
        fs::write(&path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let program = folder.join("program");
    write("program", "#!/bin/sh\n".into());
    let file = fs::canonicalize(&program).unwrap();
    let file = file.display();
    let samples = FUNCTIONS.map(|(_, name)| format!(" 8  10  55e9 {name} ({file})\n"));
    let samples = format!(
        "#!/bin/sh\ncase $1 in script) cat <<'END'\n{}END\nesac\n",
        samples.concat()
    );
    write("perf", samples);
    // The first run has fewer instructions than the second, as with fewer requests.
    let lines = FUNCTIONS.map(|(_, name)| format!("$((n * 10)),000  src/lib.rs:{name} [{file}]\n"));
    let lines = lines.concat();
    let head = "#!/bin/sh\ncase $4 in */1280) n=1 ;; *) n=2 ;; esac\ncat <<END\n$((n * 170)),000  PROGRAM TOTALS\n";
    write("callgrind_annotate", format!("{head}{lines}END\n"));

    let run = |script: &str, figure: &str| {
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/programs");
        let mut command = Command::new(Path::new(scripts).join(script));
        let path = env::var_os("PATH").unwrap();
        let path = [folder.to_owned()]
            .into_iter()
            .chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(path).unwrap());
        command.envs([("WORKERS_LIST", "1"), ("ROUNDS", "1")]);
        let output = command.args([&program, &program]).output().unwrap();
        let output = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.contains(figure), "{script}: {output}");
    };
    let timers = FUNCTIONS.iter().filter(|(kind, _)| *kind == Kind::Timer);
    let percent = 100.0 * timers.count() as f64 / FUNCTIONS.len() as f64;
    run(
        "instructions.sh",
        &format!("timer instructions %: {percent:.2}\n"),
    );
    run("rounds.sh", &format!(" {percent:.2} "));
}
