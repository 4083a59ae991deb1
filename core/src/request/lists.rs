//! Rules of lists and of objects.

use std::collections::HashSet;
use std::hash::Hash;
use std::marker::PhantomData;

use foldhash::fast::RandomState;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::checks::Checks;
use super::fields::{Reading, Request, Rule, Written, read_object};
use super::path::Path;
use super::problems::Problems;
use super::rules::Scalar;
use super::values::{Wrong, parse};
use crate::access::{Action, ActionSet};
use crate::error::ProblemCode;
use crate::limits::Limits;

/// A list of values of one rule, with its number of items and a check of all items together.
pub(crate) struct List<R, S, C = Anything>(PhantomData<(R, S, C)>);

/// Number of items of a list.
pub(crate) trait Size {
    /// Returns the minimum and the maximum.
    fn bounds(limits: &Limits) -> (usize, usize);

    /// Adds the bounds to the schema of the list.
    #[cfg(feature = "openapi")]
    fn describe(schema: &mut schemars::Schema);
}

/// Check of the items of a list together.
pub(crate) trait Check<T> {
    /// Adds the problems of the items.
    fn check(items: &[T], path: &Path<'_>, problems: &mut Problems);

    /// Adds the check to the schema of the list, if a schema can express it.
    #[cfg(feature = "openapi")]
    fn describe(_schema: &mut schemars::Schema) {}
}

impl<R: Rule, S: Size, C: Check<R::Value>> List<R, S, C> {
    /// Adds the problems of the items of a list.
    pub(crate) fn check_items(
        items: &[R::Value],
        path: &Path<'_>,
        checks: &Checks<'_>,
        problems: &mut Problems,
    ) {
        Self::check_size(items.len(), path, checks, problems);
        for (index, item) in items.iter().enumerate() {
            R::check(item, &Path::Item(path, index), checks, problems);
        }
        C::check(items, path, problems);
    }

    fn check_size(count: usize, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems) {
        let (min, max) = S::bounds(checks.limits);
        let code = match count {
            count if count < min => ProblemCode::TooSmall,
            count if count > max => ProblemCode::TooLarge,
            _ => return,
        };
        let message = match min {
            0 => format!("must have at most {max} items, not {count}"),
            _ => format!("must have {min} to {max} items, not {count}"),
        };
        problems.push(path, code, message);
    }
}

impl<R: Rule, S: Size, C: Check<R::Value>> Rule for List<R, S, C> {
    type Value = Vec<R::Value>;

    const LIST: &'static str = "a list of lists";

    fn read(json: &Value, path: &Path<'_>, reading: &mut Reading<'_>) -> Option<Self::Value> {
        if let (Some(checks), Some(items)) = (reading.checks, json.as_array()) {
            Self::check_size(items.len(), path, &checks, &mut reading.problems);
        }
        let items = read_items::<R>(json, path, reading)?;
        if reading.checks.is_some() {
            C::check(&items, path, &mut reading.problems);
        }
        Some(items)
    }

    fn check(items: &Self::Value, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems) {
        Self::check_items(items, path, checks, problems);
    }

    fn write<W: Serializer>(items: &Self::Value, serializer: W) -> Result<W::Ok, W::Error> {
        serializer.collect_seq(items.iter().map(Written::<R>))
    }
}

/// Reads the items of a list; `None` if there is a problem.
fn read_items<R: Rule>(
    json: &Value,
    path: &Path<'_>,
    reading: &mut Reading<'_>,
) -> Option<Vec<R::Value>> {
    let Some(items) = json.as_array() else {
        let wrong = Wrong::type_of(json, R::LIST);
        reading.problems.push(path, wrong.code, wrong.message);
        return None;
    };
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        if reading.problems.is_full() {
            return None;
        }
        values.extend(R::read(item, &Path::Item(path, index), reading));
    }
    (values.len() == items.len()).then_some(values)
}

/// A minimum and a maximum number of items.
pub(crate) enum Items<const MIN: usize, const MAX: usize> {}

impl<const MIN: usize, const MAX: usize> Size for Items<MIN, MAX> {
    fn bounds(_: &Limits) -> (usize, usize) {
        (MIN, MAX)
    }

    #[cfg(feature = "openapi")]
    fn describe(schema: &mut schemars::Schema) {
        if MIN > 0 {
            schema.insert("minItems".to_owned(), MIN.into());
        }
        schema.insert("maxItems".to_owned(), MAX.into());
    }
}

/// One item to [`Limits::bulk_memories_max`] items.
pub(crate) enum BulkItems {}

impl Size for BulkItems {
    fn bounds(limits: &Limits) -> (usize, usize) {
        (1, limits.bulk_memories_max)
    }

    #[cfg(feature = "openapi")]
    fn describe(schema: &mut schemars::Schema) {
        schema.insert("minItems".to_owned(), 1.into());
        schema.insert("x-limit".to_owned(), "bulk_memories_max".into());
    }
}

/// The items may be any.
pub(crate) enum Anything {}

impl<T> Check<T> for Anything {
    fn check(_: &[T], _: &Path<'_>, _: &mut Problems) {}
}

/// The items are distinct.
pub(crate) enum Unique {}

impl<T: Eq + Hash> Check<T> for Unique {
    fn check(items: &[T], path: &Path<'_>, problems: &mut Problems) {
        let mut seen = HashSet::with_capacity_and_hasher(items.len(), RandomState::default());
        let repeated = items
            .iter()
            .enumerate()
            .filter(|(_, item)| !seen.insert(*item));
        for (index, _) in repeated {
            let message = "must not repeat an earlier item of the list";
            problems.push(&Path::Item(path, index), ProblemCode::Duplicate, message);
        }
    }

    #[cfg(feature = "openapi")]
    fn describe(schema: &mut schemars::Schema) {
        schema.insert("uniqueItems".to_owned(), true.into());
    }
}

/// The name of an action.
enum ActionName {}

impl Scalar for ActionName {
    type Value = Action;

    const LIST: &'static str = "a list of action names";

    fn parse(json: &Value) -> Result<Action, Wrong> {
        parse(json)
    }

    fn json(action: &Action) -> impl Serialize {
        action
    }
}

/// A list of names of actions.
pub(crate) enum Actions {}

impl Rule for Actions {
    type Value = ActionSet;

    const LIST: &'static str = "a list of lists";

    fn read(json: &Value, path: &Path<'_>, reading: &mut Reading<'_>) -> Option<ActionSet> {
        let actions = read_items::<ActionName>(json, path, reading)?;
        Some(actions.into_iter().collect())
    }

    fn check(_: &ActionSet, _: &Path<'_>, _: &Checks<'_>, _: &mut Problems) {}

    fn write<S: Serializer>(actions: &ActionSet, serializer: S) -> Result<S::Ok, S::Error> {
        actions.serialize(serializer)
    }
}

/// An object: a request within another.
pub(crate) struct Object<T>(PhantomData<T>);

impl<T: Request + Serialize> Rule for Object<T> {
    type Value = T;

    const LIST: &'static str = "a list of objects";

    fn read(json: &Value, path: &Path<'_>, reading: &mut Reading<'_>) -> Option<T> {
        let Value::Object(object) = json else {
            let wrong = Wrong::type_of(json, "an object");
            reading.problems.push(path, wrong.code, wrong.message);
            return None;
        };
        read_object(object, path, reading)
    }

    fn check(value: &T, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems) {
        value.check(path, checks, problems);
    }

    fn write<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }
}
