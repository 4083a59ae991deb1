//! Tables in the source of tests.

/// Returns the rows as an array.
///
/// A table has one row on each line, which rustfmt would break at 60 columns.
#[macro_export]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}
