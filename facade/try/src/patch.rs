//! The folder with the packages that replace tokio: `tokio` is tokio-on-wheel under this name. It uses `tokio-wheel`,
//! which uses `bounded-wheel`, and `tokio-real`, which is tokio itself. `tokio-alternative` is tokio with its alternative timer.

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Metadata, Package, Source, semver::VersionReq};
use include_dir::{Dir, File, include_dir};
use toml_edit::{Array, DocumentMut, Item, TableLike, Value, value};

use crate::{blocks, cargo::Cargo};

static FACADE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../src");
static WHEEL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../src");
static BOUNDED_WHEEL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../wheel/src");

/// The path of each file below `src`, and its content.
pub(crate) type Files = Vec<(PathBuf, Vec<u8>)>;

/// Whether the user has pressed Ctrl-C while this process went on.
pub(crate) static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Which tokio a program uses.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    Tokio,
    /// tokio with its alternative timer.
    Alternative,
    Wheel,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Alternative => "alternative",
            Self::Wheel => "wheel",
        }
    }
}

pub(crate) struct Patch {
    pub(crate) folder: PathBuf,
    /// Where the program's own builds keep what they compile.
    build_directory: Option<PathBuf>,
    cargo: Cargo,
    /// The packages that may need another version, as arguments of `cargo update`.
    unlocked: Vec<String>,
    /// The program's tokio if the wheel needs a newer one, as arguments of `cargo update`.
    outdated: Vec<String>,
}

impl Patch {
    /// Makes the folder for the version of tokio that the workspace uses.
    pub(crate) fn make(
        cargo: Cargo,
        mut metadata: Metadata,
        folder: Option<PathBuf>,
        alternative: bool,
    ) -> Result<Self> {
        let mut facade: DocumentMut = include_str!("../../Cargo.toml").parse()?;
        let mut wheel: DocumentMut = include_str!("../../../Cargo.toml").parse()?;
        let bounded_wheel: DocumentMut = include_str!("../../../wheel/Cargo.toml").parse()?;
        let needed = wheel["dependencies"]["tokio"]["version"].as_str();
        let needed = VersionReq::parse(needed.context("tokio-wheel names no tokio")?)?;

        let before = tokio(&metadata)?.version.clone();
        let mut outdated = Vec::new();
        if !needed.matches(&before) {
            outdated = vec!["--recursive".into(), format!("tokio@{before}")];
            let update = || cargo.update(&[], &outdated);
            metadata = restoring(&cargo, update, || cargo.metadata(&[]))?;
            let after = &tokio(&metadata)?.version;
            ensure!(
                needed.matches(after),
                "tokio must be {needed}, but the program's dependencies or its `rust-version` allow only {after}. \
                 `cargo tree -i tokio` shows the packages that use tokio, and one of them may pin it"
            );
            eprintln!("The wheel needs tokio {needed}: uses {after} instead of {before}.");
        }
        let tokio = tokio(&metadata)?;
        let version = tokio.version.to_string();
        let original = fs::read_to_string(&tokio.manifest_path)?;
        let mut real: DocumentMut = original.parse()?;

        real["package"]["name"] = value("tokio-real");
        on_real_tokio(&mut wheel)?;
        on_real_tokio(&mut facade)?;
        facade["package"]["name"] = value("tokio");
        facade["package"]["version"] = value(&version);
        facade["dependencies"]["tokio-wheel"]["path"] = value("../tokio-wheel");
        wheel["dependencies"]["bounded-wheel"]["path"] = value("../bounded-wheel");
        // Dependencies may use features that tokio does not document, such as `bytes`.
        let features = table(&mut facade["features"])?;
        for feature in tokio.features.keys() {
            let of_tokio = Array::from_iter([format!("tokio/{feature}")]);
            features.entry(feature).or_insert(value(of_tokio));
        }

        let unlocked = cargo.locked()?.into_iter().filter_map(|package| {
            let name = package["name"].as_str()?;
            let of_wheel = wheel["dependencies"].get(name);
            let dependency = of_wheel.or_else(|| bounded_wheel["dependencies"].get(name))?;
            let is_needed = name != "tokio" && dependency.get("optional").is_none();
            is_needed.then_some(())?;
            Some(format!("{name}@{}", package["version"].as_str()?))
        });
        let unlocked = unlocked.chain(outdated.clone()).collect();

        let folder = folder.unwrap_or_else(|| metadata.target_directory.join("on-wheel").into());
        let mut files = Files::new();
        let is_full = fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
        ensure!(
            !is_full || folder.join("tokio-real").exists(),
            "the folder {folder:?} must be empty, or made by this tool"
        );
        let sources = tokio.manifest_path.with_file_name("src");
        read(sources.as_std_path(), Path::new(""), &mut files)?;
        write(&folder.join("tokio-real"), real, files.clone())?;
        if alternative {
            // tokio's manifest names more dependencies for its unstable features.
            let manifest = original.replace(UNSTABLE, ALWAYS).parse()?;
            use_alternative_timer(&mut files)?;
            write(&folder.join("tokio-alternative"), manifest, files)?;
        }
        let sources = embedded(&BOUNDED_WHEEL);
        write(&folder.join("bounded-wheel"), bounded_wheel, sources)?;
        let mut sources = embedded(&WHEEL);
        blocks::report(&mut sources)?;
        write(&folder.join("tokio-wheel"), wheel, sources)?;
        write(&folder.join("tokio"), facade, embedded(&FACADE))?;
        Ok(Self {
            folder: std::path::absolute(folder)?,
            build_directory: cargo.build_directory()?,
            cargo,
            unlocked,
            outdated,
        })
    }

    /// Calls a function with the command of the user, which uses a side's tokio. Restores Cargo.lock afterwards.
    pub(crate) fn on<T>(&self, side: Side, call: impl FnOnce(Command) -> Result<T>) -> Result<T> {
        // Cargo compiles crates that do not depend on tokio once for all sides, since version 1.91. The executables of
        // each side lie in a target folder of its own.
        let mut command = self.cargo.user_command(&self.config(side));
        if side != Side::Tokio {
            let target = format!("target-{}", side.name());
            command.env("CARGO_TARGET_DIR", self.folder.join(target));
            let directory = self.build_directory.iter();
            command.envs(directory.map(|path| ("CARGO_BUILD_BUILD_DIR", path)));
        }
        if side == Side::Tokio && self.outdated.is_empty() {
            return call(command);
        }
        // For a user who kills the tool.
        fs::write(self.folder.join("Cargo.lock"), fs::read(self.cargo.lock())?)?;
        restoring(&self.cargo, || self.update(side), || call(command))
    }

    /// Returns the path of a side's package, quoted for TOML.
    fn path(&self, side: Side) -> Value {
        let name = match side {
            Side::Alternative => "tokio-alternative",
            Side::Tokio | Side::Wheel => "tokio",
        };
        self.folder.join(name).display().to_string().into()
    }

    /// Returns the option of cargo that uses a side's package.
    fn config(&self, side: Side) -> Vec<String> {
        match side {
            Side::Tokio => Vec::new(),
            _ => vec![
                "--config".into(),
                format!("patch.crates-io.tokio.path={}", self.path(side)),
            ],
        }
    }

    /// Brings a side's tokio into Cargo.lock. Cargo would otherwise keep the versions that Cargo.lock has, and
    /// ignore the package if it needs newer ones.
    fn update(&self, side: Side) -> Result<()> {
        let nothing_else = ["--workspace".to_string()];
        let packages = match side {
            Side::Wheel => &self.unlocked[..],
            _ if self.outdated.is_empty() => &nothing_else,
            _ => &self.outdated,
        };
        self.cargo.update(&self.config(side), packages)?;
        let is_used = self.cargo.locked()?.iter().any(|package| {
            package["name"].as_str() == Some("tokio") && !package.contains_key("source")
        });
        ensure!(
            is_used || side == Side::Tokio,
            "cargo cannot select versions for the {}: {packages:?}",
            side.name()
        );
        Ok(())
    }
}

/// The condition of tokio's unstable features, and a condition that always holds. In a copy of tokio with this
/// condition, tokio alone has the features, and cargo need not compile all other crates with `--cfg`.
const UNSTABLE: &str = "tokio_unstable";
const ALWAYS: &str = "all()";

/// Changes tokio's sources: `enable_time` does what `enable_alt_timer` does, which current-thread runtimes ignore.
fn use_alternative_timer(files: &mut Files) -> Result<()> {
    let enable = "self.enable_time = true;";
    let enable_both = "self.enable_time = true;
            #[cfg(feature = \"rt-multi-thread\")]
            { self.timer_flavor = TimerFlavor::Alternative; }";
    let mut places = 0;
    for (_, content) in files {
        let source = std::str::from_utf8(content)?;
        places += source.matches(enable).count();
        let source = source.replace(UNSTABLE, ALWAYS);
        *content = source.replace(enable, enable_both).into();
    }
    ensure!(
        places == 1,
        "this version of tokio has {places} lines `{enable}`, so the tool cannot turn on the alternative timer"
    );
    Ok(())
}

/// Returns the program's tokio.
pub(crate) fn tokio(metadata: &Metadata) -> Result<&Package> {
    let mut packages: Vec<_> = metadata.packages.iter().collect();
    packages.retain(|package| package.name == "tokio");
    let ids: Vec<_> = packages.iter().map(|package| &package.id.repr).collect();
    packages.retain(|package| package.version.major == 1);
    match packages[..] {
        [tokio] if tokio.source.as_ref().is_some_and(Source::is_crates_io) => Ok(tokio),
        _ if ids.is_empty() => bail!(
            "the program does not use tokio, so there is no timer to replace. If only a feature of the program uses it, \
             add `--features NAME` to the command that builds"
        ),
        _ => bail!("the program must use one tokio 1, from crates.io, and uses {ids:?}"),
    }
}

/// Changes Cargo.lock with one function, calls another function, and takes back the change of Cargo.lock.
fn restoring<T>(
    cargo: &Cargo,
    change: impl FnOnce() -> Result<()>,
    call: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let read = || fs::read_to_string(cargo.lock());
    let before = read()?;
    check(&before)?;
    let changed = change();
    let ours = read()?;
    let result = changed.and_then(|()| {
        ensure!(!IS_INTERRUPTED.load(Relaxed), "interrupted");
        call()
    });
    let after = read()?;
    if has_wheel(&ours) && !has_wheel(&after) {
        eprintln!(
            "Another cargo has written Cargo.lock. If the command started it, it did not use the wheel: see \
             `cargo on-wheel patch`."
        );
    }
    if after == before {
        return result;
    }
    if after == ours {
        fs::write(cargo.lock(), before)?;
    } else {
        fs::write(cargo.lock(), merged(&before, &ours, &after))?;
        cargo.update(&[], &["--workspace".into()])?;
    }
    result
}

/// Tests that no package of the workspace uses the wheel.
pub(crate) fn check_manifests(workspace: &Metadata) -> Result<()> {
    let is_wheel = |name: &str| ["tokio-on-wheel", "tokio-wheel"].contains(&name);
    let mut packages = workspace.packages.iter();
    let moved = packages.find(|package| package.dependencies.iter().any(|d| is_wheel(&d.name)));
    if let Some(Package { manifest_path, .. }) = moved {
        bail!(
            "{manifest_path} has tokio-on-wheel or tokio-wheel already.\n\
             Restore its line of tokio, and Cargo.lock, or use the commit before the move:\n  \
             git worktree add ../before COMMIT\n  cargo on-wheel --program ../before ..."
        );
    }
    Ok(())
}

/// Tests that Cargo.lock is the program's own.
pub(crate) fn check(lock: &str) -> Result<()> {
    ensure!(
        !has_wheel(lock),
        "Cargo.lock has tokio-wheel already.\n\
         If you have restored Cargo.toml, restore Cargo.lock too, or run `cargo update --workspace`.\n\
         If a dependency or `[patch.crates-io]` uses it, remove it from Cargo.toml first.\n\
         If another `cargo on-wheel` runs here, wait until it ends.\n\
         If one was killed, copy Cargo.lock back from its folder, which is `on-wheel` in the target folder."
    );
    Ok(())
}

fn has_wheel(lock: &str) -> bool {
    lock.contains("\nname = \"tokio-wheel\"")
}

/// Returns the packages of a lock file before the tool changed it, with the changes that others have made since.
fn merged(before: &str, ours: &str, after: &str) -> String {
    // Git writes other line ends on Windows.
    let before = &before.replace('\r', "");
    let packages = |lock| -> BTreeSet<_> { str::split(lock, "\n\n").map(str::trim_end).collect() };
    let (ours, after) = (packages(ours), packages(after));
    let mut merged = &packages(before) - &(&ours - &after);
    // Another cargo has brought a tokio back, which may be newer.
    let tokio = "[[package]]\nname = \"tokio\"\n";
    let added = &after - &ours;
    merged.extend(added.iter().filter(|package| !package.starts_with(tokio)));
    Vec::from_iter(merged).join("\n\n") + "\n"
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manifest = self.cargo.manifest.display();
        writeln!(f, "1. Keep a copy of Cargo.lock.")?;
        writeln!(f, "2. Add these lines to {manifest}:\n")?;
        writeln!(
            f,
            "[patch.crates-io]\ntokio.path = {}\n",
            self.path(Side::Wheel)
        )?;
        writeln!(f, "3. Run `cargo update {}`.\n", self.unlocked.join(" "))?;
        writeln!(f, "To go back, remove the lines, and restore Cargo.lock.")?;
        f.write_str("`cargo on-wheel cargo build` does the same, and changes no file.")
    }
}

fn table(item: &mut Item) -> Result<&mut dyn TableLike> {
    item.as_table_like_mut()
        .context("the manifest is not as expected")
}

/// Replaces the dependency on tokio by a dependency on `tokio-real`. The source code still calls it tokio.
fn on_real_tokio(manifest: &mut DocumentMut) -> Result<()> {
    let tokio = table(&mut manifest["dependencies"]["tokio"])?;
    tokio.remove("version");
    tokio.insert("package", value("tokio-real"));
    tokio.insert("path", value("../tokio-real"));
    Ok(())
}

fn embedded(dir: &Dir<'_>) -> Files {
    let file = |file: &File<'_>| (file.path().into(), file.contents().into());
    let files = dir.files().map(file);
    files.chain(dir.dirs().flat_map(embedded)).collect()
}

fn read(root: &Path, below: &Path, files: &mut Files) -> Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            read(root, &path, files)?;
        } else {
            let content = fs::read(entry.path())?;
            files.push((path, content));
        }
    }
    Ok(())
}

/// Writes a package. Files that do not change keep their times, so that cargo does not build them again.
fn write(package: &Path, mut manifest: DocumentMut, mut files: Files) -> Result<()> {
    for key in ["dev-dependencies", "example", "lints", "test"] {
        manifest.remove(key);
    }
    // Cargo shows the warnings of a package in a folder, but not those of a package from the registry. This attribute
    // also overrides flags such as `-D warnings`.
    let mut sources = files.iter_mut();
    if let Some((_, root)) = sources.find(|(path, _)| path == Path::new("lib.rs")) {
        root.splice(..0, *b"#![allow(warnings, unsafe_code)] ");
    }
    // Without a workspace of its own, cargo would look for the package in the program's workspace.
    manifest["workspace"] = toml_edit::table();
    let is_new = |path: &Path, content: &[u8]| fs::read(path).ok().as_deref() != Some(content);
    let manifest = manifest.to_string().into_bytes();
    let path = package.join("Cargo.toml");
    if package.exists() && is_new(&path, &manifest) {
        fs::remove_dir_all(package)?;
    }
    let files = files
        .into_iter()
        .map(|(path, content)| (package.join("src").join(path), content));
    for (path, content) in files.chain([(path, manifest)]) {
        if is_new(&path, &content) {
            fs::create_dir_all(path.parent().unwrap_or(package))?;
            fs::write(path, content)?;
        }
    }
    Ok(())
}
