//! Suggestions for unknown names.

use super::Setting;
use super::table::{SECTIONS, settings};

/// Minimum similarity of a suggestion, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.6;

/// Returns the most similar section.
pub(super) fn section(name: &str) -> Option<&'static str> {
    nearest(name, SECTIONS.iter().map(|section| section.name))
}

/// Returns the path of the most similar setting.
///
/// It is a setting with the same name in another section, or else one with a similar name in this
/// section or the section most similar to it.
pub(super) fn setting(in_section: &str, name: &str) -> Option<&'static str> {
    let elsewhere = settings().find(|setting| setting.name() == name);
    if let Some(setting) = elsewhere {
        return Some(setting.path);
    }
    let section = section(in_section)?;
    let within = || settings().filter(move |setting| setting.section() == section);
    let nearest = nearest(name, within().map(Setting::name))?;
    let found = within().find(|setting| setting.name() == nearest);
    found.map(|setting| setting.path)
}

fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    known
        .map(|known| (strsim::normalized_damerau_levenshtein(name, known), known))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, known)| known)
}

/// Returns the end of a message about an unknown name.
pub(super) fn did_you_mean(name: Option<impl AsRef<str>>) -> String {
    name.map_or_else(String::new, |name| {
        format!("; did you mean {}?", name.as_ref())
    })
}
