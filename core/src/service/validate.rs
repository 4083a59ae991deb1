//! The rules for names, slugs and texts, enforced where they come in.

use crate::error::{Error, FieldProblem, ProblemCode};
use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX};
use crate::model::is_label_name;

/// What a slug, a handle and the name of a team have to be.
pub const SLUG_RULE: &str = "must have 1 to 64 characters of a-z 0-9 - _ .";

/// What is wrong with a name or a title: it has 1 to 128 characters, and not white space alone.
#[must_use]
pub fn name_problem(path: &str, name: &str) -> Option<FieldProblem> {
    let chars = name.chars().count();
    let code = match chars {
        _ if chars > NAME_CHARS_MAX => ProblemCode::TooLarge,
        _ if name.trim().is_empty() => ProblemCode::TooSmall,
        _ if name.chars().any(char::is_control) => ProblemCode::InvalidValue,
        _ => return None,
    };
    let message = format!(
        "must have 1 to {NAME_CHARS_MAX} characters, not white space alone and no control characters"
    );
    Some(FieldProblem::new(path, code, message))
}

/// Collects what is wrong with a request.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<FieldProblem>);

impl Problems {
    pub(crate) fn push(
        &mut self,
        path: impl Into<String>,
        code: ProblemCode,
        message: impl Into<String>,
    ) {
        self.0.push(FieldProblem::new(path, code, message));
    }

    pub(crate) fn name(&mut self, path: &str, name: &str) {
        self.0.extend(name_problem(path, name));
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

    /// A list of `count` items has to have between 1 and `max`.
    pub(crate) fn count(&mut self, path: &str, count: usize, max: usize) {
        let code = match count {
            0 => ProblemCode::TooSmall,
            _ if count > max => ProblemCode::TooLarge,
            _ => return,
        };
        self.push(
            path,
            code,
            format!("must have 1 to {max} items, this has {count}"),
        );
    }

    /// Adds the problems of an inner object, under its name.
    pub(crate) fn extend_under(&mut self, name: &str, inner: Self) {
        let under = |problem: FieldProblem| FieldProblem {
            path: format!("{name}.{}", problem.path),
            ..problem
        };
        self.0.extend(inner.0.into_iter().map(under));
    }

    /// Keeps the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.0.truncate(count);
    }

    /// Nothing, or everything that is wrong.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Error::InvalidRequest { fields: self.0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_in_characters() {
        assert_eq!(name_problem("name", &"ä".repeat(128)), None);
        assert_eq!(
            name_problem("name", &"ä".repeat(129)).unwrap().code,
            ProblemCode::TooLarge
        );
        assert_eq!(
            name_problem("name", " \t").unwrap().code,
            ProblemCode::TooSmall
        );
        assert_eq!(
            name_problem("name", "a\u{7}b").unwrap().code,
            ProblemCode::InvalidValue
        );
    }
}
