//! Puts a program with a dependency on the wheel, and takes it back.

use std::{
    env, fs,
    io::{self, Seek},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
};

const TOOL: &str = env!("CARGO_BIN_EXE_cargo-on-wheel");

const MANIFEST: &str = r#"
[package]
name = "program"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
slab = "0.4"
tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
tokio-stream = { version = "0.1.17", features = ["time"] }
"#;

/// Prints the type that a dependency uses, and whether runtimes use tokio's alternative timer.
const MAIN: &str = "
use tokio::{runtime::{Builder, Runtime}, time};

fn has_alternative(runtime: Runtime) -> u8 {
    runtime.block_on(async {
        let mut sleep = Box::pin(time::sleep(time::Duration::from_secs(60)));
        time::timeout(time::Duration::ZERO, &mut sleep).await.unwrap_err();
        format!(\"{sleep:?}\").contains(\"Alternative\").into()
    })
}

fn main() {
    let threads = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _entered = threads.enter();
    let interval = time::interval(time::Duration::from_millis(1));
    let stream = tokio_stream::wrappers::IntervalStream::new(interval);
    println!(\"{}\", std::any::type_name_of_val(&stream.into_inner()));
    drop(_entered);
    println!(\"alternative: {}\", has_alternative(threads));
    let thread = Builder::new_current_thread().enable_all().build().unwrap();
    println!(\"one thread: {}\", has_alternative(thread));
    if std::env::args().nth(1).is_some() {
        block();
    }
}

/// Blocks one of two workers.
#[tokio::main(worker_threads = 2)]
async fn block() {
    let task = tokio::spawn(async {
        time::sleep(time::Duration::from_millis(1)).await;
        std::thread::sleep(time::Duration::from_millis(500));
    });
    task.await.unwrap();
}
";

/// Returns the sides that have run, and the lines of the table without their spaces.
fn compared(printed: &str) -> (Vec<&str>, Vec<String>) {
    let lines = printed.lines();
    let types = lines.clone().filter(|line| line.contains("::"));
    let sides = types.map(|line| line.split("::").next().unwrap());
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    (sides.collect(), words.collect())
}

/// Returns a command in a folder. The program `on-wheel` is the tool. Spaces separate the arguments, except within `'`.
fn command_in(folder: &Path, line: &str) -> Command {
    let parts = line.split('\'').enumerate();
    let mut words = parts.flat_map(|(number, part)| match number % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let program = words.next().unwrap();
    let mut command = Command::new(if program == "on-wheel" { TOOL } else { program });
    command.args((program == "on-wheel").then_some(program));
    command.args(words).current_dir(folder);
    command.env_remove("CARGO_TARGET_DIR");
    // The builds take most of the time.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// Runs a command that must succeed, and returns what it prints.
#[track_caller]
fn run(folder: &Path, line: &str) -> String {
    let output = command_in(folder, line).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command. Its output must contain these parts, and is returned, with its exit code.
#[track_caller]
fn output_of(mut command: Command, parts: &[&str]) -> (Option<i32>, String) {
    // At the end of a pipe, the test would wait for processes that outlive the command.
    let mut file = tempfile::tempfile().unwrap();
    let end = || file.try_clone().unwrap();
    let ended = command.stdout(end()).stderr(end()).status().unwrap();
    file.rewind().unwrap();
    let output = io::read_to_string(file).unwrap();
    for part in parts {
        assert!(output.contains(part), "{command:?} lacks {part}: {output}");
    }
    (ended.code(), output)
}

/// Runs a command that must fail with an output that has these parts. Returns the output.
#[track_caller]
fn fails(command: Command, parts: &[&str]) -> String {
    let (code, output) = output_of(command, parts);
    assert_ne!(code, Some(0), "{output}");
    output
}

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap()
}

#[track_caller]
fn assert_lock_is(folder: &Path, lock: &str) {
    let is_kept = read(folder, "Cargo.lock") == lock;
    assert!(is_kept, "Cargo.lock has changed");
}

#[track_caller]
fn assert_runs_on(krate: &str, folder: &Path, line: &str) {
    let printed = run(folder, line);
    assert!(printed.starts_with(&format!("{krate}::")), "{printed}");
}

#[test]
fn a_program_goes_to_the_wheel_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("an author's program");
    write(folder, "Cargo.toml", MANIFEST);
    write(folder, "src/main.rs", MAIN);
    let pin = |package| run(folder, &format!("cargo update --quiet {package}"));
    // The wheel needs a newer slab than this lock file has.
    pin("slab --precise 0.4.9");
    let lock = read(folder, "Cargo.lock");

    assert_runs_on("tokio_wheel", folder, "on-wheel cargo run --quiet");

    let compare = |runs| {
        let options = "--alternative --build build --runs";
        let line = format!("on-wheel compare {options} {runs} -- {{}}");
        run(folder, &line)
    };
    let printed = compare(2);
    let (sides, table) = compared(&printed);
    // tokio has the same types with its alternative timer.
    let (tokio, wheel) = ("tokio", "tokio_wheel");
    let rounds = [
        [tokio, tokio, wheel],
        [tokio, wheel, tokio],
        [wheel, tokio, tokio],
    ];
    assert_eq!(sides, rounds.concat(), "{printed}");
    let row = table
        .iter()
        .position(|row| row.starts_with("alternative tokio"));
    let expected = [
        "alternative tokio 0.0000 0.0000 to 0.0000",
        "alternative 1.000 1.000 to 1.000",
        "wheel 0.0000 0.0000 to 0.0000",
        "one thread tokio 0.0000 0.0000 to 0.0000",
        "alternative 0.0000 0.0000 to 0.0000",
        "wheel 0.0000 0.0000 to 0.0000",
    ];
    assert_eq!(table[row.unwrap()..][..6], expected, "{printed}");
    assert!(printed.contains("\ntime s "), "{printed}");
    assert_eq!(cfg!(unix), printed.contains("\nCPU s "), "{printed}");

    assert!(!printed.contains("blocked"), "{printed}");

    // One task blocks a worker in each run, and the watch sees it.
    let line = "on-wheel compare --build build --runs 1 -- {} block";
    let printed = run(folder, line);
    let blocked = "On the wheel, a task blocked a worker ";
    assert!(printed.contains(blocked), "{printed}");

    // A mistake, and Ctrl-C while the command of the user runs, end the tool.
    let compare_fails = |line: &str, parts: &[&str]| {
        let line = format!("on-wheel compare --build {line} {{}}");
        fails(command_in(folder, &line), parts)
    };
    compare_fails("'build --target-dir shared' --", &["the same file"]);
    if cfg!(unix) {
        let parts = ["interrupted", "must end by itself: sh -c"];
        compare_fails("build -- sh -c 'kill -INT $PPID'", &parts);

        // The last run fails. The table has the round before.
        let script = "echo run: 2; echo run: 1 | tee -a runs; test $(wc -l < runs) -lt 6";
        let parts = [
            "wheel, run 2 of 2: the command `sh -c",
            "Too few runs for an interval: 1, and 6",
        ];
        let output = compare_fails(&format!("build --runs 2 -- sh -c '{script}'"), &parts);
        let (_, table) = compared(&output);
        let rows = ["run tokio 1.000", "wheel 1.000"].map(String::from);
        let places = table.windows(2).filter(|pair| pair == &rows);
        assert_eq!(places.count(), 1, "{output}");
        assert!(!output.contains("probability"), "{output}");
    }
    if cfg!(target_os = "linux") {
        check_perf(folder);
    }

    assert_lock_is(folder, &lock);
    assert_runs_on("tokio", folder, "cargo run --quiet");

    // The printed steps do the same.
    let printed = run(folder, "on-wheel patch");
    let (_, lines) = printed.split_once("[patch.crates-io]").unwrap();
    let (lines, steps) = lines.split_once("\n\n").unwrap();
    let manifest = format!("{MANIFEST}\n[patch.crates-io]{lines}\n");
    write(folder, "Cargo.toml", &manifest);
    let step = steps.split('`').find(|step| step.starts_with("cargo "));
    run(folder, step.unwrap());
    assert_runs_on("tokio_wheel", folder, "cargo run --quiet");

    // A tokio that is too old for the wheel. The tool builds all sides with a newer one.
    write(folder, "Cargo.toml", MANIFEST);
    write(folder, "Cargo.lock", &lock);
    pin("tokio --precise 1.42.1");
    let lock = read(folder, "Cargo.lock");
    let printed = compare(1);
    let (sides, table) = compared(&printed);
    assert_eq!(sides, rounds[..2].concat(), "{printed}");
    assert!(table.contains(&"alternative 1.000".into()), "{printed}");
    assert_lock_is(folder, &lock);
}

/// Compares under a `perf` that has no permission, under a `perf` that fails for the wheel, and with a program that has no symbols.
fn check_perf(folder: &Path) {
    let bin = folder.join("bin");
    let program = folder.join("target/debug/program");
    let sample = format!(
        "' 7 10 55e9 tokio::time::sleep (%s)\\n' '{}'",
        program.display()
    );
    let sample = sample.replace("an author's", "an author'\\''s");
    let perf = format!(
        "#!/bin/sh\ncase $* in script*) printf {sample} ;; *target-wheel*) exit 9 ;; esac\n"
    );
    let perf_fails = |build, parts: &[&str]| {
        let line = format!("on-wheel compare --perf --runs 6 --build '{build}' -- true {{}}");
        let mut command = command_in(folder, &line);
        let path = env::var_os("PATH").unwrap();
        let path = [bin.clone()].into_iter().chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(path).unwrap());
        fails(command, parts)
    };
    write_executable(&bin, "perf", "#!/bin/sh\nexit 255\n");
    let output = perf_fails("build", &["perf_event_paranoid=2"]);
    assert!(!output.contains("Finished"), "{output}");
    write_executable(&bin, "perf", &perf);
    let parts = [
        "wheel against tokio. ",
        "prints no line `NAME: NUMBER`",
        "error: wheel, the run under perf: ",
    ];
    let output = perf_fails("build", &parts);
    let (_, table) = compared(&output);
    assert!(table.contains(&"timers % tokio 100.0".into()), "{output}");

    let output = perf_fails("build --config profile.dev.strip=true", &["is stripped"]);
    assert!(!output.contains("---"), "{output}");
}

fn write_executable(folder: &Path, file: &str, content: &str) {
    write(folder, file, content);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Prints the type of a sleep, and runs its arguments as a command.
const OPTIONAL_MAIN: &str = "
fn main() {
    println!(\"{}\", std::any::type_name::<tokio::time::Sleep>());
    let mut words = std::env::args().skip(1);
    if let Some(program) = words.next() {
        let status = std::process::Command::new(program).args(words).status();
        assert!(status.unwrap().success());
    }
}
";

/// Makes a program and a library in a folder. Only the program's feature `timers` needs tokio.
fn make_program(folder: &Path) {
    let manifest = |name| {
        format!("[package]\nname = '{name}'\nedition = '2024'\n\n[workspace]\n\n[dependencies]\n")
    };
    write(folder, "library/Cargo.toml", &manifest("library"));
    write(folder, "library/src/lib.rs", "");
    let manifest = manifest("program")
        + "tokio = { version = '1.54', features = ['time'], optional = true }\n
           [features]\ntimers = ['dep:tokio']\n";
    write(folder, "program/Cargo.toml", &manifest);
    write(folder, "program/src/main.rs", OPTIONAL_MAIN);
    // Not the newest tokio.
    let pin = "cargo update --quiet tokio --precise 1.54.0";
    run(&folder.join("program"), pin);
}

#[test]
fn a_command_of_cargo_does_what_it_does_without_the_wheel() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_program(folder);
    let lock = read(folder, "program/Cargo.lock");
    // Cargo does not apply these lints to packages of the registry.
    let flags = "[build]\nrustflags = ['-Dwarnings', '-Dunsafe-code']\n";
    write(folder, ".cargo/config.toml", flags);
    // The feature and the manifest of another folder.
    let options = "--quiet --features timers --manifest-path=program/Cargo.toml";
    let command = |before: &str, after: &str| {
        let line = format!("on-wheel cargo {before} run {options} {after}");
        assert_runs_on("tokio_wheel", folder, &line);
        assert_lock_is(&folder.join("program"), &lock);
    };
    command("", "");
    command("", "--locked");
    command("--config net.retry=1", "");
    command("", "--config net.retry=1");
    // The program has arguments without `--`.
    command("", "echo --features none --config none");
    if cfg!(unix) {
        let line = format!("on-wheel cargo run {options} -- sh -c 'kill -ABRT $PPID'");
        let status = command_in(folder, &line).status().unwrap();
        assert_eq!(status.code(), Some(134), "a shell shows this code");
    }
    // Requests to the registry fail.
    let config = format!("{flags}[http]\nproxy = 'localhost:1'\n[net]\nretry = 0\n");
    write(folder, ".cargo/config.toml", &config);
    command("", "--offline");
    command("--frozen", "");
    if let Ok(toolchain) = env::var("RUSTUP_TOOLCHAIN") {
        command(&format!("+{toolchain} --offline"), "");
    }
}

#[test]
fn cargo_lock_keeps_the_changes_of_others() {
    let folder = tempfile::tempdir().unwrap();
    make_program(folder.path());
    let folder = &folder.path().join("program");
    let manifest = read(folder, "Cargo.toml");
    let manifest = manifest.replace("[features]", "[features]\ndefault = ['timers']");
    let before = read(folder, "Cargo.lock");
    let reset = || {
        write(folder, "Cargo.toml", &manifest);
        write(folder, "Cargo.lock", &before);
    };
    let add = "cargo add --quiet --path ../library";
    for command in [add.to_owned(), format!("cargo run --quiet -- {add}")] {
        reset();
        run(folder, &format!("on-wheel {command}"));
        let library = "[[package]]\nname = \"library\"\nversion = \"0.0.0\"\n\n";
        let lock = read(folder, "Cargo.lock");
        assert!(lock.contains(library), "{lock}");
        let expected = before.replace(" \"tokio\",\n", " \"library\",\n \"tokio\",\n");
        assert_eq!(lock.replace(library, ""), expected);
    }

    // A cargo that does not see the wheel, which the tool reports.
    reset();
    let inside = || command_in(folder, "on-wheel cargo run -- cargo check");
    output_of(inside(), &["did not use the wheel"]);
    assert_lock_is(folder, &before);
    // Git writes such files on Windows.
    write(folder, "Cargo.lock", &before.replace('\n', "\r\n"));
    assert!(inside().status().unwrap().success());
    assert_lock_is(folder, &before);

    // Two tools at once, and a program that uses the wheel already.
    reset();
    let inside = format!("on-wheel cargo run -- '{TOOL}' on-wheel patch");
    fails(command_in(folder, &inside), &["has tokio-wheel already"]);
    assert_lock_is(folder, &before);

    // Another tool starts while this one reads the program.
    if cfg!(unix) {
        let lines = "'\n[[package]]\nname = \"tokio-wheel\"\n'";
        let script =
            format!("case $* in *no-deps) ;; metadata*) printf {lines} >> Cargo.lock; esac");
        let script = format!("#!/bin/sh\n'{}' \"$@\" || exit\n{script}\n", env!("CARGO"));
        write_executable(folder, "cargo.sh", &script);
        let mut second = command_in(folder, "on-wheel cargo check");
        second.env("CARGO", folder.join("cargo.sh"));
        output_of(second, &["has tokio-wheel already"]);
    }

    // A tokio that the tool does not replace.
    let library = read(folder, "../library/Cargo.toml");
    let library = library.replace("name = 'library'", "name = 'tokio'\nversion = '1.60.0'");
    write(folder, "../library/Cargo.toml", &library);
    reset();
    let own = "[dependencies]\nown = { package = 'tokio', path = '../library' }\n";
    let with_own = manifest.replace("[dependencies]\n", own);
    write(folder, "Cargo.toml", &with_own);
    fails(command_in(folder, "on-wheel cargo check"), &["one tokio 1"]);

    // What was not there goes away.
    reset();
    fs::remove_file(folder.join("Cargo.lock")).unwrap();
    run(folder, "on-wheel cargo check --quiet");
    assert!(!folder.join("Cargo.lock").exists());
}

/// A server that ends by itself after a minute.
const SERVER: &str = "
use std::{net::TcpListener, thread, time::Duration};

fn main() {
    println!(\"{}\", std::any::type_name::<tokio::time::Sleep>());
    let listener = TcpListener::bind(\"127.0.0.1:8080\").unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    thread::sleep(Duration::from_secs(60));
}
";

#[cfg(unix)]
#[test]
fn the_load_test_of_the_readme_measures_its_own_server() {
    use std::os::unix::process::CommandExt;

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_program(folder);
    let folder = &folder.join("program");
    let any = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = any.local_addr().unwrap().port();
    drop(any);
    let port_is = |text: &str| text.replace("8080", &port.to_string());
    write(folder, "src/main.rs", &port_is(SERVER));
    let manifest = read(folder, "Cargo.toml");
    let manifest = manifest.replace("[features]", "[features]\ndefault = ['timers']");
    write(folder, "Cargo.toml", &manifest);

    // The server answers no requests, so `curl` only connects, and `oha` is what the test says.
    let (_, script) = include_str!("../README.md")
        .split_once("#!/bin/sh\n")
        .unwrap();
    let (script, _) = script.split_once("END\n").unwrap();
    write_executable(
        folder,
        "load-test.sh",
        &port_is(&format!("#!/bin/sh\n{script}")),
    );
    let connect = port_is("#!/bin/bash\n: </dev/tcp/127.0.0.1/8080\n");
    write_executable(&folder.join("bin"), "curl", &connect);
    let command = |load_test: &str, oha: &str| {
        write_executable(&folder.join("bin"), "oha", &format!("#!/bin/sh\n{oha}\n"));
        let line = format!("on-wheel compare --runs 1 --build build -- {load_test} {{}}");
        let mut command = command_in(folder, &line);
        let path = env::var_os("PATH").unwrap();
        let path = [folder.join("bin")]
            .into_iter()
            .chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(path).unwrap());
        // Ctrl-C reaches all processes of a terminal, and here those of the tool.
        command.process_group(0);
        command
    };
    let is_free = || TcpStream::connect(("127.0.0.1", port)).is_err();

    let (code, output) = output_of(command("./load-test.sh", "true"), &["wheel, run 1 of 1"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(is_free());
    for oha in ["exit 1", "kill -INT 0; sleep 60"] {
        let parts = ["the command `./load-test.sh"];
        fails(command("./load-test.sh", oha), &parts);
        assert!(is_free(), "the server lives on after: {oha}");
    }

    // Another program has the port.
    let other = TcpListener::bind(("127.0.0.1", port)).unwrap();
    fails(
        command("./load-test.sh", "true"),
        &["the command `./load-test.sh"],
    );
    drop(other);

    // A load test that leaves its server behind.
    let script = port_is("#!/bin/sh\n\"$1\" & until curl localhost:8080; do sleep 0.1; done\n");
    write_executable(folder, "leave.sh", &script);
    let program = fs::canonicalize(folder)
        .unwrap()
        .join("target/debug/program");
    let program = program.to_str().unwrap();
    let parts = ["has left a process", program, "and wait for them"];
    let output = fails(command("./leave.sh", "true"), &parts);
    assert!(!is_free());
    // The next build replaces the file of the process.
    fs::remove_file(program).unwrap();
    let parts = ["runs already", program, "end it with `kill "];
    let again = fails(command("./load-test.sh", "true"), &parts);
    assert!(!again.contains("AddrInUse"), "{again}");
    let (_, id) = output.split_once("`kill ").unwrap();
    run(folder, &format!("kill {}", id.split_once('`').unwrap().0));
}

#[test]
fn a_mistake_has_a_message_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_program(folder);
    let program = &folder.join("program");
    let command_fails = |mut command: Command, parts: &[&str]| {
        command.env("RUST_BACKTRACE", "1");
        let (code, output) = output_of(command, parts);
        assert_eq!(code, Some(1), "{output}");
        for noise in ["Compiling", "Stack backtrace"] {
            assert!(!output.contains(noise), "{output}");
        }
    };
    let fails = |folder: &Path, line: &str, parts: &[&str]| {
        command_fails(command_in(folder, &format!("on-wheel {line}")), parts);
    };

    fails(folder, "cargo check", &["`--program FOLDER`"]);
    fails(folder, "--program none patch", &["--program none: "]);
    let parts = ["builds no program", "--example"];
    fails(&folder.join("library"), "compare -- {} {}", &parts);
    let parts = ["does not use tokio", "`--features NAME`"];
    fails(&folder.join("library"), "cargo check", &parts);
    fails(program, "compare -- {}", &parts);
    let parts = ["`./load-test.sh` has no `{}`"];
    fails(program, "compare -- ./load-test.sh", &parts);
    fails(program, "--folder . patch", &["must be empty"]);
    write(program, "src/bin/other.rs", "fn main() { error }");
    let parts = ["`--bin NAME`: [\"other\", \"program\"]"];
    fails(program, "compare -- {}", &parts);
    fs::remove_dir_all(program.join("src/bin")).unwrap();
    let mut command = command_in(program, "on-wheel compare --perf -- {}");
    // Has cargo and rustc, but no perf.
    let toolchain = Path::new(env!("CARGO")).parent().unwrap();
    command.env("CARGO", env!("CARGO")).env("PATH", toolchain);
    command_fails(command, &["linux-perf"]);
    if cfg!(unix) {
        write(program, "load-test.sh", "");
        let parts = ["\"./load-test.sh\" in [\"", "chmod +x"];
        fails(program, "compare -- ./load-test.sh {}", &parts);
        let parts = ["\"no-load-test\" in [\""];
        fails(program, "compare -- no-load-test {}", &parts);
        let parts = ["\"./load-test.sh {}\" in [\""];
        fails(program, "compare -- './load-test.sh {}'", &parts);
        write_executable(program, "load-test.sh", "true\n");
        let line = "on-wheel compare --build 'build --features timers' -- ./load-test.sh {}";
        output_of(
            command_in(program, line),
            &["does not start", "such as `#!/bin/sh`"],
        );
    }

    let lock = program.join("Cargo.lock");
    let locked = read(program, "Cargo.lock");
    let set_readonly = |is_readonly| {
        let mut permissions = fs::metadata(&lock).unwrap().permissions();
        permissions.set_readonly(is_readonly);
        fs::set_permissions(&lock, permissions).unwrap();
    };
    set_readonly(true);
    // The administrator may write it anyway.
    if fs::OpenOptions::new().append(true).open(&lock).is_err() {
        fails(program, "cargo check", &["Cargo.lock must be writable"]);
    }
    set_readonly(false);
    fs::remove_file(&lock).unwrap();
    fails(program, "cargo check --locked", &["--locked"]);

    // A program that has moved, before and after cargo writes Cargo.lock.
    let manifest = read(program, "Cargo.toml");
    let facade = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let moved = format!("package = 'tokio-on-wheel', path = '{}'", facade.display());
    let moved = manifest.replace("version = '1.54'", &moved);
    let parts = [
        "program/Cargo.toml has tokio-on-wheel",
        "Restore its line",
        "git worktree",
    ];
    write(program, "Cargo.toml", &moved);
    fails(program, "cargo check", &parts);
    assert!(!lock.exists(), "the tool has made Cargo.lock");
    run(program, "cargo generate-lockfile --quiet");
    fails(program, "compare -- {} {}", &parts);
    // Only Cargo.toml is as it was.
    write(program, "Cargo.toml", &manifest);
    let parts = ["has tokio-wheel already", "`cargo update --workspace`"];
    fails(program, "cargo check", &parts);
    run(program, "cargo update --workspace --quiet");
    let patch = "on-wheel patch --program . --folder ../folder";
    run(program, patch);

    // A dependency that pins an old tokio.
    let pinned = manifest.replace("version = '1.54'", "version = '=1.40'");
    let pinned = pinned.replace("[features]", "[features]\ndefault = ['timers']");
    write(program, "Cargo.toml", &pinned);
    write(program, "Cargo.lock", &locked);
    let parts = ["`cargo tree -i tokio`", "1.40.0"];
    fails(program, "cargo check", &parts);
}
