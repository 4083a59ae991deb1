//! Responses reconstructed from the stored data, for calls whose responses were lost.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::model::Response;
use knowledge_core::internals::{audited_memories, keys};
use knowledge_core::store::Key;

/// Contents of a store, by key.
pub(super) type Contents = BTreeMap<Key, Bytes>;

/// Contents of a store before and after a call.
pub(crate) struct Changes<'c> {
    pub(super) before: &'c Contents,
    pub(super) after: &'c Contents,
}

impl Changes<'_> {
    /// Returns the added entries of a family of keys.
    pub(crate) fn added(&self, family: &str) -> Vec<(&Key, Value)> {
        let prefix = format!("{family}/");
        let entries = self.after.iter();
        entries
            .filter(|(key, _)| !self.before.contains_key(*key))
            .filter(|(key, _)| key.as_bytes().starts_with(prefix.as_bytes()))
            .map(|(key, value)| (key, serde_json::from_slice(value).unwrap_or_default()))
            .collect()
    }

    /// Returns the identifier of the only added entry of a family.
    pub(crate) fn only(&self, family: &str) -> Result<Uuid, String> {
        match &self.added(family)[..] {
            [(key, _)] => keys::last_id(key).ok_or_else(|| format!("{key} has no identifier")),
            others => Err(format!("{} entries of {family} were written", others.len())),
        }
    }

    /// Returns the only added page of the audit log, with the identifier of its first entry.
    pub(crate) fn audit_page(&self) -> Result<(Uuid, Value), String> {
        let id = self.only("audit")?;
        let page = self.added("audit").pop().map(|(_, page)| page);
        Ok((id, page.unwrap_or_default()))
    }

    /// Returns a response with the identifier that the only entry of the audit log names.
    pub(crate) fn created(&self) -> Result<Response, String> {
        let (_, page) = self.audit_page()?;
        let body = &page["body"];
        let id = match body["single"]["resource"].get("id") {
            Some(id) => read(id)?,
            None => match &audited_memories(&page)[..] {
                [(id, _), ..] => id.0,
                [] => return Err("a page about no memory".to_owned()),
            },
        };
        Ok(Response::of(&json!({ "id": id })))
    }

    /// Returns the memories that a batch added, in order.
    ///
    /// In the audit log, the added memories are the ones without earlier labels.
    pub(crate) fn added_memories(&self) -> Result<Vec<Uuid>, String> {
        let (_, page) = self.audit_page()?;
        let memories = audited_memories(&page).into_iter();
        let added = memories.filter(|(_, has_before)| !has_before);
        Ok(added.map(|(id, _)| id.0).collect())
    }
}

pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| format!("{value} was written: {error}"))
}
