//! Problems that a request is expected to have.

use knowledge_core::ProblemCode;

use super::ErrorResponse;

/// Problems of a request, in the order in which errors are compared.
#[derive(Debug, Default)]
pub(crate) struct RequestErrors(pub(crate) Vec<(String, ProblemCode)>);

impl RequestErrors {
    pub(crate) fn push(&mut self, path: impl Into<String>, code: ProblemCode) {
        self.0.push((path.into(), code));
    }

    pub(crate) fn when(&mut self, is_wrong: bool, path: &str, code: ProblemCode) {
        if is_wrong {
            self.push(path, code);
        }
    }

    /// Checks a name or a title.
    pub(crate) fn name(&mut self, path: &str, name: &str) {
        if name.chars().count() > 128 {
            self.push(path, ProblemCode::TooLarge);
        } else if name
            .chars()
            .all(|char| char.is_whitespace() || char == '\u{200b}')
        {
            self.push(path, ProblemCode::TooSmall);
        } else if name
            .chars()
            .any(|char| char.is_control() || char == '\u{202e}')
        {
            self.push(path, ProblemCode::InvalidValue);
        }
    }

    pub(crate) fn slug(&mut self, path: &str, slug: &str) {
        let is_slug = (1..=64).contains(&slug.len())
            && slug
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c));
        self.when(!is_slug, path, ProblemCode::InvalidValue);
    }

    pub(crate) fn count(&mut self, path: &str, count: usize, max: usize) {
        self.when(count == 0, path, ProblemCode::TooSmall);
        self.when(count > max, path, ProblemCode::TooLarge);
    }

    /// Checks that no item of a list repeats an earlier one.
    pub(crate) fn distinct<T: PartialEq>(&mut self, path: &str, items: &[T]) {
        for (index, item) in items.iter().enumerate() {
            let is_second = items[..index].contains(item);
            self.when(
                is_second,
                &format!("{path}[{index}]"),
                ProblemCode::Duplicate,
            );
        }
    }

    /// Checks that all items of a list are known.
    pub(crate) fn known<T>(&mut self, path: &str, items: &[T], is_known: impl Fn(&T) -> bool) {
        for (index, item) in items.iter().enumerate() {
            self.when(
                !is_known(item),
                &format!("{path}[{index}]"),
                ProblemCode::NotFound,
            );
        }
    }

    /// Checks the text of a memory or a message.
    pub(crate) fn text(&mut self, path: &str, text: &str, bytes_max: usize) {
        if text.contains('\0') {
            self.push(path, ProblemCode::InvalidValue);
            return;
        }
        let escaped = text.chars().map(|c| match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\u{1}'..='\u{1f}' => 6,
            other => other.len_utf8(),
        });
        let is_too_large = text.len() > bytes_max || escaped.sum::<usize>() + 2 > 60 * 1024;
        self.when(text.is_empty(), path, ProblemCode::TooSmall);
        self.when(is_too_large, path, ProblemCode::TooLarge);
    }

    /// Continues with the permissions if the request is valid.
    ///
    /// If both are wrong, either error is allowed.
    pub(crate) fn then<T>(
        mut self,
        authorised: Result<T, ErrorResponse>,
    ) -> Result<T, Vec<ErrorResponse>> {
        self.0.sort();
        match authorised {
            Ok(authorised) if self.0.is_empty() => Ok(authorised),
            Ok(_) => Err(vec![ErrorResponse::Invalid(self.0)]),
            Err(error) if self.0.is_empty() => Err(vec![error]),
            Err(error) => Err(vec![error, ErrorResponse::Invalid(self.0)]),
        }
    }
}

/// Returns an error with all errors that apply, if there are any.
pub(crate) fn none_of(errors: Vec<ErrorResponse>) -> Result<(), Vec<ErrorResponse>> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}
