//! The artefacts of a release: what can be installed, with sums and a bill of materials.

mod archive;
mod binary;
mod check;
mod container;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::archive::{Archives, normalise_modes, place, write};
use self::binary::Requirements;
use crate::process::{Result, ensure, read, run};
use crate::tools::{self, Node};
use crate::wasm::{self, NODE_MODULES, PKG};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Name of the program and of its packages.
const NAME: &str = "knowledge";
/// Directory of the artefacts of a release.
const RELEASE: &str = "target/artefacts";
/// Directory of artefacts with a debug binary, which nobody should mistake for a release.
const DEBUG: &str = "target/artefacts-debug";
const LICENSE: &str = "LICENSE";
/// Directory of the documents.
const DOCS: &str = "docs";
/// Documents beside this directory.
const DOCUMENTS: [&str; 3] = ["README.md", "CHANGELOG.md", "SECURITY.md"];
/// File with the sums of all artefacts.
const SUMS: &str = "SHA256SUMS";
/// Shells with the names of their completion scripts, and the directories of Debian's packages.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("bash", "knowledge", "usr/share/bash-completion/completions"),
    (
        "fish",
        "knowledge.fish",
        "usr/share/fish/vendor_completions.d",
    ),
    ("zsh", "_knowledge", "usr/share/zsh/vendor-completions"),
];

/// Runs `cargo xtask dist` with options.
///
/// # Errors If an option is unknown, an artefact cannot be made, a second one has other bytes, or
/// its check fails.
pub(crate) fn main(options: &[&str]) -> Result {
    let (mut is_debug, mut is_checked, mut binary) = (false, false, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match (*option, options.as_slice().first()) {
            ("--debug", _) => is_debug = true,
            ("--check", _) => is_checked = true,
            ("--binary", Some(path)) => {
                binary = Some(PathBuf::from(path));
                options.next();
            }
            _ => {
                return Err(
                    format!("expected --debug, --check or --binary FILE, not {option}").into(),
                );
            }
        }
    }
    tools::install_programs(&[("readelf", "binutils"), ("strip", "binutils")])?;
    let binary = match binary {
        Some(binary) => binary,
        None => binary::build(is_debug)?,
    };
    let npm = npm_package(is_debug)?;
    let artefacts = Artefacts::make(is_debug, &binary, &npm)?;
    let sums = artefacts.sums()?;
    print!("{}:\n{sums}", artefacts.directory.display());
    println!("the binary needs glibc {} or later", artefacts.glibc);
    if !is_checked {
        return Ok(());
    }
    let artefacts = Artefacts::make(is_debug, &binary, &npm)?;
    let again = artefacts.sums()?;
    if again != sums {
        return Err(format!("artefacts differ when they are made again:\n{again}").into());
    }
    check::check(&artefacts)
}

/// Makes the artefacts with the debug binary, and installs and starts each.
///
/// Compiling the release binary would take longer than most steps, and the tests have compiled the
/// debug binary.
///
/// # Errors
/// Errors of [`main`].
pub(crate) fn check() -> Result {
    main(&["--debug", "--check"])
}

/// The artefacts, by their absolute paths.
struct Artefacts {
    /// Directory of all artefacts.
    directory: PathBuf,
    /// Tar file with the binary, and the name of the directory in it.
    binary: PathBuf,
    binary_name: String,
    debian: PathBuf,
    npm: PathBuf,
    /// Tar file with the context of the container image, and the name of the directory in it.
    container: PathBuf,
    container_name: String,
    sbom: PathBuf,
    /// Oldest version of the GNU C library with which the binary starts.
    glibc: String,
}

impl Artefacts {
    /// Makes all artefacts from a compiled binary and the directory of the npm package.
    fn make(is_debug: bool, binary: &Path, npm: &Path) -> Result<Self> {
        let directory = std::env::current_dir()?.join(if is_debug { DEBUG } else { RELEASE });
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        let stage = Stage::new(&directory, binary)?;
        let archives = Archives::new(is_debug)?;
        let [architecture, debian_architecture] = architecture()?;
        let binary_name = format!("{NAME}-{VERSION}-{architecture}-linux-gnu");
        let container_name = format!("{NAME}-{VERSION}-{architecture}-container");
        let artefacts = Self {
            binary: directory.join(format!("{binary_name}.tar.gz")),
            debian: directory.join(format!("{NAME}_{VERSION}_{debian_architecture}.deb")),
            npm: directory.join(pack(npm, &directory)?),
            container: directory.join(format!("{container_name}.tar.gz")),
            sbom: directory.join(format!("{NAME}-{VERSION}.cdx.json")),
            glibc: stage.requirements.glibc.clone(),
            binary_name,
            container_name,
            directory,
        };
        stage.tarball(&artefacts.binary_name)?;
        archives.tar(&stage.directory, &artefacts.binary_name, &artefacts.binary)?;
        let package = stage.debian(debian_architecture)?;
        archives.debian(&package, &artefacts.debian)?;
        stage.container(&artefacts.container_name)?;
        archives.tar(
            &stage.directory,
            &artefacts.container_name,
            &artefacts.container,
        )?;
        fs::write(&artefacts.sbom, sbom::document(&archives.timestamp()?)?)?;
        fs::remove_dir_all(&stage.directory)?;
        artefacts.write_sums()?;
        Ok(artefacts)
    }

    /// Writes the SHA-256 sums of all artefacts, as `sha256sum --check` reads them.
    fn write_sums(&self) -> Result {
        let mut names = Vec::new();
        for file in fs::read_dir(&self.directory)? {
            names.push(file?.file_name());
        }
        names.sort();
        let mut sum = Command::new("sha256sum");
        let sums = read(sum.args(names).current_dir(&self.directory))?;
        Ok(fs::write(self.directory.join(SUMS), format!("{sums}\n"))?)
    }

    /// Returns the sums that were written.
    fn sums(&self) -> Result<String> {
        Ok(fs::read_to_string(self.directory.join(SUMS))?)
    }
}

/// Returns the directory of the npm package.
///
/// A debug build takes the one that is there: the step `wasm` has just built it.
fn npm_package(is_debug: bool) -> Result<PathBuf> {
    let directory = Path::new(PKG);
    if !(is_debug && directory.join("package.json").exists()) {
        wasm::build()?;
    }
    Ok(directory.to_owned())
}

/// Packs the npm package and returns the name of the file.
fn pack(package: &Path, into: &Path) -> Result<String> {
    tools::install_node()?;
    let node = Node::find(Path::new(NODE_MODULES))?;
    let mut pack = node.command("npm")?;
    pack.args(["pack", "--silent", "--pack-destination"])
        .arg(into);
    read(pack.current_dir(package))
}

/// Returns the names of this machine's architecture, of compilers and of Debian.
fn architecture() -> Result<[&'static str; 2]> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(["x86_64", "amd64"]),
        "aarch64" => Ok(["aarch64", "arm64"]),
        other => Err(format!("no packages for the architecture {other}").into()),
    }
}

/// Contents of the archives before they are packed.
struct Stage {
    directory: PathBuf,
    /// The binary without debugging information, as in a release.
    binary: PathBuf,
    requirements: Requirements,
}

impl Stage {
    fn new(artefacts: &Path, binary: &Path) -> Result<Self> {
        let directory = artefacts.join("stage");
        fs::create_dir_all(&directory)?;
        let stripped = directory.join(NAME);
        let mut strip = Command::new("strip");
        run(strip
            .args(["--strip-debug", "-o"])
            .args([&stripped, binary]))?;
        Ok(Self {
            requirements: Requirements::of(&stripped)?,
            binary: stripped,
            directory,
        })
    }

    /// Creates the directory of the tar file with the binary.
    fn tarball(&self, name: &str) -> Result {
        let root = self.directory.join(name);
        place(&self.binary, &root.join(NAME))?;
        place(Path::new(LICENSE), &root.join(LICENSE))?;
        for document in documents()? {
            place(&document, &root.join(&document))?;
        }
        // Its instructions are those for a build from source.
        let unit = fs::read_to_string("deploy/knowledge.service")?;
        let unit = unit.replace("target/dist/", "");
        write(&root.join("deploy/knowledge.service"), &unit)?;
        let settings = Path::new("deploy/knowledge.toml");
        place(settings, &root.join(settings))?;
        for (shell, file, _) in COMPLETIONS {
            write(
                &root.join("completions").join(file),
                &self.completion(shell)?,
            )?;
        }
        let text = format!(
            "Linux on {}, with glibc {} or later and libgcc_s.so.1\n",
            std::env::consts::ARCH,
            self.requirements.glibc
        );
        write(&root.join("REQUIREMENTS"), &text)?;
        normalise_modes(&root)
    }

    /// Creates the directory of the Debian package and returns its path.
    fn debian(&self, architecture: &str) -> Result<PathBuf> {
        let root = self.directory.join("debian");
        place(&self.binary, &root.join("usr/bin").join(NAME))?;
        let unit = debian_unit(&fs::read_to_string("deploy/knowledge.service")?)?;
        write(
            &root.join("usr/lib/systemd/system/knowledge.service"),
            &unit,
        )?;
        let settings = "etc/knowledge/knowledge.toml";
        place(Path::new("deploy/knowledge.toml"), &root.join(settings))?;
        for (shell, file, directory) in COMPLETIONS {
            write(&root.join(directory).join(file), &self.completion(shell)?)?;
        }
        let doc = root.join("usr/share/doc").join(NAME);
        place(Path::new(LICENSE), &doc.join("copyright"))?;
        for document in documents()? {
            let target = doc.join(document.strip_prefix(DOCS).unwrap_or(&document));
            if document.extension() == Some("md".as_ref()) {
                write(&target, &flatten_links(&fs::read_to_string(&document)?))?;
            } else {
                place(&document, &target)?;
            }
        }
        let control = fs::read_to_string("deploy/debian/control")?
            .replace("@VERSION@", VERSION)
            .replace("@ARCHITECTURE@", architecture)
            .replace("@DEPENDS@", &self.requirements.depends);
        write(&root.join("DEBIAN/control"), &control)?;
        write(&root.join("DEBIAN/conffiles"), &format!("/{settings}\n"))?;
        for script in ["postinst", "prerm"] {
            let source = Path::new("deploy/debian").join(script);
            place(&source, &root.join("DEBIAN").join(script))?;
        }
        normalise_modes(&root)?;
        Ok(root)
    }

    /// Creates the context of the container image.
    fn container(&self, name: &str) -> Result {
        let root = self.directory.join(name);
        let dockerfile = container::dockerfile(&fs::read_to_string("deploy/Dockerfile")?)?;
        write(&root.join("Dockerfile"), &dockerfile)?;
        place(&self.binary, &root.join(container::BINARY))?;
        let data = root.join(container::DATA);
        fs::create_dir_all(&data)?;
        normalise_modes(&root)?;
        run(Command::new("chmod").arg("0700").arg(data))
    }

    fn completion(&self, shell: &str) -> Result<String> {
        let mut print = Command::new(&self.binary);
        Ok(read(print.args(["completions", shell]))? + "\n")
    }
}

/// Returns the paths of all documents, and of their pictures.
fn documents() -> Result<Vec<PathBuf>> {
    let mut documents = DOCUMENTS.map(PathBuf::from).to_vec();
    for directory in [Path::new(DOCS), &Path::new(DOCS).join("decisions")] {
        for file in fs::read_dir(directory)? {
            let path = file?.path();
            if path.is_file() {
                documents.push(path);
            }
        }
    }
    Ok(documents)
}

/// Returns a document whose links to others are right if all are in one directory.
fn flatten_links(document: &str) -> String {
    DOCUMENTS
        .iter()
        .fold(document.replace("](docs/", "]("), |document, name| {
            document.replace(&format!("](../{name}"), &format!("]({name}"))
        })
}

/// Returns the systemd unit with the paths of the Debian package, without instructions to install.
///
/// # Errors
/// If the unit does not have these paths.
fn debian_unit(unit: &str) -> Result<String> {
    let (_, body) = unit
        .split_once("\n[Unit]\n")
        .ok_or("no [Unit] in the unit")?;
    let adapted = body.replace("=/usr/local/bin/knowledge ", "=/usr/bin/knowledge ");
    ensure(adapted != body && !adapted.contains("/usr/local"), || {
        "the unit does not start /usr/local/bin/knowledge".to_owned()
    })?;
    Ok(format!(
        "# Created by the Debian package: change it with a drop-in, by `systemctl edit \
         knowledge`.\n\n[Unit]\n{adapted}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_between_documents_lead_to_one_directory() {
        let document =
            "[a](docs/guide.md#run-it), [b](../SECURITY.md#scope), [c](../core/README.md)";
        let expected = "[a](guide.md#run-it), [b](SECURITY.md#scope), [c](../core/README.md)";
        assert_eq!(flatten_links(document), expected);
    }

    #[test]
    fn debian_unit_starts_the_installed_binary() {
        let source = include_str!("../../../deploy/knowledge.service");
        let unit = debian_unit(source).unwrap();
        assert!(
            unit.contains("\nExecStart=/usr/bin/knowledge serve\n"),
            "{unit}"
        );
        assert!(unit.contains("\nExecStartPre=/usr/bin/knowledge config check\n"));
        assert!(!unit.contains("target/dist"));
        assert!(debian_unit("[Unit]\n").is_err());
        assert!(debian_unit("# Comment\n\n[Unit]\nDescription=x\n").is_err());
    }
}
