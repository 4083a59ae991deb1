//! Filters for the caller's own index of memories.

use serde::Serialize;
use serde_json::{Value, json};

use super::names::string_enum;
use super::{AudienceLabel, ReviewStatus, SensitivityLabel, WorkspaceId};

string_enum! {
    /// Form of an access filter.
    #[derive(Default)]
    #[non_exhaustive]
    AccessFilterFormat {
        /// The lists alone.
        #[default]
        Plain = "plain",
        /// Condition of SQL with numbered parameters, as PostgreSQL and pgvector take it.
        Pgvector = "pgvector",
        /// Filter of Qdrant.
        Qdrant = "qdrant",
        /// `where` of Chroma.
        Chroma = "chroma",
        /// `filter` of Pinecone.
        Pinecone = "pinecone",
        /// `where` of Weaviate.
        Weaviate = "weaviate",
    }
}

/// Form and extent of an access filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bon::Builder)]
#[non_exhaustive]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AccessFilterOptions {
    /// Form of `filter`: by default `plain`, without one.
    pub format: Option<AccessFilterFormat>,
    /// True to leave out memories that await review or were rejected, also for callers that may
    /// read them.
    pub approved_only: Option<bool>,
}

/// Filter of the memories that the caller may read in a workspace now: those with one of each of
/// the labels.
///
/// It is for an index that has the labels of the memories, so that a search finds only what may be
/// shown. It does not contain memories of the caller that await review or were rejected, unless
/// the caller may review, nor does it exclude what a running erasure takes away: the access check
/// decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AccessFilter {
    /// Workspace of the memories.
    pub workspace_id: WorkspaceId,
    /// Audience labels that cover the caller.
    pub audience_tags: Vec<AudienceLabel>,
    /// Sensitivities that the caller may read.
    pub sensitivity_labels: Vec<SensitivityLabel>,
    /// Review statuses of memories that exist for the caller.
    pub review_statuses: Vec<ReviewStatus>,
    /// Seconds for which the filter may be used before it is asked for again.
    pub max_age: u64,
    /// Form of `filter`.
    pub format: AccessFilterFormat,
    /// The same as a condition on the fields `workspace_id`, `audience_tag`, `sensitivity_label`
    /// and `review_status`; `null` in the format `plain`.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<serde_json::Map<String, Value>>")
    )]
    pub filter: Option<Value>,
}

impl AccessFilter {
    /// Returns the filter with its condition in this format.
    pub(crate) fn in_format(mut self, format: AccessFilterFormat) -> Self {
        let lists = [
            ("audience_tag", texts(&self.audience_tags)),
            ("sensitivity_label", texts(&self.sensitivity_labels)),
            ("review_status", texts(&self.review_statuses)),
        ];
        let workspace = &self.workspace_id.to_string();
        self.format = format;
        self.filter = match format {
            AccessFilterFormat::Plain => None,
            AccessFilterFormat::Pgvector => Some(sql(workspace, &lists)),
            AccessFilterFormat::Qdrant => Some(qdrant(workspace, &lists)),
            AccessFilterFormat::Chroma | AccessFilterFormat::Pinecone => {
                Some(operators(workspace, &lists))
            }
            AccessFilterFormat::Weaviate => Some(weaviate(workspace, &lists)),
        };
        self
    }
}

type List = (&'static str, Vec<String>);

/// Returns the texts of labels; the empty text, which no label is, if there are none, because some
/// indexes refuse an empty list.
fn texts<T: ToString>(labels: &[T]) -> Vec<String> {
    let texts = labels.iter().map(T::to_string);
    let none = labels.is_empty().then(String::new);
    texts.chain(none).collect()
}

fn sql(workspace: &str, lists: &[List]) -> Value {
    let mut condition = "workspace_id = $1".to_owned();
    let mut parameters = vec![json!(workspace)];
    for (field, labels) in lists {
        parameters.push(json!(labels));
        condition += &format!(" AND {field} = ANY (${})", parameters.len());
    }
    json!({ "where": condition, "parameters": parameters })
}

fn qdrant(workspace: &str, lists: &[List]) -> Value {
    let place = json!({ "key": "workspace_id", "match": { "value": workspace } });
    let lists = lists
        .iter()
        .map(|(field, labels)| json!({ "key": field, "match": { "any": labels } }));
    let conditions: Vec<Value> = [place].into_iter().chain(lists).collect();
    json!({ "must": conditions })
}

/// Returns the operators that Chroma and Pinecone share.
fn operators(workspace: &str, lists: &[List]) -> Value {
    let place = json!({ "workspace_id": { "$eq": workspace } });
    let lists = lists.iter();
    let lists = lists.map(|(field, labels)| json!({ *field: { "$in": labels } }));
    let conditions: Vec<Value> = [place].into_iter().chain(lists).collect();
    json!({ "$and": conditions })
}

fn weaviate(workspace: &str, lists: &[List]) -> Value {
    let place = json!({ "path": ["workspace_id"], "operator": "Equal", "valueText": workspace });
    let lists = lists.iter().map(|(field, labels)| {
        json!({ "path": [field], "operator": "ContainsAny", "valueText": labels })
    });
    let operands: Vec<Value> = [place].into_iter().chain(lists).collect();
    json!({ "operator": "And", "operands": operands })
}
