//! Searches for memories that answer a question.

use serde::{Deserialize, Serialize};

use super::{AudienceLabel, MemoryContent, MemoryId, MemoryLabels, RecallId, SensitivityLabel};
use super::{SourceId, Timestamp};
use crate::error::ProblemCode;
use crate::limits::RECALL_MEMORIES_MAX;
use crate::request::rules::{Description, Flag, Id, Items, List, Object, SearchLimit, SourceKey};
use crate::request::{Path, Problems, request};

/// Number of memories that a search returns by default.
const RESULTS_DEFAULT: u64 = 10;

request! {
    /// A search for memories that answer a question.
    ///
    /// It has a query, candidates or both.
    #[schemars(extend("anyOf" = [
        {
            "title": "SearchByWords",
            "description": "A search for the words of a query.",
            "properties": { "query": { "pattern": "\\S" } },
            "required": ["query"],
        },
        {
            "title": "SearchOfCandidates",
            "description": "A search among candidates.",
            "required": ["candidates"],
        },
    ]))]
    pub struct RecallSearch {
        /// Question, at most 1,024 characters. Memories with its words are ranked by BM25.
        query: Option<String> as Option<Description>,
        /// Memories that another index found, best first, 1 to 500.
        ///
        /// Of a memory that is named twice, the first counts.
        candidates: Option<Vec<Candidate>>
            as Option<List<Object<Candidate>, Items<1, RECALL_MEMORIES_MAX>>>,
        /// Maximum number of memories to return, 1 to 50; 10 by default.
        limit: u64 as SearchLimit = RESULTS_DEFAULT,
        /// False to return the memories without registering a recall; `true` by default. Where the
        /// retention of the workspace has `record_recalls` off, none is registered either way.
        record: bool as Flag = true,
    }
    check RecallSearch::check_query;
}

request! {
    /// A memory that another index found: by its identifier, or by its key at its source.
    #[derive(Default)]
    #[schemars(extend("oneOf" = [
        {
            "title": "CandidateById",
            "description": "A candidate that is named by its identifier.",
            "required": ["memory_id"],
        },
        {
            "title": "CandidateBySourceKey",
            "description": "A candidate that is named by its key at its source.",
            "required": ["source_id", "source_key"],
        },
    ]))]
    pub struct Candidate {
        /// Identifier of the memory.
        memory_id: Option<MemoryId> as Option<Id<MemoryId>>,
        /// Source that delivered the memory, whatever source it is filed under now.
        source_id: Option<SourceId> as Option<Id<SourceId>>,
        /// Key of the memory at that source, 1 to 512 characters.
        source_key: Option<String> as Option<SourceKey>,
    }
    check Candidate::check_name;
}

impl RecallSearch {
    /// Returns the query, unless it is blank.
    pub(crate) fn words(&self) -> Option<&str> {
        let query = self.query.as_deref();
        query.filter(|query| !query.trim().is_empty())
    }

    /// Adds the problem of a search for nothing.
    fn check_query(&self, path: &Path<'_>, problems: &mut Problems) {
        // Candidates that cannot be read have problems of their own.
        let has_candidates = self.candidates.is_some() || problems.concern("candidates");
        if self.words().is_none() && !has_candidates {
            let message = "must not be blank without candidates";
            problems.push(&Path::Field(path, "query"), ProblemCode::Required, message);
        }
    }
}

impl Candidate {
    /// Adds the problem of a memory that is named in no way or in two.
    fn check_name(&self, path: &Path<'_>, problems: &mut Problems) {
        let fields = (&self.memory_id, &self.source_id, &self.source_key);
        let (name, code, message) = match fields {
            (Some(_), None, None) | (None, Some(_), Some(_)) => return,
            (None, None, None) => {
                let message = "is required without source_id and source_key";
                ("memory_id", ProblemCode::Required, message)
            }
            (None, None, Some(_)) => {
                let message = "is required with source_key";
                ("source_id", ProblemCode::Required, message)
            }
            (None, Some(_), None) => {
                let message = "is required with source_id";
                ("source_key", ProblemCode::Required, message)
            }
            (Some(_), ..) => {
                let message = "must not be set beside source_id and source_key";
                ("memory_id", ProblemCode::InvalidValue, message)
            }
        };
        problems.push(&Path::Field(path, name), code, message);
    }
}

/// Memories that a search found, and the recall that cites them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RecallResults {
    /// Recall that cites these memories; `null` if none was registered, or nothing was found.
    pub recall_id: Option<RecallId>,
    /// Memories, best first.
    pub results: Vec<RecalledMemory>,
}

/// A memory that a search found, which the caller may read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RecalledMemory {
    /// Identifier of the memory.
    pub memory_id: MemoryId,
    /// Score: that of BM25 for a search by words, that of the fused ranks for a search by both, and
    /// `null` for one of candidates, which keep their order.
    pub score: Option<f64>,
    /// Title, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub title: String,
    /// Text.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Content"))]
    pub content: String,
    /// Source that the memory is filed under.
    pub source_id: SourceId,
    /// Source that delivered the memory, whatever source it is filed under now.
    pub origin_source_id: SourceId,
    /// Key of the memory at its original source, if it has one.
    pub source_key: Option<String>,
    /// Audience label.
    pub audience_tag: AudienceLabel,
    /// Sensitivity label.
    pub sensitivity_label: SensitivityLabel,
    /// Time of the last change of the title or text.
    pub updated_at: Timestamp,
}

impl RecalledMemory {
    /// Creates the result for a memory.
    #[must_use]
    pub fn new(
        id: MemoryId,
        score: Option<f64>,
        labels: &MemoryLabels,
        content: MemoryContent,
    ) -> Self {
        Self {
            memory_id: id,
            score,
            title: content.title,
            content: content.content,
            source_id: labels.source_id,
            origin_source_id: content.origin_source_id,
            source_key: content.source_key,
            audience_tag: labels.audience.clone(),
            sensitivity_label: labels.sensitivity,
            updated_at: content.updated_at,
        }
    }
}
