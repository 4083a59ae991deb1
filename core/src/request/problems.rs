//! Problems of requests.

use crate::error::{Error, FieldProblem, ProblemCode};

/// Rule for slugs, handles and names of teams.
pub(super) const SLUG_RULE: &str = "must have 1 to 64 characters of a-z 0-9 - _ .";

/// Maximum number of problems in one response; further ones are dropped.
const PROBLEMS_MAX: usize = 100;
/// Maximum length of a path in characters: the sender chooses the names of unknown fields.
const PATH_CHARS_MAX: usize = 200;
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

    /// Returns true if one is of a field, or of a part of it.
    pub(crate) fn concern(&self, field: &str) -> bool {
        self.0.iter().any(|problem| problem.path.starts_with(field))
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of problems.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds problems of places that have none yet.
    pub(crate) fn add_of_other_places(&mut self, found: Self) {
        let known: Vec<_> = self.0.iter().map(|problem| problem.path.clone()).collect();
        let others = found.0.into_iter();
        others
            .filter(|problem| !known.contains(&problem.path))
            .for_each(|problem| self.add(problem));
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

    /// Returns an error with the problems, if there are any.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with the problems that one response lists.
    pub(crate) fn into_result(self) -> Result<(), Error> {
        if self.is_empty() {
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
}
