//! Parsing of the TOML file, with the position of every value.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::kind::Raw;
use super::problem::Position;
use super::setting::Setting;
use super::suggest::{self, did_you_mean};
use super::table::SECTIONS;

/// Setting with its value, or an error message.
type Found<'t> = Result<(&'static Setting, Raw<'t>), String>;

/// Reads a file in the order of its lines and calls `each` with the byte offset of every entry. If
/// the text is not TOML, only the syntax errors are reported, and the result is false.
pub(super) fn read<'t>(text: &'t str, mut each: impl FnMut(usize, Found<'t>)) -> bool {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut found: Vec<(usize, Found<'t>)> = errors
        .iter()
        .map(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            (offset, Err(format!("not TOML: {}", error.message())))
        })
        .collect();
    let is_toml = found.is_empty();
    if is_toml {
        for (name, value) in document.get_ref() {
            table(name, value, &mut found);
        }
    }
    found.sort_by_key(|(offset, _)| *offset);
    for (offset, found) in found {
        each(offset, found);
    }
    is_toml
}

/// Collects the settings of one table of the file.
fn table<'t>(
    name: &Spanned<std::borrow::Cow<'t, str>>,
    value: &Spanned<DeValue<'t>>,
    found: &mut Vec<(usize, Found<'t>)>,
) {
    let at = name.span().start;
    let name = name.get_ref();
    let DeValue::Table(settings) = value.get_ref() else {
        let meant = suggest::setting("", name);
        let message = format!("{name} is outside any section{}", did_you_mean(meant));
        return found.push((at, Err(message)));
    };
    let Some(section) = SECTIONS.iter().find(|section| section.name == *name) else {
        let meant = suggest::section(name);
        let message = format!("unknown section {name}{}", did_you_mean(meant));
        return found.push((at, Err(message)));
    };
    for (name, value) in settings {
        let setting = section
            .settings
            .iter()
            .find(|setting| setting.name() == *name.get_ref());
        found.push(match setting {
            Some(setting) => (value.span().start, Ok((setting, raw(value.get_ref())))),
            None => {
                let meant = suggest::setting(section.name, name.get_ref());
                let path = format!("{}.{}", section.name, name.get_ref());
                let message = format!("unknown setting {path}{}", did_you_mean(meant));
                (name.span().start, Err(message))
            }
        });
    }
}

fn raw<'t>(value: &DeValue<'t>) -> Raw<'t> {
    match value {
        DeValue::String(text) => Raw::Text(text.clone()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => Raw::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Raw::Boolean(*value),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(items) => Raw::Table(
            items
                .iter()
                .map(|(name, item)| (name.get_ref().clone(), raw(item.get_ref())))
                .collect(),
        ),
    }
}

fn integer(number: &DeInteger<'_>) -> Raw<'static> {
    i128::from_str_radix(number.as_str(), number.radix())
        .map_or(Raw::Other("a number that is too large"), Raw::Integer)
}

/// Returns the line and column of a byte offset.
pub(super) fn position(path: &Path, text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}
