//! Builds the WebAssembly package.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{Result, cargo, find, read, run};
use crate::tools::{self, Node};
use crate::wasm_target::WasmTarget;

const PACKAGE: &str = "knowledge-wasm";
/// Small rather than fast, see the workspace's `Cargo.toml`.
pub(crate) const PROFILE: &str = "wasm";
/// Where the package is made.
const PKG: &str = "wasm/pkg";
/// The package's files are named after this.
const NAME: &str = "knowledge";

/// The module, by its name in the package.
const MODULE: &str = "knowledge_bg.wasm";
/// The modules and types that are written by hand, as they stand in the package.
const SOURCES: &str = "wasm/js";
/// What is in the package beside the code.
const DOCUMENTS: [(&str, &str); 2] = [("wasm/README.md", "README.md"), ("LICENSE", "LICENSE")];

/// The npm packages that the build and the tests need.
const NODE_MODULES: &str = "wasm/node_modules";

/// Where the sources are copied to, to be compiled once more.
const ELSEWHERE: &str = "target/elsewhere";
/// What in the workspace is made of the sources, or installed for them.
const NO_SOURCES: [&str; 5] = [".git", "node_modules", "pkg", "pkg-testing", "target"];

/// How long a file of tests may take: a guard against one that hangs, not a measure.
const TEST_MS_MAX: u32 = 900_000;

/// Values are copied by one instruction instead of word by word: what waits for a store is mostly moved about, and the
/// module is a twelfth smaller for it.
const COPY_AT_ONCE: &str = "-Cllvm-args=-max-store-memcpy=1";

/// The package that is published.
const PUBLISHED: Package = Package {
    directory: PKG,
    profile: PROFILE,
    flags: &[COPY_AT_ONCE],
    features: &[],
    sources: &[SOURCES],
};

/// The package of the tests: the same, with what tries it.
const TESTING: Package = Package {
    directory: "wasm/pkg-testing",
    profile: "wasm-testing",
    flags: &[],
    features: &["--features", "testing"],
    sources: &[SOURCES, "wasm/tests/support"],
};

struct Package {
    directory: &'static str,
    profile: &'static str,
    flags: &'static [&'static str],
    features: &'static [&'static str],
    sources: &'static [&'static str],
}

/// Compiles the crate `wasm`, makes the npm package of it and of the modules around it, and prints its sizes.
///
/// # Errors
/// A tool is missing and cannot be installed, or a step fails; the module is larger than it may be.
pub(crate) fn build() -> Result {
    let node = assemble(&PUBLISHED)?;
    let pkg = Path::new(PKG);
    for (from, to) in DOCUMENTS {
        fs::copy(from, pkg.join(to))?;
    }
    set_version(&pkg.join("package.json"))?;
    shrink(&node, &pkg.join(MODULE))?;
    run(node
        .command("node")?
        .args(["wasm/tools/sizes.mjs", PKG, MODULE]))
}

/// Makes a package as it is before it is optimised; the Node.js that it can be gone on with.
fn assemble(package: &Package) -> Result<Node> {
    let module = compile(package)?;
    let directory = Path::new(package.directory);
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    for sources in package.sources {
        copy(Path::new(sources), directory, &[])?;
    }
    run(glue().arg(&module).args([package.directory, NAME]))?;
    tools::node()?;
    npm_install()?;
    let node = Node::find(Path::new(NODE_MODULES))?;
    describe_operations(&node, package.directory)?;
    Ok(node)
}

/// Compiles a package's module; where it is.
fn compile(package: &Package) -> Result<PathBuf> {
    let target = WasmTarget::find_or_make()?;
    run(target
        .cargo("build", package.flags)?
        .args(["--package", PACKAGE, "--profile", package.profile])
        .args(package.features))?;
    Ok(WasmTarget::output(package.profile).join("knowledge_wasm.wasm"))
}

/// Compiles the published module twice, the second time in another directory, with a standard library that is compiled there
/// too: the same sources give the same bytes.
///
/// # Errors
/// The two differ.
pub(crate) fn compile_twice() -> Result {
    let first = fs::read(compile(&PUBLISHED)?)?;
    let elsewhere = Path::new(ELSEWHERE);
    if elsewhere.exists() {
        fs::remove_dir_all(elsewhere)?;
    }
    copy(Path::new("."), elsewhere, &NO_SOURCES)?;
    let here = std::env::current_dir()?;
    std::env::set_current_dir(elsewhere)?;
    let second = compile(&PUBLISHED).and_then(|module| Ok(fs::read(module)?));
    std::env::set_current_dir(here)?;
    if first != second? {
        return Err(format!("the module is another one when it is compiled in {ELSEWHERE}").into());
    }
    fs::remove_dir_all(elsewhere)?;
    Ok(())
}

/// The program that needs other crates.
fn glue() -> Command {
    let mut glue = cargo();
    glue.args([
        "run",
        "--locked",
        "--quiet",
        "--package",
        "xtask-glue",
        "--",
    ]);
    glue
}

/// Writes the table of the operations and their types, from the description of the interface.
fn describe_operations(node: &Node, directory: &str) -> Result {
    let document = read(glue().arg("openapi"))?;
    let mut node = node
        .command("node")?
        .args(["wasm/tools/operations.mjs", directory])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut stdin = node.stdin.take().ok_or("node has no standard input")?;
    stdin.write_all(document.as_bytes())?;
    drop(stdin);
    match node.wait()?.success() {
        true => Ok(()),
        false => Err("the operations could not be described".into()),
    }
}

/// Copies a directory but for what has one of these names in it.
fn copy(from: &Path, to: &Path, but: &[&str]) -> Result {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        if but.iter().any(|name| file.file_name() == *name) {
            continue;
        }
        let target = to.join(file.file_name());
        if file.file_type()?.is_dir() {
            copy(&file.path(), &target, but)?;
        } else {
            fs::copy(file.path(), target)?;
        }
    }
    Ok(())
}

/// The package has the version of the workspace.
fn set_version(package: &Path) -> Result {
    const PLACEHOLDER: &str = "\"version\": \"0.0.0\"";
    let text = fs::read_to_string(package)?;
    if !text.contains(PLACEHOLDER) {
        return Err(format!("no {PLACEHOLDER} in {}", package.display()).into());
    }
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(package, text.replace(PLACEHOLDER, &version))?;
    Ok(())
}

/// Runs the package's tests, in Node.js and from there in the other hosts; the package has to be built.
///
/// # Errors
/// A test fails, or there is none.
pub(crate) fn test() -> Result {
    let node = assemble(&TESTING)?;
    // The README of the examples has commands with the others.
    tools::programs(&[
        ("chromium", "chromium"),
        ("curl", "curl"),
        ("openssl", "openssl"),
        ("python3", "python3"),
    ])?;
    let chromium = find("chromium").ok_or("chromium is not on the search path")?;
    let example = [
        "--locked",
        "--package",
        "knowledge-core",
        "--features",
        "openapi,testing",
        "--example",
        "conversation",
    ];
    run(cargo().arg("build").args(example))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let conversation = Path::new(&target).join("debug/examples/conversation");

    let mut tests = Vec::new();
    for file in fs::read_dir("wasm/tests")? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "mjs") {
            tests.push(path);
        }
    }
    // Named one by one: given a directory, some versions of Node.js find no test in it and succeed.
    if tests.is_empty() {
        return Err("no tests in wasm/tests".into());
    }
    tests.sort();
    run(node
        .command("node")?
        .args(["--test", &format!("--test-timeout={TEST_MS_MAX}")])
        .args(tests)
        .env("CHROMIUM", chromium)
        .env("KNOWLEDGE_CONVERSATION", conversation.canonicalize()?)
        .env("KNOWLEDGE_HTTP_SUITE", http_suite()?))
}

/// Compiles the HTTP suite of the server, which asks whatever service it is told to; the program.
fn http_suite() -> Result<String> {
    let messages = read(cargo().args([
        "test",
        "--locked",
        "--package",
        "knowledge-server",
        "--test",
        "http",
        "--no-run",
        "--message-format=json",
    ]))?;
    let program = messages
        .lines()
        .filter(|line| line.contains("\"name\":\"http\""))
        .find_map(|line| {
            let (_, rest) = line.split_once("\"executable\":\"")?;
            Some(rest.split_once('"')?.0.to_owned())
        });
    program.ok_or_else(|| "cargo does not say where the HTTP suite is".into())
}

/// Installs the npm packages of the lock file, unless that has been done.
fn npm_install() -> Result {
    // npm writes this file at the end of an installation, a copy of what it has installed.
    let installed = Path::new(NODE_MODULES).join(".package-lock.json");
    let lock = Path::new("wasm/package-lock.json");
    let is_current = match (installed.metadata(), lock.metadata()) {
        (Ok(installed), Ok(lock)) => installed.modified()? >= lock.modified()?,
        _ => false,
    };
    if is_current {
        return Ok(());
    }
    run(Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund"])
        .current_dir("wasm"))
}

/// Optimises the module for size, in place.
fn shrink(node: &Node, module: &Path) -> Result {
    let program = format!("{NODE_MODULES}/.bin/wasm-opt");
    run(node
        .command(&program)?
        .arg("-Oz")
        .arg(module)
        .arg("--output")
        .arg(module))
}
