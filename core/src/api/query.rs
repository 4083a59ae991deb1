//! Reads query parameters and collects every problem, not only the first.

use std::fmt::Display;
use std::str::FromStr;

use http::Uri;

use crate::error::{Error, ProblemCode};
use crate::request::Problems;
use crate::service::PageRequest;

/// The query parameters of a request, read one by one.
pub(super) struct Query {
    parameters: Vec<(String, String)>,
    known: Vec<&'static str>,
    problems: Problems,
}

impl Query {
    /// Parses the query in the encoding of HTML forms (URL Standard, 5.1).
    pub(super) fn parse(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self {
            parameters: form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
            known: Vec::new(),
            problems: Problems::default(),
        }
    }

    /// Reads a text; `None` if it is absent.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let mut values = self.parameters.iter().filter(|(found, _)| found == name);
        let value = values.next().map(|(_, value)| value.clone());
        if values.next().is_some() {
            self.problems
                .push(name, ProblemCode::Duplicate, "must not be repeated");
        }
        value
    }

    /// Reads a text and parses it. The error of the type becomes the message.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        let text = self.text(name)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                // The encoding of forms reads `+` as a blank, also before the offset of a time.
                let is_plus = text.contains(' ') && text.replace(' ', "+").parse::<T>().is_ok();
                let hint = if is_plus { "; write + as %2B" } else { "" };
                let message = format!("{error}{hint}");
                self.problems.push(name, ProblemCode::InvalidValue, message);
                None
            }
        }
    }

    /// Reads a flag: `true` or `false`.
    pub(super) fn flag(&mut self, name: &'static str) -> Option<bool> {
        match self.text(name)?.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                let message = "must be true or false";
                self.problems.push(name, ProblemCode::InvalidValue, message);
                None
            }
        }
    }

    /// Reads an identifier, which is required.
    pub(super) fn required_id<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Option<T> {
        if !self.has(name) {
            self.problems
                .push(name, ProblemCode::Required, "is required");
        }
        self.parsed(name)
    }

    /// Returns true if a parameter was sent.
    pub(super) fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|(found, _)| found == name)
    }

    /// Returns the problems found so far, to add those of further checks.
    pub(super) fn problems(&mut self) -> &mut Problems {
        &mut self.problems
    }

    /// Reads the requested page of a list: `limit` and `cursor`.
    pub(super) fn page(&mut self) -> PageRequest {
        let limit = self.text("limit").map(|text| {
            // A text that is not a number is out of range.
            text.parse().unwrap_or(usize::MAX)
        });
        let page = PageRequest {
            limit,
            cursor: self.parsed("cursor"),
        };
        page.check(&mut self.problems);
        page
    }

    /// Completes the query: returns `value` if there were no problems.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, Error> {
        let expected = self.known.join(", ");
        for (name, _) in &self.parameters {
            if !self.known.contains(&name.as_str()) {
                let message = if self.known.is_empty() {
                    "is unknown; this operation has no query parameters".to_owned()
                } else {
                    format!("is unknown; known parameters: {expected}")
                };
                self.problems
                    .push(name.clone(), ProblemCode::UnknownField, message);
            }
        }
        self.problems.into_result()?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ReviewStatus, Timestamp};

    fn query(text: &'static str) -> Query {
        Query::parse(&Uri::from_static(text))
    }

    fn problems(error: Error) -> Vec<String> {
        let Error::InvalidRequest { fields } = error else {
            panic!("{error}");
        };
        fields.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn query_parameters_are_read_by_name() {
        let mut query = query("/v1/x?reviewStatus=pending&limit=7&text=a%20b+c");
        assert_eq!(query.parsed("reviewStatus"), Some(ReviewStatus::Pending));
        assert_eq!(query.text("text").as_deref(), Some("a b c"));
        assert_eq!(query.page().limit, Some(7));
        assert!(query.finish(()).is_ok());
    }

    #[test]
    fn plus_of_a_time_zone_is_explained() {
        let mut query =
            query("/v1/x?from=2026-01-31T09:30:00+01:00&to=2026-01-31T09:30:00%2B01:00");
        assert_eq!(query.parsed::<Timestamp>("from"), None);
        assert!(query.parsed::<Timestamp>("to").is_some());
        let problems = problems(query.finish(()).unwrap_err());
        assert!(problems[0].ends_with("; write + as %2B"), "{problems:?}");
    }

    #[test]
    fn query_reports_every_problem() {
        let mut query = query("/v1/x?reviewStatus=done&limit=0&cursor=%21&cursor=%21&other=1");
        assert_eq!(query.parsed::<ReviewStatus>("reviewStatus"), None);
        query.page();
        assert_eq!(
            problems(query.finish(()).unwrap_err()),
            [
                "reviewStatus must be one of pending, approved, rejected",
                "cursor must not be repeated",
                "cursor must be an unmodified next_cursor of this list",
                "limit must be a number from 1 to 200",
                "other is unknown; known parameters: reviewStatus, limit, cursor",
            ]
        );
    }
}
