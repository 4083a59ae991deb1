//! Reads as one statement, which sees a single point in time.
//!
//! Every part of a read is a branch of a `UNION ALL`, and its rows carry the number of the part; the
//! lists of keys share one branch. The order of rows across branches is not defined, so that they
//! are sorted here.

use std::collections::HashMap;

use bytes::Bytes;
use foldhash::fast::RandomState;
use knowledge_store::{
    Direction, Entry, Found, KEY_BYTES_MAX, Key, KeyEntry, Read, StoreError, Version,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{corrupt, store_error};

/// Number of ranges above which their bounds are arrays: the time to plan grows with the branches.
const BRANCHES_MAX: usize = 16;
/// Key after all others, as the end of a range without one.
const END: &[u8] = &[u8::MAX; KEY_BYTES_MAX + 1];
/// Number of the branch of all keys.
const KEYS_PART: i32 = -1;

const KEYS: &str = "SELECT -1 AS part, key, value, version FROM knowledge_entry \
    WHERE key = ANY($1)";

/// Keys and any number of ranges in either direction, in a text that does not depend on the number.
const MANY_RANGES: &str = "SELECT -1 AS part, key, value, version FROM knowledge_entry \
    WHERE key = ANY($1) \
    UNION ALL SELECT r.part, e.key, e.value, e.version \
    FROM unnest($2::int4[], $3::bytea[], $4::bytea[], $5::int8[]) AS r (part, first, until, count) \
    CROSS JOIN LATERAL (SELECT key, value, version FROM knowledge_entry \
    WHERE key >= r.first AND key < r.until ORDER BY key LIMIT r.count) AS e \
    UNION ALL SELECT r.part, e.key, e.value, e.version \
    FROM unnest($6::int4[], $7::bytea[], $8::bytea[], $9::int8[]) AS r (part, first, until, count) \
    CROSS JOIN LATERAL (SELECT key, value, version FROM knowledge_entry \
    WHERE key >= r.first AND key < r.until ORDER BY key DESC LIMIT r.count) AS e";

/// Parameter of a statement.
enum Parameter<'r> {
    Key(&'r [u8]),
    Count(i64),
    Keys(Vec<&'r [u8]>),
    Counts(Vec<i64>),
    Parts(Vec<i32>),
}

/// Range that is not empty.
struct Range<'r> {
    part: i32,
    first: &'r [u8],
    until: &'r [u8],
    count: i64,
    direction: Direction,
}

/// Statement for the parts of a read, and the distribution of its rows to them.
pub(crate) struct ReadPlan<'r> {
    reads: &'r [Read<'r>],
    text: String,
    parameters: Vec<Parameter<'r>>,
}

impl<'r> ReadPlan<'r> {
    /// Creates the statement; `None` if the reads find nothing in any store.
    pub(crate) fn new(reads: &'r [Read<'r>]) -> Option<Self> {
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut ranges = Vec::new();
        for (part, read) in (0..).zip(reads) {
            match *read {
                Read::Keys(some) => keys.extend(some.iter().map(Key::as_bytes)),
                Read::Range { range, limit, .. } if range.is_empty() || limit == 0 => {}
                Read::Range {
                    range,
                    limit,
                    direction,
                } => ranges.push(Range {
                    part,
                    first: range.start.as_bytes(),
                    until: range.end.as_ref().map_or(END, Key::as_bytes),
                    count: i64::try_from(limit).unwrap_or(i64::MAX),
                    direction,
                }),
            }
        }
        if keys.is_empty() && ranges.is_empty() {
            return None;
        }
        keys.sort_unstable();
        keys.dedup();
        let (text, parameters) = match ranges.len() {
            0..=BRANCHES_MAX => few_ranges(keys, &ranges),
            _ => (MANY_RANGES.to_owned(), many_ranges(keys, &ranges)),
        };
        Some(Self {
            reads,
            text,
            parameters,
        })
    }

    /// Returns the result of reads that find nothing in any store.
    pub(crate) fn nothing(reads: &[Read<'_>]) -> Vec<Found> {
        let nothing = |read: &Read<'_>| match read {
            Read::Keys(_) => Found::Keys(Vec::new()),
            Read::Range { .. } => Found::Range(Vec::new()),
        };
        reads.iter().map(nothing).collect()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.parameters.iter().map(Parameter::typed).collect()
    }

    /// Distributes the rows of the statement to the parts of the read.
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`](knowledge_store::StoreErrorKind::Corrupt) if a row is invalid.
    pub(crate) fn distribute(&self, rows: &[Row]) -> Result<Vec<Found>, StoreError> {
        let mut by_key: HashMap<&[u8], Entry, RandomState> = HashMap::default();
        let mut ranges: Vec<Vec<KeyEntry>> = self.reads.iter().map(|_| Vec::new()).collect();
        for row in rows {
            let part: i32 = column(row, 0)?;
            let (key, entry) = (column::<&[u8]>(row, 1)?, entry(row)?);
            if part == KEYS_PART {
                by_key.insert(key, entry);
                continue;
            }
            let range = usize::try_from(part).ok().and_then(|at| ranges.get_mut(at));
            let range = range.ok_or_else(|| corrupt("a row belongs to no part of the read"))?;
            let key = Key::new(key);
            let key = key.map_err(|error| corrupt(error.to_string()))?;
            range.push(KeyEntry { key, entry });
        }
        let parts = self.reads.iter().zip(ranges);
        Ok(parts
            .map(|(read, mut range)| match *read {
                Read::Keys(keys) => {
                    let found = keys.iter().map(|key| by_key.get(key.as_bytes()).cloned());
                    Found::Keys(found.collect())
                }
                Read::Range { direction, .. } => {
                    range.sort_unstable_by(|a, b| match direction {
                        Direction::Forward => a.key.cmp(&b.key),
                        Direction::Reverse => b.key.cmp(&a.key),
                    });
                    Found::Range(range)
                }
            })
            .collect())
    }
}

impl Parameter<'_> {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Key(key) => (key, Type::BYTEA),
            Self::Count(count) => (count, Type::INT8),
            Self::Keys(keys) => (keys, Type::BYTEA_ARRAY),
            Self::Counts(counts) => (counts, Type::INT8_ARRAY),
            Self::Parts(parts) => (parts, Type::INT4_ARRAY),
        }
    }
}

/// Returns a statement with a branch for each range.
fn few_ranges<'r>(keys: Vec<&'r [u8]>, ranges: &[Range<'r>]) -> (String, Vec<Parameter<'r>>) {
    let mut text = String::new();
    let mut parameters = Vec::with_capacity(1 + 3 * ranges.len());
    if !keys.is_empty() {
        text.push_str(KEYS);
        parameters.push(Parameter::Keys(keys));
    }
    for range in ranges {
        let separator = if text.is_empty() { "" } else { " UNION ALL " };
        let order = match range.direction {
            Direction::Forward => "",
            Direction::Reverse => " DESC",
        };
        let number = parameters.len() + 1;
        text.push_str(&format!(
            "{separator}(SELECT {part} AS part, key, value, version FROM knowledge_entry \
             WHERE key >= ${first} AND key < ${until} ORDER BY key{order} LIMIT ${count})",
            part = range.part,
            first = number,
            until = number + 1,
            count = number + 2,
        ));
        parameters.push(Parameter::Key(range.first));
        parameters.push(Parameter::Key(range.until));
        parameters.push(Parameter::Count(range.count));
    }
    (text, parameters)
}

/// Returns the parameters of [`MANY_RANGES`].
fn many_ranges<'r>(keys: Vec<&'r [u8]>, ranges: &[Range<'r>]) -> Vec<Parameter<'r>> {
    let mut parameters = vec![Parameter::Keys(keys)];
    for direction in [Direction::Forward, Direction::Reverse] {
        let all = || ranges.iter().filter(|range| range.direction == direction);
        parameters.push(Parameter::Parts(all().map(|range| range.part).collect()));
        parameters.push(Parameter::Keys(all().map(|range| range.first).collect()));
        parameters.push(Parameter::Keys(all().map(|range| range.until).collect()));
        parameters.push(Parameter::Counts(all().map(|range| range.count).collect()));
    }
    parameters
}

/// Returns a column of a row.
pub(crate) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| {
        let error = store_error(&error);
        corrupt(format!("a row is not as it was written: {error}"))
    })
}

/// Returns the version in a column.
pub(crate) fn version(row: &Row, index: usize) -> Result<Version, StoreError> {
    let number: i64 = column(row, index)?;
    let version = u64::try_from(number).ok().and_then(Version::new);
    version.ok_or_else(|| corrupt(format!("{number} is not a version of an entry")))
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    Ok(Entry {
        value: Bytes::copy_from_slice(column(row, 2)?),
        version: version(row, 3)?,
    })
}
