//! Items of an export as they are in its JSON, before anything is known of their fields.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A value that should be an entry.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Item {
    Object(Object),
    Other(Value),
}

/// An object. JSON lets a field occur more than once, and readers differ in which one is valid.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// Fields, of those with the same name the first.
    pub(super) fields: Map<String, Value>,
    /// Names of fields that occur more than once.
    pub(super) repeated: BTreeSet<String>,
}

impl Object {
    pub(super) fn add(&mut self, name: String, value: Value) {
        if self.fields.contains_key(&name) {
            self.repeated.insert(name);
        } else {
            self.fields.insert(name, value);
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        while let Some((name, value)) = fields.next_entry()? {
            object.add(name, value);
        }
        Ok(object)
    }
}
