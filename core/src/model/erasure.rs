//! Erasures and their receipts.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{ErasureId, MemberId, SourceId, Timestamp};
use crate::error::ProblemCode;
use crate::limits::ERASURE_MEMORIES_MAX;
use crate::model::MemoryId;
use crate::request::rules::{Flag, Id, Items, List, SourceKey, Unique};
use crate::request::{Path, Problems, request};

/// Characters between the parts of a source key.
const KEY_DIVIDERS: [char; 3] = ['/', ':', '#'];

request! {
    /// Request to erase memories and what was made from them.
    ///
    /// It names exactly one of `memberId`, `sourceId` and `memoryIds`.
    #[schemars(extend("oneOf" = [
        {
            "title": "NewMemberErasure",
            "description": "Request to erase everything of a member.",
            "properties": { "anyPrefix": false },
            "required": ["memberId"],
        },
        {
            "title": "NewSourceErasure",
            "description": "Request to erase the memories of a source.",
            "properties": { "anyPrefix": false },
            "required": ["sourceId"],
        },
        {
            "title": "NewPrefixErasure",
            "description": "Request to erase the memories of a source whose keys have a prefix.",
            "required": ["sourceId", "sourceKeyPrefix"],
        },
        {
            "title": "NewMemoryErasure",
            "description": "Request to erase named memories.",
            "properties": { "anyPrefix": false },
            "required": ["memoryIds"],
        },
    ]))]
    pub struct NewErasure {
        /// Member whose memories, chats and recalls are erased.
        member_id ("memberId"): Option<MemberId> as Option<Id<MemberId>>,
        /// Source whose memories are erased.
        source_id ("sourceId"): Option<SourceId> as Option<Id<SourceId>>,
        /// Beginning of the keys at the source, to erase only those memories; requires `sourceId`.
        ///
        /// It ends where a part of the key ends: at the end of the key, or at `/`, `:` or `#`.
        source_key_prefix ("sourceKeyPrefix"): Option<String> as Option<SourceKey>,
        /// True if the prefix may end inside a part of the key, so that `u-1` also begins `u-10`;
        /// requires `sourceKeyPrefix`. False by default.
        any_prefix ("anyPrefix"): bool as Flag = false,
        /// Memories to erase, 1 to 400, without duplicates.
        memory_ids ("memoryIds"): Option<Vec<MemoryId>>
            as Option<List<Id<MemoryId>, Items<1, ERASURE_MEMORIES_MAX>, Unique>>,
        /// True if a keyed hash of each erased source key stays, so that an ingest or an import
        /// does not bring the memory back. True by default.
        suppress: bool as Flag = true,
        /// True to count what would be erased, without erasing it. False by default.
        dry_run ("dryRun"): bool as Flag = false,
    }
    check NewErasure::check_scope;
}

impl NewErasure {
    /// Returns the scope that the request names.
    pub(crate) fn scope(&self) -> ErasureScope {
        let named = self.memory_ids.as_ref().map(Vec::len);
        ErasureScope {
            member_id: self.member_id,
            source_id: self.source_id,
            source_key_prefix: self.source_key_prefix.clone(),
            any_prefix: self.any_prefix,
            memories_named: named.map(|named| u32::try_from(named).unwrap_or(u32::MAX)),
        }
    }

    /// Adds the problems of fields that do not belong together.
    fn check_scope(&self, path: &Path<'_>, problems: &mut Problems) {
        let scopes = [
            self.member_id.is_some(),
            self.source_id.is_some(),
            self.memory_ids.is_some(),
        ];
        match scopes.into_iter().filter(|is_set| *is_set).count() {
            0 => {
                let message = "must name a member, a source or memories";
                problems.push("body", ProblemCode::Required, message);
            }
            1 => {}
            _ => {
                let message = "must name only one of memberId, sourceId and memoryIds";
                problems.push("body", ProblemCode::InvalidValue, message);
            }
        }
        if self.source_key_prefix.is_some() && self.source_id.is_none() {
            let path = &Path::Field(path, "sourceKeyPrefix");
            let message = "requires sourceId";
            problems.push(path, ProblemCode::InvalidValue, message);
        }
        if self.any_prefix && self.source_key_prefix.is_none() {
            let path = &Path::Field(path, "anyPrefix");
            let message = "requires sourceKeyPrefix";
            problems.push(path, ProblemCode::InvalidValue, message);
        }
    }
}

string_enum! {
    /// Progress of an erasure.
    ErasureStatus {
        /// More remains to be removed, which maintenance does.
        Running = "running",
        /// Everything in the scope is removed.
        Completed = "completed",
    }
}

/// Scope of an erasure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ErasureScope {
    /// Member whose memories, chats and recalls are erased.
    pub member_id: Option<MemberId>,
    /// Source whose memories are erased.
    pub source_id: Option<SourceId>,
    /// Beginning of the keys at the source.
    pub source_key_prefix: Option<String>,
    /// True if the prefix may end inside a part of the key.
    pub any_prefix: bool,
    /// Number of memories that the request named.
    pub memories_named: Option<u32>,
}

impl ErasureScope {
    /// Returns true if the scope depends on who added a memory from this source, or on its key.
    pub(crate) fn needs_origin(&self, source: SourceId) -> bool {
        self.member_id.is_some()
            || (self.source_key_prefix.is_some() && self.source_id == Some(source))
    }

    /// Returns true if a memory from this source is in the scope of a member or a source.
    ///
    /// `origin` is the member that added it and its key. Without it, what depends on it counts as
    /// in scope: the memory has been removed meanwhile.
    pub(crate) fn covers(
        &self,
        source: SourceId,
        origin: Option<(MemberId, Option<&str>)>,
    ) -> bool {
        let is_of = |member| origin.is_none_or(|(author, _)| author == member);
        let begins = |prefix: &str| {
            origin.is_none_or(|(_, key)| self.begins(prefix, key.unwrap_or_default()))
        };
        match (self.member_id, self.source_id) {
            (Some(member), _) => is_of(member),
            (None, Some(id)) => {
                id == source && self.source_key_prefix.as_deref().is_none_or(begins)
            }
            (None, None) => false,
        }
    }

    /// Returns true if a source key begins with the prefix, which ends where a part of the key ends
    /// unless the scope has any prefix.
    fn begins(&self, prefix: &str, key: &str) -> bool {
        key.strip_prefix(prefix).is_some_and(|rest| {
            let is_end =
                rest.is_empty() || rest.starts_with(KEY_DIVIDERS) || prefix.ends_with(KEY_DIVIDERS);
            self.any_prefix || is_end
        })
    }
}

/// Numbers of erased records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ErasureCounts {
    /// Memories with their titles, contents and labels.
    pub memories: u64,
    /// Keys of these memories at their sources.
    pub source_keys: u64,
    /// Recalls with their queries.
    pub recalls: u64,
    /// Citation subscriptions of these recalls.
    pub citation_subscriptions: u64,
    /// Chats with their titles.
    pub chats: u64,
    /// Messages of these chats.
    pub chat_messages: u64,
}

/// What remains after an erasure, and until when. Each field is `null` while the erasure is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ErasureRemainder {
    /// End of the retention of the audit log, which holds identifiers and labels.
    pub audit_log_until: Option<Timestamp>,
    /// End of the retention of events and deliveries, which hold identifiers.
    pub deliveries_until: Option<Timestamp>,
    /// End of the retention of results for replays, which hold identifiers.
    pub replays_until: Option<Timestamp>,
    /// Time before which backups contain what was erased.
    pub backups_before: Option<Timestamp>,
    /// Number of keyed hashes of source keys that the erasure left, each until its key is revived.
    ///
    /// They say that a key was erased, so that an ingest does not bring it back, and have no text.
    /// It is 0 if the request had `suppress` set to `false`.
    pub source_key_hashes: Option<u64>,
}

/// Receipt of an erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Erasure {
    /// Identifier of the erasure; that of its operation in the audit log.
    pub id: ErasureId,
    /// Member that asked for it.
    pub created_by: MemberId,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Scope.
    pub scope: ErasureScope,
    /// True if a keyed hash of each erased source key stays.
    pub suppress: bool,
    /// Progress.
    pub status: ErasureStatus,
    /// Time at which everything was removed.
    pub completed_at: Option<Timestamp>,
    /// Numbers of records removed so far.
    pub counts: ErasureCounts,
    /// Number of named memories that do not exist, or not for the caller.
    pub not_found: u32,
    /// Number of named memories that the caller may not erase.
    pub forbidden: u32,
    /// What remains.
    #[serde(default)]
    pub remains: ErasureRemainder,
}

/// What an erasure would remove: the response to a request with `dryRun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ErasurePreview {
    /// Always true: nothing was erased.
    pub dry_run: bool,
    /// Scope.
    pub scope: ErasureScope,
    /// True if a keyed hash of each erased source key would stay.
    pub suppress: bool,
    /// Numbers of records that would be removed.
    pub counts: ErasureCounts,
    /// Number of named memories that do not exist, or not for the caller.
    pub not_found: u32,
    /// Number of named memories that the caller may not erase.
    pub forbidden: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(prefix: &str, any_prefix: bool, key: &str) -> bool {
        let source = SourceId(uuid::Uuid::from_u128(1));
        let scope = ErasureScope {
            source_id: Some(source),
            source_key_prefix: Some(prefix.to_owned()),
            any_prefix,
            ..ErasureScope::default()
        };
        let member = MemberId(uuid::Uuid::from_u128(2));
        scope.covers(source, Some((member, Some(key))))
    }

    #[test]
    fn prefix_ends_where_a_part_of_the_key_ends() {
        for key in ["u-1", "u-1/a", "u-1:a", "u-1#a", "u-1/"] {
            assert!(covers("u-1", false, key), "{key}");
        }
        for key in ["u-10", "u-1-a", "u-1.a", "u-", "v/u-1", ""] {
            assert!(!covers("u-1", false, key), "{key}");
        }
        assert!(covers("u-1/", false, "u-1/a"));
        assert!(!covers("u-1/", false, "u-1"));
        assert!(covers("u-1", true, "u-10"));
        assert!(!covers("u-1", true, "u-2"));
    }
}
