//! Places of values in a body.

use std::fmt;

/// Place of a value in a body: the fields and the items that lead to it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'p> {
    /// The body itself.
    Root,
    /// Field of an object.
    Field(&'p Path<'p>, &'p str),
    /// Item of a list.
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// The body itself.
    pub(crate) const ROOT: &'static Path<'static> = &Path::Root;
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(list, index) => write!(f, "{list}[{index}]"),
        }
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_fields_and_items() {
        let list = Path::Field(Path::ROOT, "memories");
        let item = Path::Item(&list, 3);
        assert_eq!(Path::Field(&item, "title").to_string(), "memories[3].title");
    }
}
