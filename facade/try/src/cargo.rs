//! Calls cargo as the command of the user does: with its toolchain, in its workspace, and offline if it is.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

pub(crate) struct Cargo {
    /// A toolchain of rustup, such as `+nightly`.
    toolchain: Option<String>,
    /// The command without its toolchain.
    pub(crate) words: Vec<String>,
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
        let mut rest = words.iter().take_while(|word| *word != "--");
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
            options,
            selection,
            manifest: PathBuf::new(),
        };
        let mut locate = cargo.command();
        locate.args(["locate-project", "--workspace", "--message-format", "plain"]);
        cargo.manifest = output(locate.args(manifest))?.trim_end().into();
        Ok(cargo)
    }

    /// Returns a call of the cargo that called this process.
    pub(crate) fn command(&self) -> Command {
        // Only the `cargo` of rustup knows toolchains.
        let called = env::var_os("CARGO").filter(|_| self.toolchain.is_none());
        let mut cargo = Command::new(called.unwrap_or_else(|| "cargo".into()));
        cargo.args(&self.toolchain);
        cargo
    }

    pub(crate) fn metadata(&self) -> Result<Metadata> {
        let version = output(self.command().arg("-vV"))?;
        let mut host = version
            .lines()
            .filter_map(|line| line.strip_prefix("host: "));
        let host = host.next().context("cargo does not name its host")?;
        let mut metadata = self.command();
        metadata.args(["metadata", "--format-version", "1"]);
        // Offline, crates that only other platforms use may be missing.
        metadata.args(["--filter-platform", host]);
        metadata.args(&self.options).args(&self.selection);
        Ok(MetadataCommand::parse(output(&mut metadata)?)?)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.manifest.with_file_name("Cargo.lock")
    }

    /// Selects versions of packages in Cargo.lock, with a command from [`command`](Self::command).
    pub(crate) fn update(&self, mut command: Command, packages: &[String]) -> Result<()> {
        command.args(["update", "--quiet", "--manifest-path"]);
        command.arg(&self.manifest).args(&self.options);
        output(command.args(packages)).map(drop)
    }
}

/// Runs a command, and returns what it prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(String::from_utf8(output.stdout)?)
}
