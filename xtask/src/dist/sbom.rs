//! The bill of materials of the binary, in the format CycloneDX.
//!
//! `cargo tree` knows all that it has, so no further tool has to be compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::process::{Result, ci_cargo, read};

/// Package of the binary.
const PACKAGE: &str = "knowledge-cli";

/// Returns the bill of materials of the release binary: the crates that are linked into it, and
/// the standard library of the compiler.
///
/// # Errors
/// If cargo or the compiler fails.
pub(super) fn document(timestamp: &str) -> Result<String> {
    let mut tree = ci_cargo("tree");
    tree.args(["--package", PACKAGE, "--edges", "normal,no-proc-macro"])
        .args(["--prefix", "depth", "--format", "|{p}|{l}"]);
    let rustc = read(std::process::Command::new("rustc").arg("--version"))?;
    let std_version = rustc.split(' ').nth(1).ok_or("rustc has no version")?;
    let lock = std::fs::read_to_string("Cargo.lock")?;
    Bill::parse(&read(&mut tree)?, std_version)?.format(&lock, timestamp)
}

/// A crate, by name and version.
type Crate = (String, String);

/// Crates with their licences and direct dependencies.
struct Bill {
    root: Crate,
    licences: BTreeMap<Crate, String>,
    dependencies: BTreeMap<Crate, BTreeSet<Crate>>,
}

impl Bill {
    /// Reads the lines of `cargo tree`: the depth, the crate with its version, and the licence.
    fn parse(tree: &str, std_version: &str) -> Result<Self> {
        let standard: Crate = ("std".to_owned(), std_version.to_owned());
        let mut licences = BTreeMap::new();
        let mut dependencies: BTreeMap<Crate, BTreeSet<Crate>> = BTreeMap::new();
        let mut path: Vec<Crate> = Vec::new();
        for line in tree.lines() {
            let read = || -> Option<(usize, Crate, String)> {
                let mut fields = line.trim_end_matches(" (*)").split('|');
                let depth = fields.next()?.parse().ok()?;
                let mut words = fields.next()?.split(' ');
                let name = words.next()?.to_owned();
                let version = words.next()?.strip_prefix('v')?.to_owned();
                // Old manifests separate alternatives by a slash.
                let licence = fields.next().filter(|licence| !licence.is_empty())?;
                let licence = licence.replace(" / ", "/").replace('/', " OR ");
                Some((depth, (name, version), licence))
            };
            let (depth, of, licence) = read().ok_or_else(|| format!("cargo tree: {line}"))?;
            path.truncate(depth);
            if let Some(parent) = path.last() {
                let parent = dependencies.entry(parent.clone()).or_default();
                parent.insert(of.clone());
            }
            dependencies.entry(of.clone()).or_default();
            licences.insert(of.clone(), licence);
            path.push(of);
        }
        let root = path.first().ok_or("cargo tree printed nothing")?.clone();
        let of_root = dependencies.entry(root.clone()).or_default();
        of_root.insert(standard.clone());
        dependencies.insert(standard.clone(), BTreeSet::new());
        licences.insert(standard, "MIT OR Apache-2.0".to_owned());
        Ok(Self {
            root,
            licences,
            dependencies,
        })
    }

    /// Returns the document. Names, versions and licences have no characters to escape.
    fn format(&self, lock: &str, timestamp: &str) -> Result<String> {
        let mut text = String::new();
        let root = self.component(&self.root, "application", lock);
        write!(
            text,
            r#"{{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,"metadata":{{"timestamp":"{timestamp}","component":{root}}},"components":["#
        )?;
        let others = self.licences.keys().filter(|of| **of != self.root);
        let others: Vec<_> = others
            .map(|of| self.component(of, "library", lock))
            .collect();
        write!(text, "\n{}],\"dependencies\":[\n", others.join(",\n"))?;
        let lines: Vec<_> = self
            .dependencies
            .iter()
            .map(|(of, on)| {
                let on: Vec<_> = on.iter().map(|on| format!("\"{}\"", url(on))).collect();
                let on = on.join(",");
                format!(r#"{{"ref":"{}","dependsOn":[{on}]}}"#, url(of))
            })
            .collect();
        writeln!(text, "{}]}}", lines.join(",\n"))?;
        Ok(text)
    }

    fn component(&self, of: &Crate, kind: &str, lock: &str) -> String {
        let (name, version) = of;
        let (url, licence) = (url(of), &self.licences[of]);
        let entry = format!("\nname = \"{name}\"\nversion = \"{version}\"\n");
        let entry = lock
            .split("[[package]]")
            .find(|part| part.starts_with(&entry));
        let checksum = entry.and_then(|entry| entry.split_once("\nchecksum = \""));
        let checksum = checksum.and_then(|(_, rest)| Some(rest.split_once('"')?.0));
        let hashes = checksum.map_or(String::new(), |checksum| {
            format!(r#","hashes":[{{"alg":"SHA-256","content":"{checksum}"}}]"#)
        });
        format!(
            r#"{{"type":"{kind}","bom-ref":"{url}","name":"{name}","version":"{version}","licenses":[{{"expression":"{licence}"}}],"purl":"{url}"{hashes}}}"#
        )
    }
}

/// Returns the package URL of a crate; the standard library is in no registry.
fn url((name, version): &Crate) -> String {
    let kind = if name == "std" { "generic" } else { "cargo" };
    format!("pkg:{kind}/{name}@{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0|server v0.1.0 (/src/server)|MIT
1|bytes v1.12.1|MIT / Apache-2.0
1|core v0.1.0 (/src/core)|MIT
2|bytes v1.12.1|MIT / Apache-2.0 (*)";
    const LOCK: &str = "
[[package]]
name = \"bytes\"
version = \"1.12.0\"
checksum = \"00\"

[[package]]
name = \"bytes\"
version = \"1.12.1\"
checksum = \"1f\"
";

    #[test]
    fn document_has_each_crate_once_with_its_dependencies() {
        let bill = Bill::parse(TREE, "1.95.0").unwrap();
        let lines = [
            r#"{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,"metadata":{"timestamp":"2026-01-02T03:04:05Z","component":{"type":"application","bom-ref":"pkg:cargo/server@0.1.0","name":"server","version":"0.1.0","licenses":[{"expression":"MIT"}],"purl":"pkg:cargo/server@0.1.0"}},"components":["#,
            r#"{"type":"library","bom-ref":"pkg:cargo/bytes@1.12.1","name":"bytes","version":"1.12.1","licenses":[{"expression":"MIT OR Apache-2.0"}],"purl":"pkg:cargo/bytes@1.12.1","hashes":[{"alg":"SHA-256","content":"1f"}]},"#,
            r#"{"type":"library","bom-ref":"pkg:cargo/core@0.1.0","name":"core","version":"0.1.0","licenses":[{"expression":"MIT"}],"purl":"pkg:cargo/core@0.1.0"},"#,
            r#"{"type":"library","bom-ref":"pkg:generic/std@1.95.0","name":"std","version":"1.95.0","licenses":[{"expression":"MIT OR Apache-2.0"}],"purl":"pkg:generic/std@1.95.0"}],"dependencies":["#,
            r#"{"ref":"pkg:cargo/bytes@1.12.1","dependsOn":[]},"#,
            r#"{"ref":"pkg:cargo/core@0.1.0","dependsOn":["pkg:cargo/bytes@1.12.1"]},"#,
            r#"{"ref":"pkg:cargo/server@0.1.0","dependsOn":["pkg:cargo/bytes@1.12.1","pkg:cargo/core@0.1.0","pkg:generic/std@1.95.0"]},"#,
            "{\"ref\":\"pkg:generic/std@1.95.0\",\"dependsOn\":[]}]}\n",
        ];
        let document = bill.format(LOCK, "2026-01-02T03:04:05Z").unwrap();
        assert_eq!(document, lines.join("\n"));
    }

    #[test]
    fn crate_without_a_licence_is_an_error() {
        assert!(Bill::parse("0|server v0.1.0 (/src/server)|", "1.95.0").is_err());
        assert!(Bill::parse("", "1.95.0").is_err());
    }
}
