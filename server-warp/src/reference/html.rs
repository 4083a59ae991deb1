//! HTML output.

use std::fmt::{self, Display, Write as _};

/// Displays a text with HTML's special characters escaped.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.to_string().chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Renders a line of the descriptions' Markdown: `code` and **strong**.
pub(super) fn line(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = Escaped(part).to_string();
        if index % 2 == 1 {
            let _ = write!(html, "<code>{part}</code>");
            continue;
        }
        for (index, part) in part.split("**").enumerate() {
            let _ = match index % 2 {
                1 => write!(html, "<strong>{part}</strong>"),
                _ => write!(html, "{part}"),
            };
        }
    }
    html
}

/// Renders the paragraphs of a description.
pub(super) fn paragraphs(text: &str) -> String {
    text.split("\n\n")
        .filter(|text| !text.is_empty())
        .map(|text| format!("<p>{}</p>\n", line(text)))
        .collect()
}

/// Mark of what may be omitted.
pub(super) const OPTIONAL: &str = " <span class=optional>optional</span>";

/// Renders a row of a table: a name with its mark, its kind, and the HTML about it.
pub(super) fn row(name: &str, mark: &str, kind: &str, about: &str) -> String {
    let name = Escaped(name);
    format!(
        "<tr><th scope=row><code>{name}</code>{mark}</th>\
         <td class=kind>{kind}</td><td>{about}</td></tr>\n"
    )
}

/// Renders a table of these rows.
pub(super) fn table(rows: &str) -> String {
    format!("<div class=wide><table>\n{rows}</table></div>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_elements_and_other_text_is_escaped() {
        assert_eq!(
            line("**No** `a < b` & \"c\""),
            "<strong>No</strong> <code>a &lt; b</code> &amp; &quot;c&quot;"
        );
        assert_eq!(paragraphs("a\n\nb"), "<p>a</p>\n<p>b</p>\n");
    }
}
