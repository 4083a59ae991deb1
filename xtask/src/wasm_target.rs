//! The standard library for `wasm32-unknown-unknown`.
//!
//! Where `rustup target add wasm32-unknown-unknown` has been run, there is nothing to do. Where rustup's downloads
//! are out of reach but Debian's are not, the library is compiled once from Debian's source, with Debian's compiler:
//! a compiler takes no other version's library, so that compiler then builds the package too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, cargo, read, run};
use crate::tools;

/// The target, as the compiler names it.
pub(crate) const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Debian's newest compiler in a stable release, with the source of its library.
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// Sysroots, by the version of their compiler.
const SYSROOTS: &str = "target/wasm-sysroots";
/// Not the usual build directory: another compiler would replace what rustup's has built there.
const TARGET_DIR: &str = "target/wasm";

/// Between the flags that cargo is given.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// Everything that a build for the target needs besides cargo.
pub(crate) struct WasmTarget {
    debian: Option<DebianTarget>,
}

struct DebianTarget {
    sysroot: PathBuf,
    linker: PathBuf,
}

impl WasmTarget {
    /// Finds the target's library, or makes it.
    ///
    /// # Errors
    /// The library is neither there nor can it be made; the message says how to get it.
    pub(crate) fn find_or_make() -> Result<Self> {
        // Downloaded before anything is compiled: where the sources stand is told to the compiler.
        run(cargo().args(["fetch", "--locked", "--target", WASM_TARGET]))?;
        let libraries = read(Command::new("rustc").args([
            "--print",
            "target-libdir",
            "--target",
            WASM_TARGET,
        ]))?;
        if holds_core(Path::new(&libraries)) {
            return Ok(Self { debian: None });
        }
        let debian = DebianTarget::find_or_make().map_err(|error| {
            format!("{error}\nwhere rustup can download: rustup target add {WASM_TARGET}")
        })?;
        Ok(Self {
            debian: Some(debian),
        })
    }

    /// A cargo command for the target, `build` or the like, whose compiler gets these flags.
    ///
    /// # Errors
    /// It cannot be found out where sources are kept.
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
        // With a `--target`, these flags reach neither build scripts nor procedural macros: those use the compiler's
        // own library.
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(FLAG_SEPARATOR));
        Ok(cargo)
    }

    /// Where cargo leaves what it builds with this profile.
    pub(crate) fn output(profile: &str) -> PathBuf {
        Path::new(TARGET_DIR).join(WASM_TARGET).join(profile)
    }
}

/// Flags that keep out of the module where it was built, and by whom: the same sources give the same bytes. Whatever is
/// compiled into it is compiled with them, the standard library too.
fn path_prefixes() -> Result<Vec<String>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let flag = |path: &Path, name| format!("--remap-path-prefix={}={name}", path.display());
    let mut flags = vec![
        flag(&home, "/cargo"),
        flag(&std::env::current_dir()?, "/knowledge"),
    ];
    // Sources are in a directory named after the registry that they came from, which may be a mirror. Of prefixes that
    // fit the last one counts.
    for registry in fs::read_dir(home.join("registry/src"))? {
        flags.push(flag(&registry?.path(), "/crates"));
    }
    Ok(flags)
}

impl DebianTarget {
    fn find_or_make() -> Result<Self> {
        tools::debian_packages(&DEBIAN_PACKAGES)?;
        // Not the release alone: the library belongs to one build of the compiler.
        let version = read(Command::new(DEBIAN_RUSTC).arg("--version"))?;
        let words = version.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let version = words.filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let sysroot = std::env::current_dir()?
            .join(SYSROOTS)
            .join(version.join("-"));
        if !holds_core(&libraries(&sysroot)) {
            make_sysroot(&sysroot)?;
        }
        Ok(Self {
            sysroot,
            linker: rustup_linker()?,
        })
    }
}

/// The linker that comes with rustup's compiler; Debian's compiler comes without.
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

fn holds_core(libraries: &Path) -> bool {
    fs::read_dir(libraries).is_ok_and(|files| {
        files
            .filter_map(std::result::Result::ok)
            .any(|file| is_library(&file.file_name().to_string_lossy(), "libcore-"))
    })
}

fn is_library(file_name: &str, prefix: &str) -> bool {
    file_name.starts_with(prefix) && file_name.ends_with(".rlib")
}

/// Compiles the standard library beside an empty crate and collects it.
fn make_sysroot(sysroot: &Path) -> Result {
    const EMPTY: &str = "empty";
    let build = sysroot.with_file_name("build");
    fs::create_dir_all(build.join("src"))?;
    fs::write(
        build.join("Cargo.toml"),
        format!("[package]\nname = \"{EMPTY}\"\nedition = \"2024\"\n\n[workspace]\n"),
    )?;
    fs::write(build.join("src/lib.rs"), "#![no_std]\n")?;
    // Link-time optimisation reaches into the library through its bitcode.
    let mut flags = vec!["-Cembed-bitcode=yes".to_owned()];
    flags.extend(path_prefixes()?);
    run(cargo()
        .current_dir(&build)
        .args(["build", "--release", "--target", WASM_TARGET])
        .args(["--target-dir", "target"])
        .arg("-Zbuild-std=std,panic_abort,proc_macro")
        .env("RUSTC", DEBIAN_RUSTC)
        // Cargo compiles a standard library on nightly only; this says to treat the stable compiler as one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(FLAG_SEPARATOR))
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort"))?;

    // Complete first and moved then: a sysroot that exists is whole.
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
