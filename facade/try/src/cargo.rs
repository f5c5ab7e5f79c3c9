//! Calls cargo as the command of the user does: with its toolchain, in its workspace, and offline if it is.

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};
use serde_json::Value;
use toml_edit::{ArrayOfTables, DocumentMut};

pub(crate) struct Cargo {
    /// A toolchain of rustup, such as `+nightly`.
    toolchain: Option<String>,
    /// The command without its toolchain.
    words: Vec<String>,
    /// How many words stand before the last option `--config`.
    before_config: usize,
    /// Options of all calls.
    options: Vec<String>,
    /// Options that say what the command builds, and whether Cargo.lock must suffice.
    selection: Vec<String>,
    /// The manifest of the workspace.
    pub(crate) manifest: PathBuf,
}

impl Cargo {
    /// Reads the words of a command after `cargo`.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let has_toolchain = words.first().is_some_and(|word| word.starts_with('+'));
        let toolchain = has_toolchain.then(|| words.remove(0));
        let (mut options, mut selection, mut manifest) = (Vec::new(), Vec::new(), Vec::new());
        let own = &words[..own(&words)];
        let is_config = |word: &String| word.split('=').next() == Some("--config");
        let before_config = own.iter().rposition(is_config).unwrap_or(0);
        let mut rest = own.iter();
        while let Some(word) = rest.next() {
            let list = match word.split('=').next().unwrap_or_default() {
                "--config" | "--offline" => &mut options,
                "--manifest-path" => &mut manifest,
                "--features" | "--all-features" | "--no-default-features" => &mut selection,
                "--frozen" | "--locked" | "--target" => &mut selection,
                name if name.starts_with("-F") => &mut selection,
                name if name.starts_with("-Z") => &mut options,
                _ => continue,
            };
            match word.strip_prefix("--target") {
                Some(value) => list.push(format!("--filter-platform{value}")),
                None => list.push(word.clone()),
            }
            match &word[..] {
                "--config" | "--features" | "--manifest-path" | "--target" | "-F" | "-Z" => {
                    list.extend(rest.next().cloned());
                }
                "--frozen" => options.push("--offline".into()),
                _ => {}
            }
        }
        selection.extend(manifest.iter().cloned());
        let mut cargo = Self {
            toolchain,
            words,
            before_config,
            options,
            selection,
            manifest: PathBuf::new(),
        };
        let mut locate = cargo.command();
        locate.args(["locate-project", "--workspace", "--message-format", "plain"]);
        let located = output(locate.args(manifest));
        let none =
            "cargo cannot read a program here: see above. `--program FOLDER` names another folder";
        cargo.manifest = located.context(none)?.trim_end().into();
        Ok(cargo)
    }

    /// Returns a call of the cargo that called this process.
    fn command(&self) -> Command {
        // Only the `cargo` of rustup knows toolchains.
        let called = env::var_os("CARGO").filter(|_| self.toolchain.is_none());
        let mut cargo = Command::new(called.unwrap_or_else(|| "cargo".into()));
        cargo.args(&self.toolchain);
        cargo
    }

    pub(crate) fn metadata(&self, more: &[&str]) -> Result<Metadata> {
        Ok(MetadataCommand::parse(self.metadata_text(more)?)?)
    }

    /// Returns where the program's own builds keep what they compile. Cargo tells it since version 1.91.
    pub(crate) fn build_directory(&self) -> Result<Option<PathBuf>> {
        let metadata: Value = serde_json::from_str(&self.metadata_text(&["--no-deps"])?)?;
        Ok(metadata["build_directory"].as_str().map(PathBuf::from))
    }

    fn metadata_text(&self, more: &[&str]) -> Result<String> {
        let version = output(self.command().arg("-vV"))?;
        let mut host = version
            .lines()
            .filter_map(|line| line.strip_prefix("host: "));
        let host = host.next().context("cargo does not name its host")?;
        let mut metadata = self.command();
        metadata.args(["metadata", "--format-version", "1"]);
        // Offline, crates that only other platforms use may be missing.
        metadata.args(["--filter-platform", host]);
        metadata.args(more);
        metadata.args(&self.options).args(&self.selection);
        output(&mut metadata)
    }

    /// Returns the command of the user with one more option `--config`, which cargo would ignore before a subcommand that
    /// has such options after it.
    pub(crate) fn user_command(&self, config: &[String]) -> Command {
        let mut cargo = self.command();
        let (before, after) = self.words.split_at(self.before_config);
        cargo.args(before).args(config).args(after);
        cargo
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.manifest.with_file_name("Cargo.lock")
    }

    /// Returns the packages of Cargo.lock.
    pub(crate) fn locked(&self) -> Result<ArrayOfTables> {
        let mut lock: DocumentMut = fs::read_to_string(self.lock())?.parse()?;
        let packages = lock.remove("package");
        let packages = packages.and_then(|packages| packages.into_array_of_tables().ok());
        packages.context("Cargo.lock has no packages")
    }

    /// Selects versions of packages in Cargo.lock.
    pub(crate) fn update(&self, config: &[String], packages: &[String]) -> Result<()> {
        let mut update = self.command();
        update.args(config).args(&self.options);
        update.args(["update", "--quiet", "--manifest-path"]);
        output(update.arg(&self.manifest).args(packages)).map(drop)
    }
}

/// Returns how many words of a command are cargo's own. The arguments of a program follow `--`, or `run` and its options.
fn own(words: &[String]) -> usize {
    let flags = "-q -r -v --quiet --release --verbose --frozen --locked --offline --all-features --no-default-features";
    let run = words.iter().position(|word| word == "run" || word == "r");
    let run = run.unwrap_or(words.len());
    let is_argument = |&place: &usize| {
        let [before, word] = [&words[place - 1], &words[place]];
        let is_flag = flags.split(' ').any(|flag| flag == before) || before.contains('=');
        word == "--"
            || place > run && !word.starts_with('-') && (is_flag || !before.starts_with('-'))
    };
    (1..words.len()).find(is_argument).unwrap_or(words.len())
}

/// Runs a command, and returns what it prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}
