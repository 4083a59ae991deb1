//! Canonical form of an entry as a line, so that any other spelling is detected.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::Summary;
use crate::digest::hex;
use crate::store::Key;

/// Running count and checksum of the lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    sha256: Sha256,
    pub(super) entries: u64,
    pub(super) last_key: Option<Key>,
}

impl Tally {
    /// Adds a line that is not an entry.
    pub(super) fn line(&mut self, line: &[u8]) {
        self.sha256.update(line);
    }

    pub(super) fn entry(&mut self, key: Key, line: &[u8]) {
        self.sha256.update(line);
        self.entries += 1;
        self.last_key = Some(key);
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            entries: self.entries,
            sha256: hex(self.sha256.clone().finalize()),
        }
    }
}

/// Writes a header or a summary.
pub(super) fn write_record(out: &mut Vec<u8>, record: &impl Serialize) {
    serde_json::to_writer(&mut *out, record).expect("headers and summaries serialise into memory");
    out.push(b'\n');
}

/// Writes an entry.
pub(super) fn write_entry(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    match std::str::from_utf8(key) {
        Ok(text) => {
            out.extend_from_slice(b"{\"key\":");
            serde_json::to_writer(&mut *out, text).expect("text serialises into memory");
        }
        Err(_) => {
            out.extend_from_slice(b"{\"key_base64\":");
            write_base64(out, key);
        }
    }
    if is_one_line_of_json(value) {
        out.extend_from_slice(b",\"value\":");
        out.extend_from_slice(value);
    } else {
        out.extend_from_slice(b",\"value_base64\":");
        write_base64(out, value);
    }
    out.extend_from_slice(b"}\n");
}

fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

/// Returns true if a value can be embedded in a line unchanged.
fn is_one_line_of_json(value: &[u8]) -> bool {
    let is_json = |value| {
        // Surrounding white space would be lost.
        serde_json::from_slice::<&RawValue>(value).is_ok_and(|raw| raw.get().len() == value.len())
    };
    !value.iter().any(|byte| matches!(byte, b'\n' | b'\r')) && is_json(value)
}

/// Reads an entry; `None` if the line is not exactly the output of [`write_entry`].
pub(super) fn read_entry(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (key, rest) = match line.strip_prefix(b"{\"key\":") {
        Some(rest) => {
            let (text, rest) = read_text(rest)?;
            (text.into_bytes(), rest)
        }
        None => {
            let (text, rest) = read_text(line.strip_prefix(b"{\"key_base64\":")?)?;
            (STANDARD.decode(text).ok()?, rest)
        }
    };
    let value = match rest.strip_prefix(b",\"value\":") {
        Some(rest) => rest.strip_suffix(b"}\n")?.to_vec(),
        None => {
            let (text, _) = read_text(rest.strip_prefix(b",\"value_base64\":")?)?;
            STANDARD.decode(text).ok()?
        }
    };
    let mut written = Vec::with_capacity(line.len());
    write_entry(&mut written, &key, &value);
    (written == line).then_some((key, value))
}

/// Reads a JSON string; returns it with the rest of the line.
fn read_text(line: &[u8]) -> Option<(String, &[u8])> {
    let mut texts = serde_json::Deserializer::from_slice(line).into_iter::<String>();
    let text = texts.next()?.ok()?;
    Some((text, &line[texts.byte_offset()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(key: &[u8], value: &[u8]) -> String {
        let mut line = Vec::new();
        write_entry(&mut line, key, value);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn line_round_trips_any_key_and_value() {
        let lines: [(&[u8], &[u8], &str); 9] = [
            (b"a", b"{\"b\":1}", r#"{"key":"a","value":{"b":1}}"#),
            (b"count", b"-12", r#"{"key":"count","value":-12}"#),
            (b"mark", b"null", r#"{"key":"mark","value":null}"#),
            (b"\"\n", b"\"\\n\"", r#"{"key":"\"\n","value":"\n"}"#),
            (b"\xff", b"1", r#"{"key_base64":"/w==","value":1}"#),
            (b"a", b"", r#"{"key":"a","value_base64":""}"#),
            (b"a", b" 1", r#"{"key":"a","value_base64":"IDE="}"#),
            (b"a", b"[\n]", r#"{"key":"a","value_base64":"Wwpd"}"#),
            (b"a", b"\xff}", r#"{"key":"a","value_base64":"/30="}"#),
        ];
        for (key, value, line) in lines {
            let line = format!("{line}\n");
            assert_eq!(written(key, value), line);
            let read = read_entry(line.as_bytes());
            assert_eq!(read, Some((key.to_vec(), value.to_vec())), "{line}");
        }
    }

    #[test]
    fn line_parser_accepts_canonical_form_only() {
        for line in [
            "{\"key\":\"a\",\"value\":1}",
            "{\"key\":\"a\",\"value\":1}\r\n",
            "{\"key\":\"a\", \"value\":1}\n",
            "{\"key\":\"a\",\"value\": 1}\n",
            "{\"key\":\"\\u0061\",\"value\":1}\n",
            "{\"value\":1,\"key\":\"a\"}\n",
            "{\"key\":\"a\",\"value\":1,\"more\":2}\n",
            "{\"key\":\"a\",\"value\":}\n",
            "{\"key\":\"a\",\"value\":1}}\n",
            "{\"key\":\"a\",\"value_base64\":\"MQ==\"}\n",
            "{\"key\":\"a\",\"value_base64\":\"/30\"}\n",
            "{\"key_base64\":\"YQ==\",\"value\":1}\n",
            "{\"key\":\"a\"}\n",
            "\n",
        ] {
            assert_eq!(read_entry(line.as_bytes()), None, "{line}");
        }
    }
}
