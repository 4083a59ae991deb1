//! Validation of names, slugs, texts and lists in requests.

use crate::error::{Error, FieldProblem, ProblemCode};
use crate::limits::{DESCRIPTION_CHARS_MAX, Limits};
use crate::model::is_label_name;
use crate::store::{Key, Transaction};

/// Rule for slugs, handles and names of teams.
pub const SLUG_RULE: &str = "must have 1 to 64 characters of a-z 0-9 - _ .";

/// Returns the problem of a name or title, if it has one.
///
/// It must have 1 to [`Limits::name_chars_max`] characters, not only white space, and no control
/// characters.
#[must_use]
pub fn name_problem(path: &str, name: &str, limits: &Limits) -> Option<FieldProblem> {
    let chars_max = limits.name_chars_max;
    let code = match name.chars().count() {
        chars if chars > chars_max => ProblemCode::TooLarge,
        _ if name.trim().is_empty() => ProblemCode::TooSmall,
        _ if name.chars().any(char::is_control) => ProblemCode::InvalidValue,
        _ => return None,
    };
    let message = format!(
        "must have 1 to {chars_max} characters, not only white space, and no control characters"
    );
    Some(FieldProblem::new(path, code, message))
}

/// Maximum number of problems in one response; further ones are dropped.
const PROBLEMS_MAX: usize = 100;
/// Maximum length of a path in characters: the sender chooses the names of unknown fields.
const PATH_CHARS_MAX: usize = 200;
/// Maximum size of content in its JSON form, in bytes.
///
/// The content fits into one value with the rest of its record.
const CONTENT_JSON_BYTES_MAX: usize = 60 * 1024;

/// The problems of a request.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<FieldProblem>);

impl Problems {
    pub(crate) fn push(
        &mut self,
        path: impl Into<String>,
        code: ProblemCode,
        message: impl Into<String>,
    ) {
        if !self.is_full() {
            self.add(FieldProblem::new(path, code, message));
        }
    }

    fn add(&mut self, mut problem: FieldProblem) {
        if self.is_full() {
            return;
        }
        if let Some((end, _)) = problem.path.char_indices().nth(PATH_CHARS_MAX) {
            problem.path.truncate(end);
        }
        self.0.push(problem);
    }

    /// Returns true if further problems are dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= PROBLEMS_MAX
    }

    pub(crate) fn name(&mut self, path: &str, name: &str, limits: &Limits) {
        name_problem(path, name, limits)
            .into_iter()
            .for_each(|problem| self.add(problem));
    }

    pub(crate) fn slug(&mut self, path: &str, slug: &str) {
        if !is_label_name(slug) {
            self.push(path, ProblemCode::InvalidValue, SLUG_RULE);
        }
    }

    pub(crate) fn description(&mut self, path: &str, text: &str) {
        if text.chars().count() > DESCRIPTION_CHARS_MAX {
            self.push(
                path,
                ProblemCode::TooLarge,
                format!("must have at most {DESCRIPTION_CHARS_MAX} characters"),
            );
        }
    }

    /// Checks that a text has 1 to `bytes_max` bytes and fits into one value.
    pub(crate) fn content(&mut self, path: &str, text: &str, bytes_max: usize) {
        let json_bytes = || serde_json::to_string(text).map_or(usize::MAX, |json| json.len());
        let code = match text.len() {
            0 => ProblemCode::TooSmall,
            bytes if bytes > bytes_max || json_bytes() > CONTENT_JSON_BYTES_MAX => {
                ProblemCode::TooLarge
            }
            _ => return,
        };
        let message = format!(
            "must have 1 to {bytes_max} bytes, and at most {CONTENT_JSON_BYTES_MAX} once JSON escapes it"
        );
        self.push(path, code, message);
    }

    /// Checks that a list of `count` items has at most `max`.
    pub(crate) fn at_most(&mut self, path: &str, count: usize, max: usize) {
        if count > max {
            let message = format!("must have at most {max} items, not {count}");
            self.push(path, ProblemCode::TooLarge, message);
        }
    }

    /// Checks that a list of `count` items has 1 to `max`.
    pub(crate) fn count(&mut self, path: &str, count: usize, max: usize) {
        let code = match count {
            0 => ProblemCode::TooSmall,
            _ if count > max => ProblemCode::TooLarge,
            _ => return,
        };
        self.push(
            path,
            code,
            format!("must have 1 to {max} items, not {count}"),
        );
    }

    /// Adds the problems that a check found.
    ///
    /// # Errors
    /// An error other than [`Error::InvalidRequest`], unchanged.
    pub(crate) fn note(&mut self, checked: Result<(), Error>) -> Result<(), Error> {
        match checked {
            Err(Error::InvalidRequest { fields }) => {
                fields.into_iter().for_each(|problem| self.add(problem));
            }
            other => other?,
        }
        Ok(())
    }

    /// Adds the problems of an inner object, with `name` before their paths.
    pub(crate) fn extend_under(&mut self, name: &str, inner: Self) {
        let under = |problem: FieldProblem| FieldProblem {
            path: format!("{name}.{}", problem.path),
            ..problem
        };
        inner
            .0
            .into_iter()
            .map(under)
            .for_each(|problem| self.add(problem));
    }

    /// Returns an error with the problems, if there are any.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with the problems that one response lists.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Error::InvalidRequest { fields: self.0 })
        }
    }
}

/// Reserves one unit of the quota that `counter` counts.
///
/// The counter is a guard: of two callers that reserve the last unit, one is rejected.
///
/// # Errors
/// [`Error::InvalidRequest`] if the quota is exhausted.
pub(crate) async fn reserve_quota(
    transaction: &mut Transaction,
    counter: Key,
    limit: u64,
    path: &str,
    (owner, things): (&str, &str),
) -> Result<(), Error> {
    let taken = transaction.guard(&counter).await? + transaction.added(&counter);
    if u64::try_from(taken).is_ok_and(|taken| taken >= limit) {
        let message = format!("the {owner} already has {limit} {things}, the maximum");
        return Err(Error::invalid(path, ProblemCode::LimitReached, message));
    }
    transaction.add(counter, 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_problems_is_bounded_in_length_and_size() {
        let mut problems = Problems::default();
        for _ in 0..PROBLEMS_MAX + 1 {
            problems.push("ü".repeat(1_000), ProblemCode::UnknownField, "is not known");
        }
        let Err(Error::InvalidRequest { fields }) = problems.into_result() else {
            panic!("there are problems");
        };
        assert_eq!(fields.len(), PROBLEMS_MAX);
        assert!(
            fields
                .iter()
                .all(|field| field.path == "ü".repeat(PATH_CHARS_MAX))
        );
    }

    #[test]
    fn name_length_is_counted_in_characters() {
        let limits = Limits::default();
        assert_eq!(name_problem("name", &"ä".repeat(128), &limits), None);
        assert_eq!(
            name_problem("name", &"ä".repeat(129), &limits)
                .unwrap()
                .code,
            ProblemCode::TooLarge
        );
        assert_eq!(
            name_problem("name", " \t", &limits).unwrap().code,
            ProblemCode::TooSmall
        );
        assert_eq!(
            name_problem("name", "a\u{7}b", &limits).unwrap().code,
            ProblemCode::InvalidValue
        );
        let short = Limits {
            name_chars_max: 3,
            ..limits
        };
        assert_eq!(name_problem("name", "äöü", &short), None);
        let problem = name_problem("name", "äöüß", &short).unwrap();
        assert!(problem.message.starts_with("must have 1 to 3 characters"));
    }
}
