//! Texts for a terminal, to which a foreign one must not give commands.
//!
//! Names, types and messages come from files, requests and servers. Everything that the command
//! line prints passes this module, and control characters are escaped, as `\u{1b}`. `eprint!` and
//! `eprintln!` in this crate are not those of the standard library: `lib.rs` defines them to come
//! here, so that no command can forget it.

use std::borrow::Cow;
use std::io::Write;

/// Returns a foreign text for one line: white space becomes blanks.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let blank = |char: char| char.is_control() && char.is_whitespace();
    Cow::Owned(lines(&text.replace(blank, " "), false))
}

/// Returns a text of any number of lines. With `has_styles`, its colours and weights are kept.
pub(crate) fn lines(text: &str, has_styles: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for (index, char) in text.char_indices() {
        let is_kept = match char {
            '\n' | '\t' => true,
            '\u{1b}' => has_styles && begins_style(&text[index..]),
            char => !char.is_control(),
        };
        if is_kept {
            shown.push(char);
        } else {
            shown.extend(char.escape_unicode());
        }
    }
    shown
}

/// Returns a JSON text that is equal for programs: `serde_json` escapes the characters below U+0020
/// only.
pub(crate) fn json(text: &str) -> String {
    let escape = |mut shown: String, char: char| {
        if char.is_control() {
            shown += &format!("\\u{:04x}", u32::from(char));
        } else {
            shown.push(char);
        }
        shown
    };
    text.chars().fold(String::with_capacity(text.len()), escape)
}

/// Writes a text to standard error. Nobody is left to be told if that fails.
pub(crate) fn notice(text: &str) {
    let _ = std::io::stderr()
        .lock()
        .write_all(lines(text, false).as_bytes());
}

/// Returns true if a text begins with a sequence that sets colours and weights (SGR of ECMA-48).
fn begins_style(text: &str) -> bool {
    let parameters = text
        .strip_prefix("\u{1b}[")
        .map(|rest| rest.trim_start_matches(|char: char| char.is_ascii_digit() || char == ';'));
    parameters.is_some_and(|rest| rest.starts_with('m'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets the title of a window, moves the cursor, erases a line, and the same in one character.
    const COMMANDS: &str = "\u{1b}]0;owned\u{7}\u{1b}[2A\u{1b}[2K\u{9b}2J\u{7f}\r";

    #[test]
    fn control_characters_are_escaped() {
        let escaped = r"\u{1b}]0;owned\u{7}\u{1b}[2A\u{1b}[2K\u{9b}2J\u{7f}";
        for has_styles in [false, true] {
            let expected = format!("a\n\tb {escaped}\\u{{d}}");
            assert_eq!(lines(&format!("a\n\tb {COMMANDS}"), has_styles), expected);
        }
        assert_eq!(plain(COMMANDS), format!("{escaped} "));
        assert_eq!(plain("Grüße\n\tan alle"), "Grüße  an alle");
    }

    #[test]
    fn styles_are_kept_on_request() {
        let bold = "\u{1b}[1;36mAcme\u{1b}[0m";
        assert_eq!(lines(bold, true), bold);
        let escaped = r"\u{1b}[1;36mAcme\u{1b}[0m";
        assert_eq!(lines(bold, false), escaped);
        assert_eq!(plain(bold), escaped);
    }

    #[test]
    fn escaped_json_is_equal_for_programs() {
        let value = serde_json::json!({ "type": COMMANDS });
        let shown = json(&value.to_string());
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}
