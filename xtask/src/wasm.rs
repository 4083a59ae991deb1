//! Builds the WebAssembly package.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::process::{Result, ensure, find_program, format_command, low_priority, run};
use crate::programs::{self, GLUE, HTTP_SUITE, Programs};
use crate::tools::{self, Node};
use crate::wasm_target::{TYPES_IN_NAMES, WasmTarget};

const PACKAGE: &str = "knowledge-wasm";
/// Profile optimised for size, see the workspace's `Cargo.toml`.
const PROFILE: &str = "wasm";
/// Directory of the package.
pub(crate) const PKG: &str = "wasm/pkg";
/// Base name of the package's files.
const NAME: &str = "knowledge";

/// Name of the module in the package.
const MODULE: &str = "knowledge_bg.wasm";
/// Directory of the modules and types that are written by hand.
const SOURCES: &str = "wasm/js";
/// Documents in the package.
const DOCUMENTS: [(&str, &str); 2] = [("wasm/README.md", "README.md"), ("LICENSE", "LICENSE")];

/// Page of the console, which the package has too: there the service runs inside the page.
const CONSOLE: &str = "console/page";
/// Its files that only describe types, and the page itself, which names the package.
const CONSOLE_EXCLUDED: [&str; 4] = ["context.d.ts", "lit-html.d.ts", "repeat.d.ts", "index.html"];

/// Directory of the npm packages for the build and the tests.
pub(crate) const NODE_MODULES: &str = "wasm/node_modules";

/// Directory of a copy of the sources, for a second build.
const REBUILD_DIRECTORY: &str = "target/elsewhere";
/// Names in the workspace that are no sources.
const EXCLUDED: [&str; 5] = [".git", "node_modules", "pkg", "pkg-testing", "target"];

/// Time limit of a test file in milliseconds, against hangs.
const TEST_MS_MAX: u32 = 900_000;

/// Flag to copy values by one instruction instead of word by word.
///
/// Futures are moved often, and the module is a twelfth smaller with it.
const BULK_COPY: &str = "-Cllvm-args=-max-store-memcpy=1";

/// Program that compiles a crate of the workspace without a warning.
const WITHOUT_WARNINGS: &str = "xtask/without-warnings.sh";

/// Passes of the optimiser.
///
/// The functions are sorted by name, and those with a single caller are inlined only if they are
/// short. Similar functions, such as the instances of a generic one, are then next to each other,
/// and the module compresses better: gzip looks back only 32 kB. For the same reason, repeated
/// expressions are left as they are.
const OPTIMIZATIONS: [&str; 5] = [
    "-Oz",
    "--one-caller-inline-max-function-size",
    "30",
    "--skip-pass=local-cse",
    "--reorder-functions-by-name",
];

/// The published package.
const PUBLISHED: Package = Package {
    directory: PKG,
    profile: PROFILE,
    features: &[],
    sources: &[SOURCES],
};

/// The package for tests: the published one with test support.
const TESTING: Package = Package {
    directory: "wasm/pkg-testing",
    profile: "wasm-testing",
    features: &["--features", "testing"],
    sources: &[SOURCES, "wasm/tests/support"],
};

/// Flags of all compilations. With other ones, cargo runs the build scripts of dependencies again, and
/// compiles what depends on them.
const FLAGS: [&str; 2] = [BULK_COPY, TYPES_IN_NAMES];

struct Package {
    directory: &'static str,
    profile: &'static str,
    features: &'static [&'static str],
    sources: &'static [&'static str],
}

/// Compiles the crate `wasm`, builds the npm package around it, and prints its sizes.
///
/// # Errors
/// If a tool cannot be installed, a step fails, or the module exceeds its maximum size.
pub(crate) fn build() -> Result {
    let node = assemble(&PUBLISHED, &programs::build(&[GLUE])?)?;
    let pkg = Path::new(PKG);
    for (from, to) in DOCUMENTS {
        fs::copy(from, pkg.join(to))?;
    }
    set_version(&pkg.join("package.json"))?;
    copy_console(pkg)?;
    optimize(&node, &pkg.join(MODULE))?;
    run(node
        .command("node")?
        .args(["wasm/tools/sizes.mjs", PKG, MODULE]))
}

/// Assembles an unoptimised package, and returns the Node.js for the next steps.
fn assemble(package: &Package, programs: &Programs) -> Result<Node> {
    let module = compile(package)?;
    let directory = Path::new(package.directory);
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    for sources in package.sources {
        copy_directory(Path::new(sources), directory, &[])?;
    }
    run(programs
        .command(GLUE)
        .arg(&module)
        .args([package.directory, NAME]))?;
    let node = install_node()?;
    describe_operations(&node, programs, package.directory)?;
    Ok(node)
}

/// Installs Node.js and the npm packages if they are missing, and returns a sufficiently new Node.js.
///
/// # Errors
/// If something cannot be installed.
pub(crate) fn install_node() -> Result<Node> {
    tools::install_node()?;
    tools::install_npm_packages("wasm")?;
    Node::find(Path::new(NODE_MODULES))
}

/// Compiles a package's module and returns its path.
fn compile(package: &Package) -> Result<PathBuf> {
    let target = WasmTarget::find_or_build()?;
    run(target
        .cargo("build", &FLAGS)?
        .args(["--package", PACKAGE, "--profile", package.profile])
        .args(package.features))?;
    Ok(output(package))
}

/// Returns the path of a package's compiled module.
fn output(package: &Package) -> PathBuf {
    WasmTarget::output(package.profile).join("knowledge_wasm.wasm")
}

/// Compiles the published module of a copy of the sources, without a package around it.
///
/// # Errors
/// If it does not compile.
pub(crate) fn compile_module(directory: &str) -> Result {
    std::env::set_current_dir(directory)?;
    compile(&PUBLISHED).map(drop)
}

/// Checks that the crates compile for the target, without a warning.
///
/// # Errors
/// If one does not.
pub(crate) fn check() -> Result {
    let target = WasmTarget::find_or_build()?;
    let wrapper = std::env::current_dir()?.join(WITHOUT_WARNINGS);
    // Check core first and separately: other crates could enable features that it needs.
    for package in ["knowledge-core", PACKAGE] {
        run(target
            .cargo("check", &FLAGS)?
            .args(["--package", package, "--profile", PROFILE])
            .env("RUSTC_WORKSPACE_WRAPPER", &wrapper))?;
    }
    Ok(())
}

/// Checks the crates, and compiles the modules of the published package and of the tests.
///
/// # Errors
/// If one does not compile.
pub(crate) fn compile_all() -> Result {
    check()?;
    compile(&PUBLISHED)?;
    compile(&TESTING).map(drop)
}

/// A second compilation of the module in another directory, with the same compiler and standard
/// library. It runs beside the tests, because most of the time each uses one processor.
pub(crate) struct Rebuild {
    process: Child,
    log: PathBuf,
}

impl Rebuild {
    /// Starts the compilation. What it installs must be present.
    ///
    /// # Errors
    /// If the sources cannot be copied.
    pub(crate) fn start() -> Result<Self> {
        let directory = Path::new(REBUILD_DIRECTORY);
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        copy_directory(Path::new("."), directory, &EXCLUDED)?;
        WasmTarget::share(directory)?;
        let log = directory.join("build.log");
        let output = File::create(&log)?;
        let mut command = low_priority(&Command::new(std::env::current_exe()?));
        command
            .args(["module", REBUILD_DIRECTORY])
            .stdout(output.try_clone()?)
            .stderr(output);
        println!("$ {}", format_command(&command));
        let process = command.spawn()?;
        Ok(Self { process, log })
    }

    /// Waits for the compilation, and compares its module with the one from [`build`].
    ///
    /// # Errors
    /// If the two modules differ, or the second one does not compile.
    pub(crate) fn check(mut self) -> Result {
        if !self.process.wait()?.success() {
            let log = fs::read_to_string(&self.log)?;
            return Err(format!("{log}\nno second module in {REBUILD_DIRECTORY}").into());
        }
        let module = output(&PUBLISHED);
        let second = fs::read(Path::new(REBUILD_DIRECTORY).join(&module))?;
        ensure(fs::read(module)? == second, || {
            format!("the module differs when it is compiled in {REBUILD_DIRECTORY}")
        })?;
        fs::remove_dir_all(REBUILD_DIRECTORY)?;
        Ok(())
    }
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes the tables of operations and their types from the OpenAPI documents.
fn describe_operations(node: &Node, programs: &Programs, directory: &str) -> Result {
    let documents = programs.openapi_documents()?;
    let mut node = node
        .command("node")?
        .args(["wasm/tools/operations.mjs", directory])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut stdin = node.stdin.take().ok_or("node has no standard input")?;
    stdin.write_all(documents.as_bytes())?;
    drop(stdin);
    let is_done = node.wait()?.success();
    ensure(is_done, || "failed to describe the operations".to_owned())
}

/// Copies a directory except for the excluded names.
fn copy_directory(from: &Path, to: &Path, excluded: &[&str]) -> Result {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        if excluded.iter().any(|name| file.file_name() == *name) {
            continue;
        }
        let target = to.join(file.file_name());
        if file.file_type()?.is_dir() {
            copy_directory(&file.path(), &target, excluded)?;
        } else {
            fs::copy(file.path(), target)?;
        }
    }
    Ok(())
}

/// Copies the console into the package, as `console.html` and `console/`.
fn copy_console(pkg: &Path) -> Result {
    copy_directory(Path::new(CONSOLE), &pkg.join("console"), &CONSOLE_EXCLUDED)?;
    let page = fs::read_to_string(Path::new(CONSOLE).join("index.html"))?;
    let page = replace(
        &page,
        r#"name="knowledge-package" content="""#,
        r#"name="knowledge-package" content="web.js""#,
    )?;
    fs::write(pkg.join("console.html"), page)?;
    Ok(())
}

/// Replaces a text that occurs.
fn replace(text: &str, from: &str, to: &str) -> Result<String> {
    ensure(text.contains(from), || format!("no {from} in {text}"))?;
    Ok(text.replace(from, to))
}

/// Sets the package's version to the workspace's.
fn set_version(package: &Path) -> Result {
    const PLACEHOLDER: &str = "\"version\": \"0.0.0\"";
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let text = replace(&fs::read_to_string(package)?, PLACEHOLDER, &version)?;
    fs::write(package, text)?;
    Ok(())
}

/// Runs the package's tests in Node.js, and from there in the other hosts.
///
/// # Errors
/// If a test fails, or there is none.
pub(crate) fn test() -> Result {
    let programs = programs::build(&[GLUE, HTTP_SUITE])?;
    let node = assemble(&TESTING, &programs)?;
    // The README of the examples has commands that use the other programs.
    tools::install_programs(&[
        ("chromium", "chromium"),
        ("curl", "curl"),
        ("openssl", "openssl"),
        ("python3", "python3"),
    ])?;
    let chromium = find_program("chromium").ok_or("chromium is not on the search path")?;
    let mut tests = Vec::new();
    for file in fs::read_dir("wasm/tests")? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "mjs") {
            tests.push(path);
        }
    }
    // Name each file: given a directory, some versions of Node.js find no tests and succeed.
    ensure(!tests.is_empty(), || "no tests in wasm/tests".to_owned())?;
    tests.sort();
    run(node
        .command("node")?
        .args(["--test", "--test-reporter=spec"])
        .arg(format!("--test-timeout={TEST_MS_MAX}"))
        .args(tests)
        .env("CHROMIUM", chromium)
        .env("KNOWLEDGE_CONVERSATION", programs.conversation())
        .env("KNOWLEDGE_HTTP_SUITE", programs.path(HTTP_SUITE)))
}

/// Optimises the module for size, in place.
fn optimize(node: &Node, module: &Path) -> Result {
    let program = format!("{NODE_MODULES}/.bin/wasm-opt");
    run(node
        .command(&program)?
        .args(OPTIMIZATIONS)
        .arg(module)
        .arg("--output")
        .arg(module))
}
