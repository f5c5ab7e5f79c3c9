//! Tests the script of the migration guide. It needs `sh` and perl.

#![cfg(unix)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the page's command that runs the script, with the script's path in this repository.
fn block() -> String {
    let repository = root().parent().unwrap();
    let page = fs::read_to_string(repository.join("docs/migration.md")).unwrap();
    let mut blocks = page.split("\n```").skip(1).step_by(2);
    let block = blocks.find(|block| block.starts_with("sh\nfind "));
    let block = block.expect("the page must contain the command")["sh\n".len()..].to_owned();
    block.replace("../tokio-wheel", repository.to_str().unwrap())
}

/// A program in its own directory. Its sources are a copy of `before/`.
struct Program(PathBuf);

impl Program {
    fn new() -> Self {
        let name = format!("tokio-wheel-migration-{}", process::id());
        let path = env::temp_dir().join(name);
        let (source, target) = (path.join("src"), path.join("target"));
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(&target).unwrap();
        for file in ["glob.rs", "uses.rs"] {
            let from = root().join("tests/migration/before").join(file);
            fs::copy(&from, source.join(file)).unwrap();
            fs::copy(&from, target.join(file)).unwrap();
        }
        fs::write(path.join("notes.txt"), "use tokio::time;\n").unwrap();
        Self(path)
    }

    fn run(&self, block: &str) {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-e", "-c", block]).current_dir(&self.0);
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn expected(folder: &str, file: &str) -> String {
    let path = root().join("tests/migration").join(folder).join(file);
    fs::read_to_string(path).unwrap()
}

/// The block changes only sources, and leaves no file. A second run changes nothing.
#[test]
fn the_block_moves_every_form() {
    let program = Program::new();
    for _ in 0..2 {
        program.run(&block());
        for file in ["glob.rs", "uses.rs"] {
            let made = program.read(&format!("src/{file}"));
            assert_eq!(made, expected("after", file), "{file}");
            let kept = program.read(&format!("target/{file}"));
            assert_eq!(kept, expected("before", file), "{file}");
        }
    }
    assert_eq!(program.read("notes.txt"), "use tokio::time;\n");
    let left = fs::read_dir(&program.0).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["notes.txt", "src", "target"]);
}
