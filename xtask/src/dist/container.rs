//! The context of a container image with the binary, derived from `deploy/Dockerfile`.

use crate::process::{Result, ensure};

/// Name of the binary in the context.
pub(super) const BINARY: &str = "knowledge";
/// Name of the empty data directory in the context.
pub(super) const DATA: &str = "data";

/// Returns the image's last stage, whose copies come from the context instead of the first stage.
///
/// # Errors
/// If the file has not two stages, or the second one copies something else.
pub(super) fn dockerfile(source: &str) -> Result<String> {
    let (before, stage) = source
        .rsplit_once("\nFROM ")
        .filter(|(before, _)| before.contains("\nFROM "))
        .ok_or("deploy/Dockerfile has not two stages")?;
    let arguments = before.lines().filter(|line| line.starts_with("ARG DEBIAN"));
    let stage = stage.replace("--from=build ", "").replace(" /out/", " ");
    let text = format!(
        "# Container image of the server. In this directory:\n#\n\
         #     docker build --tag knowledge .\n\n{}\n\nFROM {stage}",
        arguments.collect::<Vec<_>>().join("\n")
    );
    let expected = [BINARY, DATA];
    let is_expected = copies(&text).map(|copy| copy.source).eq(expected);
    ensure(is_expected && !text.contains("build /"), || {
        format!("the last stage of deploy/Dockerfile has to copy {expected:?}")
    })?;
    Ok(text)
}

/// A `COPY` instruction.
pub(super) struct Copy<'d> {
    pub(super) owner: Option<&'d str>,
    pub(super) source: &'d str,
    pub(super) target: &'d str,
}

/// Returns the `COPY` instructions.
pub(super) fn copies(dockerfile: &str) -> impl Iterator<Item = Copy<'_>> {
    let lines = dockerfile.lines();
    lines.filter_map(|line| {
        let (options, rest): (Vec<_>, Vec<_>) = line
            .strip_prefix("COPY ")?
            .split(' ')
            .partition(|word| word.starts_with("--"));
        let owner = |option: &&'_ str| option.starts_with("--chown=");
        Some(Copy {
            owner: options.into_iter().find(owner).map(|option| &option[8..]),
            source: rest.first()?,
            target: rest.last()?,
        })
    })
}

/// Returns the value of an instruction that is on one line.
///
/// # Errors
/// If there is none.
pub(super) fn instruction<'d>(dockerfile: &'d str, name: &str) -> Result<&'d str> {
    let mut lines = dockerfile.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.ok_or_else(|| format!("the Dockerfile has no {name}").into())
}

/// Returns each setting, `KNOWLEDGE_…=value`, of a Dockerfile or a systemd unit.
pub(super) fn settings(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_ascii_whitespace)
        .map(|word| word.trim_start_matches("Environment="))
        .filter(|word| word.starts_with("KNOWLEDGE_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = include_str!("../../../deploy/Dockerfile");

    #[test]
    fn dockerfile_is_the_last_stage_without_a_build() {
        let text = dockerfile(SOURCE).unwrap();
        assert!(
            !text.contains("cargo") && !text.contains("--from="),
            "{text}"
        );
        let copied: Vec<_> = copies(&text)
            .map(|copy| (copy.owner, copy.source, copy.target))
            .collect();
        let expected = [
            (None, "knowledge", "/usr/local/bin/knowledge"),
            (Some("10001:10001"), "data", "/var/lib/knowledge"),
        ];
        assert_eq!(copied, expected);
        let (_, stage) = SOURCE.rsplit_once("\nUSER ").unwrap();
        assert!(text.ends_with(stage), "{text}");
        assert!(text.find("ARG DEBIAN_VERSION=") < text.find("FROM debian:${DEBIAN_VERSION}"));
        assert_eq!(instruction(&text, "USER").unwrap(), "10001:10001");
        assert_eq!(settings(&text), settings(SOURCE));
        assert_eq!(settings(&text).len(), 4);
    }

    #[test]
    fn dockerfile_rejects_copies_that_the_context_lacks() {
        let more = SOURCE.replace("USER ", "COPY --from=build /out/more /more\nUSER ");
        assert!(dockerfile(&more).is_err());
        let (_, one) = SOURCE.rsplit_once("\nFROM ").unwrap();
        assert!(dockerfile(&format!("\nFROM {one}")).is_err());
    }
}
