//! What was probably meant by a name that is not known.

use super::load::settings;
use super::{SECTIONS, Setting};

/// How alike names must be, from 0 to 1, so that one is worth a suggestion.
const SIMILARITY_MIN: f64 = 0.6;

/// The section that was meant.
pub(super) fn section(name: &str) -> Option<&'static str> {
    nearest(name, SECTIONS.iter().map(|section| section.name))
}

/// The path of the setting that was meant: one of this name in another section, or else one of nearly this name in
/// this section or the one that was meant by it.
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

/// The end of a message about a name that is not known.
pub(super) fn did_you_mean(name: Option<impl AsRef<str>>) -> String {
    name.map_or_else(String::new, |name| {
        format!("; did you mean {}?", name.as_ref())
    })
}
