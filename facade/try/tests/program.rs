//! Puts a program with a dependency on the wheel, and takes it back.

use std::{env, fs, path::Path, process::Command};

const MANIFEST: &str = r#"
[package]
name = "program"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
slab = "0.4"
tokio = { version = "1", features = ["rt-multi-thread", "time"] }
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

fn command_in(folder: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    command.env_remove("CARGO_TARGET_DIR");
    // The builds take most of the time.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// Runs a command in a folder, and returns what it prints, or all its output if it fails.
fn try_run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = command_in(folder, program, arguments).output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }
}

/// Runs a command that must succeed.
#[track_caller]
fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let printed = try_run(folder, program, arguments);
    printed.unwrap_or_else(|errors| panic!("{program} {arguments:?}: {errors}"))
}

#[test]
fn a_program_goes_to_the_wheel_and_back() {
    let tool = env!("CARGO_BIN_EXE_cargo-on-wheel");
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("an author's program");
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("Cargo.toml"), MANIFEST).unwrap();
    fs::create_dir(folder.join("src")).unwrap();
    fs::write(folder.join("src/main.rs"), MAIN).unwrap();
    let pin = |package, version| {
        let arguments = ["update", "--quiet", package, "--precise", version];
        run(folder, "cargo", &arguments)
    };
    // The wheel needs a newer slab than this lock file has.
    pin("slab", "0.4.9");
    let lock = fs::read_to_string(folder.join("Cargo.lock")).unwrap();

    let printed = run(folder, tool, &["on-wheel", "cargo", "run", "--quiet"]);
    assert!(printed.starts_with("tokio_wheel::"), "{printed}");

    let compare = |runs| {
        let options = ["--alternative", "--runs", runs, "--build", "build"];
        let arguments = [&["on-wheel", "compare"][..], &options, &["--", "{}"]].concat();
        run(folder, tool, &arguments)
    };
    let printed = compare("2");
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

    // A mistake, and Ctrl-C while the command of the user runs, end the tool.
    let arguments = ["on-wheel", "compare", "--", "./load-test.sh"];
    let errors = try_run(folder, tool, &arguments).unwrap_err();
    assert!(errors.contains("no `{}`"), "{errors}");
    fs::create_dir(folder.join("src/bin")).unwrap();
    fs::write(folder.join("src/bin/other.rs"), "fn main() { error }").unwrap();
    let arguments = ["on-wheel", "compare", "--", "{}"];
    let errors = try_run(folder, tool, &arguments).unwrap_err();
    let names = "`--bin NAME`: [\"other\", \"program\"]";
    assert!(errors.contains(names), "{errors}");
    fs::remove_dir_all(folder.join("src/bin")).unwrap();
    let arguments = ["on-wheel", "compare", "--perf", "--", "{}"];
    let mut command = command_in(folder, tool, &arguments);
    // Has cargo and rustc, but no perf.
    let toolchain = Path::new(env!("CARGO")).parent().unwrap();
    command.env("CARGO", env!("CARGO")).env("PATH", toolchain);
    let errors = command.output().unwrap().stderr;
    let errors = String::from_utf8(errors).unwrap();
    assert!(errors.contains("linux-perf"), "{errors}");
    assert!(!errors.contains("Compiling"), "{errors}");
    let options = ["--build", "build --target-dir shared", "--", "{}"];
    let errors = try_run(
        folder,
        tool,
        &[&["on-wheel", "compare"], &options[..]].concat(),
    );
    let errors = errors.unwrap_err();
    assert!(errors.contains("the same file"), "{errors}");
    let arguments = ["on-wheel", "--folder", ".", "patch"];
    let errors = try_run(folder, tool, &arguments).unwrap_err();
    assert!(errors.contains("must be empty"), "{errors}");
    if cfg!(unix) {
        let arguments = [
            "on-wheel",
            "compare",
            "--build",
            "build",
            "--",
            "sh",
            "-c",
            "kill -INT $PPID",
            "{}",
        ];
        let errors = try_run(folder, tool, &arguments).unwrap_err();
        assert!(errors.contains("interrupted"), "{errors}");
        assert!(errors.contains("must end by itself: sh -c"), "{errors}");

        // The last run fails. The table has the round before.
        let fails = "echo run: 2; echo run: 1 | tee -a runs; test $(wc -l < runs) -lt 6";
        let arguments = [
            "on-wheel", "compare", "--runs", "2", "--build", "build", "--", "sh", "-c", fails, "{}",
        ];
        let output = try_run(folder, tool, &arguments).unwrap_err();
        let (_, table) = compared(&output);
        let rows = ["run tokio 1.000", "wheel 1.000"].map(String::from);
        let places = table.windows(2).filter(|pair| pair == &rows);
        assert_eq!(places.count(), 1, "{output}");
        assert!(
            output.contains("wheel, run 2 of 2: the command `sh -c"),
            "{output}"
        );
        assert!(
            output.contains("Too few runs for an interval: 1, and 6"),
            "{output}"
        );
        assert!(!output.contains("probability"), "{output}");
    }
    if cfg!(target_os = "linux") {
        check_perf(folder, tool);
    }

    let is_kept = fs::read_to_string(folder.join("Cargo.lock")).unwrap() == lock;
    assert!(is_kept, "Cargo.lock has changed");
    let printed = run(folder, "cargo", &["run", "--quiet"]);
    assert!(printed.starts_with("tokio::"), "{printed}");

    // The printed steps do the same.
    let printed = run(folder, tool, &["on-wheel", "patch"]);
    let (_, lines) = printed.split_once("[patch.crates-io]").unwrap();
    let (lines, steps) = lines.split_once("\n\n").unwrap();
    let manifest = format!("{MANIFEST}\n[patch.crates-io]{lines}\n");
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let (_, update) = steps.split_once("`cargo ").unwrap();
    let update: Vec<_> = update.split('`').next().unwrap().split(' ').collect();
    run(folder, "cargo", &update);
    let printed = run(folder, "cargo", &["run", "--quiet"]);
    assert!(printed.starts_with("tokio_wheel::"), "{printed}");

    // A tokio that is too old for the wheel. The tool builds all sides with a newer one.
    fs::write(folder.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(folder.join("Cargo.lock"), lock).unwrap();
    pin("tokio", "1.42.1");
    let lock = fs::read_to_string(folder.join("Cargo.lock")).unwrap();
    let printed = compare("1");
    let (sides, table) = compared(&printed);
    assert_eq!(sides, rounds[..2].concat(), "{printed}");
    assert!(table.contains(&"alternative 1.000".into()), "{printed}");
    let is_kept = fs::read_to_string(folder.join("Cargo.lock")).unwrap() == lock;
    assert!(is_kept, "Cargo.lock has changed");
}

/// Compares under a `perf` that has no permission, under a `perf` that fails for the wheel, and with a program that has no symbols.
fn check_perf(folder: &Path, tool: &str) {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let program = folder.join("target/debug/program");
    let sample = format!(
        "' 7 10 55e9 tokio::time::sleep (%s)\\n' '{}'",
        program.display()
    );
    let sample = sample.replace("an author's", "an author'\\''s");
    let perf = format!(
        "#!/bin/sh\ncase $* in script*) printf {sample} ;; *target-wheel*) exit 9 ;; esac\n"
    );
    let try_run = |build, runs| {
        let options = [
            "--perf", "--runs", runs, "--build", build, "--", "true", "{}",
        ];
        let mut command = command_in(
            folder,
            tool,
            &[&["on-wheel", "compare"], &options[..]].concat(),
        );
        let path = env::var_os("PATH").unwrap();
        let path = [bin.clone()].into_iter().chain(env::split_paths(&path));
        let output = command
            .env("PATH", env::join_paths(path).unwrap())
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    write_executable(&bin.join("perf"), "#!/bin/sh\nexit 255\n");
    let output = try_run("build", "6");
    assert!(output.contains("perf_event_paranoid=2"), "{output}");
    assert!(!output.contains("Finished"), "{output}");
    write_executable(&bin.join("perf"), &perf);
    let output = try_run("build", "6");
    assert!(output.contains("wheel against tokio. "), "{output}");
    assert!(output.contains("prints no line `NAME: NUMBER`"), "{output}");
    let (_, table) = compared(&output);
    assert!(table.contains(&"timers % tokio 100.0".into()), "{output}");
    assert!(
        output.contains("error: wheel, the run under perf: "),
        "{output}"
    );

    let output = try_run("build --config profile.dev.strip=true", "6");
    assert!(output.contains("is stripped"), "{output}");
    assert!(!output.contains("---"), "{output}");
}

fn write_executable(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
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
    for name in ["program", "library"] {
        fs::create_dir_all(folder.join(name).join("src")).unwrap();
        let manifest = format!(
            "[package]\nname = '{name}'\nedition = '2024'\n\n[workspace]\n\n[dependencies]\n"
        );
        fs::write(folder.join(name).join("Cargo.toml"), manifest).unwrap();
    }
    fs::write(folder.join("library/src/lib.rs"), "").unwrap();
    let manifest = fs::read_to_string(folder.join("program/Cargo.toml")).unwrap();
    let manifest = manifest
        + "tokio = { version = '1.54', features = ['time'], optional = true }\n
           [features]\ntimers = ['dep:tokio']\n";
    fs::write(folder.join("program/Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("program/src/main.rs"), OPTIONAL_MAIN).unwrap();
    // Not the newest tokio.
    let pin = ["update", "--quiet", "tokio", "--precise", "1.54.0"];
    run(&folder.join("program"), "cargo", &pin);
}

#[test]
fn a_command_of_cargo_does_what_it_does_without_the_wheel() {
    let tool = env!("CARGO_BIN_EXE_cargo-on-wheel");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_program(folder);
    let lock = fs::read_to_string(folder.join("program/Cargo.lock")).unwrap();
    // Cargo does not apply these lints to packages of the registry.
    let flags = "[build]\nrustflags = ['-Dwarnings', '-Dunsafe-code']\n";
    fs::create_dir(folder.join(".cargo")).unwrap();
    fs::write(folder.join(".cargo/config.toml"), flags).unwrap();
    // The feature and the manifest of another folder.
    let command = |before: &[&str], after: &[&str]| {
        let manifest = "--manifest-path=program/Cargo.toml";
        let options = ["run", "--quiet", "--features", "timers", manifest];
        let arguments = [&["on-wheel", "cargo"], before, &options, after].concat();
        let printed = run(folder, tool, &arguments);
        assert!(printed.starts_with("tokio_wheel::"), "{printed}");
        let is_kept = fs::read_to_string(folder.join("program/Cargo.lock")).unwrap() == lock;
        assert!(is_kept, "Cargo.lock has changed");
    };
    command(&[], &[]);
    command(&[], &["--locked"]);
    command(&["--config", "net.retry=1"], &[]);
    command(&[], &["--config", "net.retry=1"]);
    // The program has arguments without `--`.
    command(&[], &["echo", "--features", "none", "--config", "none"]);
    if cfg!(unix) {
        let run = "run -q --features timers --manifest-path program/Cargo.toml --".split(' ');
        let kill = ["sh", "-c", "kill -ABRT $PPID"];
        let words = Vec::from_iter(["on-wheel", "cargo"].into_iter().chain(run).chain(kill));
        let status = command_in(folder, tool, &words).status().unwrap();
        assert_eq!(status.code(), Some(134), "a shell shows this code");
    }
    // Requests to the registry fail.
    let config = format!("{flags}[http]\nproxy = 'localhost:1'\n[net]\nretry = 0\n");
    fs::write(folder.join(".cargo/config.toml"), config).unwrap();
    command(&[], &["--offline"]);
    command(&["--frozen"], &[]);
    if let Ok(toolchain) = env::var("RUSTUP_TOOLCHAIN") {
        command(&[&format!("+{toolchain}"), "--offline"], &[]);
    }
}

#[test]
fn cargo_lock_keeps_the_changes_of_others() {
    let tool = env!("CARGO_BIN_EXE_cargo-on-wheel");
    let folder = tempfile::tempdir().unwrap();
    make_program(folder.path());
    let folder = &folder.path().join("program");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("[features]", "[features]\ndefault = ['timers']");
    let lock = || fs::read_to_string(folder.join("Cargo.lock")).unwrap();
    let before = lock();
    let reset = || {
        fs::write(folder.join("Cargo.toml"), &manifest).unwrap();
        fs::write(folder.join("Cargo.lock"), &before).unwrap();
    };
    let add = ["cargo", "add", "--quiet", "--path", "../library"];
    let add_in_run = [&["cargo", "run", "--quiet", "--"], &add[..]].concat();
    for command in [&add[..], &add_in_run] {
        reset();
        run(folder, tool, &[&["on-wheel"], command].concat());
        let library = "[[package]]\nname = \"library\"\nversion = \"0.0.0\"\n\n";
        assert!(lock().contains(library), "{}", lock());
        let expected = before.replace(" \"tokio\",\n", " \"library\",\n \"tokio\",\n");
        assert_eq!(lock().replace(library, ""), expected);
    }

    // A cargo that does not see the wheel, which the tool reports.
    reset();
    let inside = ["on-wheel", "cargo", "run", "--", "cargo", "check"];
    let mut inside = command_in(folder, tool, &inside);
    let errors = inside.output().unwrap().stderr;
    let errors = String::from_utf8(errors).unwrap();
    assert!(errors.contains("did not use the wheel"), "{errors}");
    assert_eq!(lock(), before);
    // Git writes such files on Windows.
    fs::write(folder.join("Cargo.lock"), before.replace('\n', "\r\n")).unwrap();
    assert!(inside.status().unwrap().success());
    assert_eq!(lock(), before);

    // Two tools at once, and a program that uses the wheel already.
    reset();
    let inside = ["on-wheel", "cargo", "run", "--", tool, "on-wheel", "patch"];
    let errors = try_run(folder, tool, &inside).unwrap_err();
    assert!(errors.contains("has tokio-wheel already"), "{errors}");
    assert_eq!(lock(), before);

    // Another tool starts while this one reads the program.
    if cfg!(unix) {
        let cargo = folder.join("cargo.sh");
        let lines = "'\n[[package]]\nname = \"tokio-wheel\"\n'";
        let script =
            format!("case $* in *no-deps) ;; metadata*) printf {lines} >> Cargo.lock; esac");
        let script = format!("#!/bin/sh\n'{}' \"$@\" || exit\n{script}\n", env!("CARGO"));
        write_executable(&cargo, &script);
        let mut second = command_in(folder, tool, &["on-wheel", "cargo", "check"]);
        let errors = second.env("CARGO", cargo).output().unwrap().stderr;
        let errors = String::from_utf8(errors).unwrap();
        assert!(errors.contains("has tokio-wheel already"), "{errors}");
    }

    // A tokio that the tool does not replace.
    let library = fs::read_to_string(folder.join("../library/Cargo.toml")).unwrap();
    let library = library.replace("name = 'library'", "name = 'tokio'\nversion = '1.60.0'");
    fs::write(folder.join("../library/Cargo.toml"), library).unwrap();
    reset();
    let own = "[dependencies]\nown = { package = 'tokio', path = '../library' }\n";
    let with_own = manifest.replace("[dependencies]\n", own);
    fs::write(folder.join("Cargo.toml"), with_own).unwrap();
    let errors = try_run(folder, tool, &["on-wheel", "cargo", "check"]).unwrap_err();
    assert!(errors.contains("one tokio 1"), "{errors}");

    // What was not there goes away.
    reset();
    fs::remove_file(folder.join("Cargo.lock")).unwrap();
    run(folder, tool, &["on-wheel", "cargo", "check", "--quiet"]);
    assert!(!folder.join("Cargo.lock").exists());
}

#[test]
fn a_mistake_has_a_message_that_says_what_to_do() {
    let tool = env!("CARGO_BIN_EXE_cargo-on-wheel");
    let folder = tempfile::tempdir().unwrap();
    make_program(folder.path());
    let program = &folder.path().join("program");
    let fails = |folder: &Path, arguments: &[&str], messages: &[&str]| {
        let mut command = command_in(folder, tool, &[&["on-wheel"], arguments].concat());
        let output = command.env("RUST_BACKTRACE", "1").output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        for message in messages {
            assert!(errors.contains(message), "{arguments:?}: {errors}");
        }
        for noise in ["Compiling", "Stack backtrace"] {
            assert!(!errors.contains(noise), "{arguments:?}: {errors}");
        }
    };
    let compare = |command| ["compare", "--", command, "{}"];
    let check = ["cargo", "check"];

    fails(folder.path(), &check, &["`--program FOLDER`"]);
    fails(
        folder.path(),
        &["--program", "none", "patch"],
        &["--program none: "],
    );
    fails(
        &folder.path().join("library"),
        &compare("{}"),
        &["builds no program", "--example"],
    );
    fails(
        program,
        &["compare", "--", "./load-test.sh"],
        &["`./load-test.sh` has no `{}`"],
    );
    if cfg!(unix) {
        fs::write(program.join("load-test.sh"), "").unwrap();
        fails(
            program,
            &compare("./load-test.sh"),
            &["\"./load-test.sh\" in [\"", "chmod +x"],
        );
        fails(
            program,
            &compare("no-load-test"),
            &["\"no-load-test\" in [\""],
        );
        let as_one = ["compare", "--", "./load-test.sh {}"];
        fails(program, &as_one, &["\"./load-test.sh {}\" in [\""]);
    }

    let lock = program.join("Cargo.lock");
    let locked = fs::read_to_string(&lock).unwrap();
    let set_readonly = |is_readonly| {
        let mut permissions = fs::metadata(&lock).unwrap().permissions();
        permissions.set_readonly(is_readonly);
        fs::set_permissions(&lock, permissions).unwrap();
    };
    set_readonly(true);
    // The administrator may write it anyway.
    if fs::OpenOptions::new().append(true).open(&lock).is_err() {
        fails(program, &check, &["Cargo.lock must be writable"]);
    }
    set_readonly(false);
    fs::remove_file(&lock).unwrap();
    fails(program, &["cargo", "check", "--locked"], &["--locked"]);

    // A program that has moved, before and after cargo writes Cargo.lock.
    let manifest = fs::read_to_string(program.join("Cargo.toml")).unwrap();
    let facade = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let moved = format!("package = 'tokio-on-wheel', path = '{}'", facade.display());
    let moved = manifest.replace("version = '1.54'", &moved);
    let messages = [
        "program/Cargo.toml has tokio-on-wheel",
        "Restore its line",
        "git worktree",
    ];
    fs::write(program.join("Cargo.toml"), moved).unwrap();
    fails(program, &check, &messages);
    assert!(!lock.exists(), "the tool has made Cargo.lock");
    run(program, "cargo", &["generate-lockfile", "--quiet"]);
    fails(program, &compare("{}"), &messages);
    // Only Cargo.toml is as it was.
    fs::write(program.join("Cargo.toml"), &manifest).unwrap();
    fails(
        program,
        &check,
        &["has tokio-wheel already", "`cargo update --workspace`"],
    );
    run(program, "cargo", &["update", "--workspace", "--quiet"]);
    run(
        program,
        tool,
        &[
            "on-wheel",
            "patch",
            "--program",
            ".",
            "--folder",
            "../folder",
        ],
    );

    // A dependency that pins an old tokio.
    let pinned = manifest.replace("version = '1.54'", "version = '=1.40'");
    let pinned = pinned.replace("[features]", "[features]\ndefault = ['timers']");
    fs::write(program.join("Cargo.toml"), pinned).unwrap();
    fs::write(&lock, locked).unwrap();
    fails(program, &check, &["`cargo tree -i tokio`", "1.40.0"]);
}
