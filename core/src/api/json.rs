//! Reads JSON and detects repeated fields.
//!
//! Parsers differ in which of two fields with the same name they use (RFC 8259, 4). A request that
//! two parts of a system may read differently is rejected.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Maximum number of reported repeated fields, and of characters of each, whatever was sent.
const REPEATED_MAX: usize = 100;
const PATH_CHARS_MAX: usize = 200;

/// Parses a text; returns its value and the paths of repeated fields.
pub(super) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let repeated = RefCell::new(Vec::new());
    let root = Node {
        path: Path::Root,
        repeated: &repeated,
    };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = root.deserialize(&mut json)?;
    json.end()?;
    Ok((value, repeated.into_inner()))
}

/// Path of a value, formatted only when it is reported.
#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A value to deserialise.
#[derive(Clone, Copy)]
struct Node<'n> {
    path: Path<'n>,
    repeated: &'n RefCell<Vec<String>>,
}

impl Node<'_> {
    fn note_repeated(self, path: Path<'_>) {
        let mut repeated = self.repeated.borrow_mut();
        if repeated.len() < REPEATED_MAX {
            repeated.push(path.to_string().chars().take(PATH_CHARS_MAX).collect());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = Path::Item(&self.path, items.len());
            match list.next_element_seed(Node { path, ..self })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let path = Path::Field(&self.path, &name);
            let value = object.next_value_seed(Node { path, ..self })?;
            if fields.contains_key(&name) {
                self.note_repeated(path);
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_returns_same_values_as_serde_json() {
        for text in [
            "null",
            " [true, -1, 18446744073709551615, 0.5, \"\\u00e4\", [], {}] ",
            r#"{"a": {"b": [1, {"c": null}]}, "": ""}"#,
        ] {
            let (value, repeated) = parse(text.as_bytes()).unwrap();
            assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
            assert!(repeated.is_empty());
        }
        for text in ["", "{} {}", "[1,]", "{\"a\"}", "1e999", &"[".repeat(200)] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn parser_reports_repeated_fields() {
        let text = r#"{"a": 1, "b": {"c": [{"d": 1}, {"d": 1, "\u0064": 2, "d": 3}]}, "a": 2}"#;
        let (value, repeated) = parse(text.as_bytes()).unwrap();
        assert_eq!(repeated, ["b.c[1].d", "b.c[1].d", "a"]);
        assert_eq!(value["a"], 2);
    }

    #[test]
    fn report_of_repeated_fields_is_bounded() {
        let text = format!(
            "{{\"{}\": {{{}\"a\": 1}}}}",
            "b".repeat(500),
            "\"a\": 1, ".repeat(500)
        );
        let (_, repeated) = parse(text.as_bytes()).unwrap();
        assert_eq!(repeated, vec!["b".repeat(PATH_CHARS_MAX); REPEATED_MAX]);
    }
}
