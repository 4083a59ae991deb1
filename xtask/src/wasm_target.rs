//! The standard library for `wasm32-unknown-unknown`.
//!
//! If `rustup target add wasm32-unknown-unknown` has been run, nothing is needed. If rustup's
//! downloads are unreachable but Debian's are not, the library is compiled once from Debian's
//! source with Debian's compiler. A compiler accepts a library of its own version only, so Debian's
//! compiler then also builds the package. This library is compiled for size; with rustup's library,
//! which is compiled for speed, the module is a fortieth larger.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, cargo, read, run};
use crate::tools;

/// Name of the target.
pub(crate) const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Debian packages of the newest compiler in a stable release, and of the library's source.
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// Directory of the sysroots, one per compiler version.
const SYSROOTS: &str = "target/wasm-sysroots/size";
/// Flag to name functions with their types, by which the optimiser sorts them.
pub(crate) const TYPES_IN_NAMES: &str = "-Csymbol-mangling-version=v0";

/// Separate build directory: Debian's compiler would replace the results of rustup's.
const TARGET_DIR: &str = "target/wasm";

/// Separator of flags in `CARGO_ENCODED_RUSTFLAGS`.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// Requirements of a build for the target, besides cargo.
pub(crate) struct WasmTarget {
    debian: Option<DebianTarget>,
}

struct DebianTarget {
    sysroot: PathBuf,
    linker: PathBuf,
}

impl WasmTarget {
    /// Installs the Debian packages from which the target's library is built, if it is missing.
    ///
    /// # Errors
    /// If they cannot be installed.
    pub(crate) fn install() -> Result {
        if is_in_toolchain()? {
            Ok(())
        } else {
            tools::install_debian_packages(&DEBIAN_PACKAGES)
        }
    }

    /// Gives a copy of the workspace the libraries that have been built here.
    ///
    /// # Errors
    /// If the copy cannot be written.
    pub(crate) fn share(workspace: &Path) -> Result {
        let shared = workspace.join(SYSROOTS);
        let parent = shared.parent().ok_or("the sysroots are in a directory")?;
        fs::create_dir_all(parent)?;
        let built = std::env::current_dir()?.join(SYSROOTS);
        Ok(std::os::unix::fs::symlink(built, shared)?)
    }

    /// Finds the target's library, or builds it.
    ///
    /// # Errors
    /// If the library is missing and cannot be built; the message explains how to install it.
    pub(crate) fn find_or_build() -> Result<Self> {
        // Download first: the compiler flags contain the directories of the sources.
        run(cargo().args(["fetch", "--locked", "--target", WASM_TARGET]))?;
        if is_in_toolchain()? {
            return Ok(Self { debian: None });
        }
        let debian = DebianTarget::find_or_build().map_err(|error| {
            format!("{error}\nif rustup can download, run: rustup target add {WASM_TARGET}")
        })?;
        Ok(Self {
            debian: Some(debian),
        })
    }

    /// Returns a cargo command for the target, such as `build`, with compiler flags.
    ///
    /// # Errors
    /// If the directories of the sources cannot be listed.
    pub(crate) fn cargo(&self, subcommand: &str, flags: &[&str]) -> Result<Command> {
        let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let mut cargo = cargo();
        cargo.args([subcommand, "--locked", "--target", WASM_TARGET]);
        cargo.args(["--target-dir", TARGET_DIR]);
        flags.extend(path_prefixes()?);
        if let Some(debian) = &self.debian {
            flags.push(format!("--sysroot={}", debian.sysroot.display()));
            cargo
                .env("RUSTC", DEBIAN_RUSTC)
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", &debian.linker);
        }
        // With `--target`, these flags do not apply to build scripts and procedural macros, which
        // use the compiler's own library.
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(FLAG_SEPARATOR));
        Ok(cargo)
    }

    /// Returns the output directory of a profile.
    pub(crate) fn output(profile: &str) -> PathBuf {
        Path::new(TARGET_DIR).join(WASM_TARGET).join(profile)
    }
}

/// Returns true if the toolchain has the target's library.
fn is_in_toolchain() -> Result<bool> {
    let target = ["--print", "target-libdir", "--target", WASM_TARGET];
    let libraries = read(Command::new("rustc").args(target))?;
    Ok(contains_core(Path::new(&libraries)))
}

/// Returns flags that remove local paths from the module, for reproducible builds.
///
/// All code of the module is compiled with them, including the standard library.
fn path_prefixes() -> Result<Vec<String>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let flag = |path: &Path, name| format!("--remap-path-prefix={}={name}", path.display());
    let mut flags = vec![
        flag(&home, "/cargo"),
        flag(&std::env::current_dir()?, "/knowledge"),
    ];
    // Sources are in a directory named after their registry, which may be a mirror. The last
    // matching prefix applies.
    for registry in fs::read_dir(home.join("registry/src"))? {
        flags.push(flag(&registry?.path(), "/crates"));
    }
    Ok(flags)
}

impl DebianTarget {
    fn find_or_build() -> Result<Self> {
        tools::install_debian_packages(&DEBIAN_PACKAGES)?;
        // The full version, because the library belongs to one build of the compiler.
        let version = read(Command::new(DEBIAN_RUSTC).arg("--version"))?;
        let words = version.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let version = words.filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let sysroot = std::env::current_dir()?
            .join(SYSROOTS)
            .join(version.join("-"));
        if !contains_core(&libraries(&sysroot)) {
            build_sysroot(&sysroot)?;
        }
        Ok(Self {
            sysroot,
            linker: rustup_linker()?,
        })
    }
}

/// Returns the linker of rustup's compiler; Debian's compiler has none.
fn rustup_linker() -> Result<PathBuf> {
    let host_libraries = read(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let linker = Path::new(&host_libraries).with_file_name("bin/rust-lld");
    if linker.is_file() {
        Ok(linker)
    } else {
        Err(format!("no linker for WebAssembly at {}", linker.display()).into())
    }
}

fn libraries(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(WASM_TARGET).join("lib")
}

fn contains_core(libraries: &Path) -> bool {
    fs::read_dir(libraries).is_ok_and(|files| {
        files
            .filter_map(std::result::Result::ok)
            .any(|file| is_library(&file.file_name().to_string_lossy(), "libcore-"))
    })
}

fn is_library(file_name: &str, prefix: &str) -> bool {
    file_name.starts_with(prefix) && file_name.ends_with(".rlib")
}

/// Compiles the standard library with an empty crate and collects it.
fn build_sysroot(sysroot: &Path) -> Result {
    const EMPTY: &str = "empty";
    let build = sysroot.with_file_name("build");
    fs::create_dir_all(build.join("src"))?;
    fs::write(
        build.join("Cargo.toml"),
        format!("[package]\nname = \"{EMPTY}\"\nedition = \"2024\"\n\n[workspace]\n"),
    )?;
    fs::write(build.join("src/lib.rs"), "#![no_std]\n")?;
    // Link-time optimisation needs the bitcode of the library.
    let mut flags = vec!["-Cembed-bitcode=yes".to_owned(), TYPES_IN_NAMES.to_owned()];
    flags.extend(path_prefixes()?);
    run(cargo()
        .current_dir(&build)
        .args(["build", "--release", "--target", WASM_TARGET])
        .args(["--target-dir", "target"])
        .arg("-Zbuild-std=std,panic_abort,proc_macro")
        .arg("-Zbuild-std-features=optimize_for_size")
        .env("RUSTC", DEBIAN_RUSTC)
        // Cargo compiles a standard library only on nightly; this treats the stable compiler as
        // one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(FLAG_SEPARATOR))
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "z")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort"))?;

    // Complete the sysroot before moving it: a sysroot that exists is complete.
    let staged = build.join("sysroot");
    let staged_libraries = libraries(&staged);
    fs::create_dir_all(&staged_libraries)?;
    let compiled = build.join("target").join(WASM_TARGET).join("release/deps");
    for file in fs::read_dir(compiled)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if is_library(&name, "lib") && !is_library(&name, &format!("lib{EMPTY}-")) {
            fs::copy(file.path(), staged_libraries.join(name))?;
        }
    }
    fs::rename(&staged, sysroot)?;
    fs::remove_dir_all(&build)?;
    Ok(())
}
