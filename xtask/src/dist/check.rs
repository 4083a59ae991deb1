//! Installs each artefact in a clean place, and starts it once.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Artefacts, SUMS, container};
use crate::demo::Demo;
use crate::process::{Result, Skipped, ensure, find_program, read, run, succeeds};
use crate::tools::{self, Node};
use crate::wasm::NODE_MODULES;

/// Directory of the installations.
const INSTALLED: &str = "target/artefacts-installed";
/// Memories of the demo.
const MEMORIES: &str = "20";
/// User and group of the server from the Debian package, in place of systemd's dynamic user.
const DYNAMIC_USER: &str = "61184:61184";
/// Directory of systemd's credentials for the unit.
const CREDENTIALS: &str = "/run/credentials/knowledge.service";
/// Programs of Debian's essential packages for the package's scripts. No script needs `rm` today;
/// one that does must find it.
const SHELL: [&str; 6] = [
    "/bin/sh",
    "/bin/mv",
    "/bin/rm",
    "/usr/bin/head",
    "/usr/bin/base64",
    "/usr/bin/wc",
];
/// Program with which systemd reloads the server.
const KILL: &str = "/bin/kill";
/// Debian packages of the libraries of all these.
const LIBRARIES: [&str; 2] = ["libc6", "libgcc-s1"];

const START: &str = "xtask/src/dist/start.sh";
const INSTALL: &str = "xtask/src/dist/install.sh";
const SERVICE: &str = "xtask/src/dist/service.mjs";
const SBOM: &str = "xtask/src/dist/sbom.mjs";

/// Checks all artefacts.
///
/// # Errors
/// If an artefact is not as it has to be. [`Skipped`] if all that was checked is right, but only an
/// administrator could check the rest.
pub(super) fn check(artefacts: &Artefacts) -> Result {
    let directory = std::env::current_dir()?.join(INSTALLED);
    let administrator = Administrator::find()?;
    remove(&directory, administrator.as_ref())?;
    fs::create_dir_all(&directory)?;
    run(Command::new("sha256sum")
        .args(["--check", "--strict", SUMS])
        .current_dir(&artefacts.directory))?;
    tools::install_node()?;
    let node = Node::find(Path::new(NODE_MODULES))?;
    run(node.command("node")?.arg(SBOM).arg(&artefacts.sbom))?;
    check_tarball(artefacts, &directory.join("tarball"))?;
    check_npm(artefacts, &node, &directory.join("npm"))?;
    let Some(administrator) = administrator else {
        unpack_debian(artefacts, &directory.join("debian"))?;
        let reason = "neither root nor sudo: the Debian package and the image did not start in a \
                      clean root, and no script ran";
        return Err(Skipped(reason.to_owned()).into());
    };
    tools::install_programs(&[
        ("ip", "iproute2"),
        ("unshare", "util-linux"),
        ("systemd-analyze", "systemd"),
    ])?;
    check_debian(artefacts, &administrator, &directory.join("debian"))?;
    check_container(artefacts, &administrator, &directory.join("container"))?;
    remove(&directory, Some(&administrator))
}

/// Unpacks the binary, and starts its demo.
fn check_tarball(artefacts: &Artefacts, directory: &Path) -> Result {
    unpack(&artefacts.binary, directory)?;
    let root = directory.join(&artefacts.binary_name);
    for name in [
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "REQUIREMENTS",
        "docs/operations.md",
        "deploy/knowledge.toml",
    ] {
        if !root.join(name).is_file() {
            return Err(format!("no {name} in {}", artefacts.binary.display()).into());
        }
    }
    let demo = Demo::start(Command::new(root.join("knowledge")), directory, MEMORIES)?;
    expect_ready(demo.variable("URL"))
}

/// Installs the npm package in an empty directory, and opens a service.
fn check_npm(artefacts: &Artefacts, node: &Node, directory: &Path) -> Result {
    fs::create_dir_all(directory)?;
    fs::write(directory.join("package.json"), "{\"private\":true}\n")?;
    let mut install = node.command("npm")?;
    install
        .args(["install", "--offline", "--no-audit", "--no-fund"])
        .arg(&artefacts.npm);
    run(install.current_dir(directory))?;
    fs::copy(SERVICE, directory.join("service.mjs"))?;
    run(node
        .command("node")?
        .arg("service.mjs")
        .current_dir(directory))
}

/// Installs the Debian package in a root of its own, and starts the server as its unit does.
fn check_debian(artefacts: &Artefacts, administrator: &Administrator, root: &Path) -> Result {
    create_root(root, &[SHELL.as_slice(), &[KILL]].concat())?;
    // Database of packages: the packages whose files are present.
    let database = root.join("var/lib/dpkg");
    fs::create_dir_all(database.join("info"))?;
    fs::create_dir_all(database.join("updates"))?;
    fs::create_dir_all(root.join("var/log"))?;
    let libraries = read(Command::new("dpkg-query").arg("--status").args(LIBRARIES))?;
    fs::write(database.join("status"), libraries + "\n")?;
    let unpacked = root.with_extension("unpacked");
    let unit = unpack_unit(artefacts, &unpacked)?;
    copy_libraries(&unpacked.join("usr/bin/knowledge"), root)?;
    let settings = container::settings(&unit).into_iter().map(|setting| {
        let setting = setting.replace("%S", "/var/lib");
        setting.replace("%d", CREDENTIALS)
    });
    let mut install = administrator.command("unshare");
    install.args(["--mount", "--net", "sh", INSTALL]);
    install.arg(root).arg(&artefacts.debian);
    run(install.args([DYNAMIC_USER, START]).args(settings))
}

/// Unpacks the Debian package without its scripts, and returns its unit.
fn unpack_unit(artefacts: &Artefacts, root: &Path) -> Result<String> {
    let mut unpack = Command::new("dpkg-deb");
    run(unpack.arg("--extract").args([&artefacts.debian, root]))?;
    let unit = root.join("usr/lib/systemd/system/knowledge.service");
    Ok(fs::read_to_string(unit)?)
}

/// Unpacks the Debian package, and starts the server on its configuration with other paths.
fn unpack_debian(artefacts: &Artefacts, root: &Path) -> Result {
    unpack_unit(artefacts, root)?;
    let binary = root.join("usr/bin/knowledge");
    let configuration = root.join("etc/knowledge/knowledge.toml");
    let mut check = Command::new(&binary);
    run(check.args(["config", "check"]).arg(&configuration))?;
    let mut serve = Command::new(binary);
    serve
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("KNOWLEDGE_CONFIG", configuration)
        .env("KNOWLEDGE_STORAGE__DATA_DIR", root.join("data"))
        .env("KNOWLEDGE_LOG__FORMAT", "json");
    let mut server = serve.stderr(Stdio::piped()).spawn()?;
    let log = BufReader::new(server.stderr.take().ok_or("no standard error")?);
    let url = log.lines().map_while(std::io::Result::ok).find_map(|line| {
        let (_, rest) = line.split_once("listening on ")?;
        Some(rest.split_once('"')?.0.to_owned())
    });
    let ready = url.map(|url| expect_ready(&url));
    server.kill()?;
    server.wait()?;
    ready.unwrap_or_else(|| Err("the server of the Debian package does not start".into()))
}

/// Starts the server as the image does, with nothing but the libraries that it needs.
fn check_container(
    artefacts: &Artefacts,
    administrator: &Administrator,
    directory: &Path,
) -> Result {
    unpack(&artefacts.container, directory)?;
    let context = directory.join(&artefacts.container_name);
    let dockerfile = fs::read_to_string(context.join("Dockerfile"))?;
    let root = directory.join("root");
    create_root(&root, &[])?;
    for copy in container::copies(&dockerfile) {
        let target = root.join(copy.target.trim_start_matches('/'));
        fs::create_dir_all(target.parent().unwrap_or(&root))?;
        let mut cp = Command::new("cp");
        cp.args(["--recursive", "--preserve=mode"]);
        run(cp.args([&context.join(copy.source), &target]))?;
        if let Some(owner) = copy.owner {
            run(administrator.command("chown").arg(owner).arg(target))?;
        }
    }
    copy_libraries(&context.join(container::BINARY), &root)?;
    let user = container::instruction(&dockerfile, "USER")?;
    let mut start = administrator.command("unshare");
    start.args(["--net", "sh", START]).arg(root).arg(user);
    run(start.args(container::settings(&dockerfile)))
}

/// Creates a root directory with these programs and their libraries.
fn create_root(root: &Path, programs: &[&str]) -> Result {
    for directory in ["dev", "etc", "tmp", "var/lib"] {
        fs::create_dir_all(root.join(directory))?;
    }
    for program in programs {
        copy(Path::new(program), root)?;
        copy_libraries(Path::new(program), root)?;
    }
    Ok(())
}

/// Copies the shared libraries of a program to their paths in a root directory.
fn copy_libraries(program: &Path, root: &Path) -> Result {
    let printed = read(Command::new("ldd").arg(program))?;
    let words = printed.split_whitespace();
    for library in words.filter(|word| word.starts_with('/')) {
        copy(Path::new(library), root)?;
    }
    Ok(())
}

/// Copies a file, and the target of a link, to its path in a root directory.
fn copy(file: &Path, root: &Path) -> Result {
    let mut cp = Command::new("cp");
    cp.args(["--dereference", "--parents", "--target-directory"]);
    ensure(succeeds(cp.arg(root).arg(file)), || {
        format!("cannot copy {} to {}", file.display(), root.display())
    })
}

fn unpack(archive: &Path, directory: &Path) -> Result {
    fs::create_dir_all(directory)?;
    let mut tar = Command::new("tar");
    run(tar
        .arg("--extract")
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(directory))
}

/// Requests the readiness of a server.
fn expect_ready(url: &str) -> Result {
    let address = url.strip_prefix("http://").ok_or("no http address")?;
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let status = response.lines().next().unwrap_or_default();
    println!("{url}/readyz: {status}");
    ensure(status.starts_with("HTTP/1.1 200 "), || {
        format!("{url} is not ready: {status}")
    })
}

fn remove(directory: &Path, administrator: Option<&Administrator>) -> Result {
    match administrator {
        Some(administrator) => run(administrator
            .command("rm")
            .args(["-rf", "--"])
            .arg(directory)),
        None if directory.exists() => Ok(fs::remove_dir_all(directory)?),
        None => Ok(()),
    }
}

/// Permission to run commands as root.
struct Administrator {
    sudo: Option<PathBuf>,
}

impl Administrator {
    /// Returns it if this user is root, or may use sudo without a password.
    fn find() -> Result<Option<Self>> {
        if read(Command::new("id").arg("-u"))? == "0" {
            return Ok(Some(Self { sudo: None }));
        }
        let sudo = find_program("sudo");
        let sudo = sudo.filter(|sudo| succeeds(Command::new(sudo).args(["-n", "true"])));
        Ok(sudo.map(|sudo| Self { sudo: Some(sudo) }))
    }

    fn command(&self, program: &str) -> Command {
        let Some(sudo) = &self.sudo else {
            return Command::new(program);
        };
        let mut command = Command::new(sudo);
        command.args(["-n", program]).stdin(Stdio::null());
        command
    }
}
