//! Labels to match or set: `sensitivity=internal`.

use std::str::FromStr;

use knowledge_core::model::{
    AudienceLabel, MemorySummary, ReviewStatus, SensitivityLabel, SourceId,
};
use serde::{Deserialize, Serialize};

/// The labels to match or set; absent ones are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Labels {
    #[serde(skip_serializing_if = "Option::is_none")]
    audience_tag: Option<AudienceLabel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity_label: Option<SensitivityLabel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    review_status: Option<ReviewStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<SourceId>,
    /// Name of the source, until [`Labels::set_source`] sets its identifier.
    #[serde(skip)]
    source_name: Option<String>,
}

/// A label of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Audience(AudienceLabel),
    Sensitivity(SensitivityLabel),
    Review(ReviewStatus),
    Source(SourceId),
    SourceName(String),
}

/// Names of labels.
const NAMES: &str = "audience, sensitivity, review, source";

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        fn value<T: FromStr<Err: ToString>>(name: &str, value: &str) -> Result<T, String> {
            let parsed = value.parse();
            parsed.map_err(|error: T::Err| format!("{name} {}", error.to_string()))
        }
        let (name, text) = text
            .split_once('=')
            .ok_or_else(|| format!("must be NAME=VALUE, where NAME is one of {NAMES}"))?;
        match name {
            "audience" | "audienceTag" => value(name, text).map(Self::Audience),
            "sensitivity" | "sensitivityLabel" => value(name, text).map(Self::Sensitivity),
            "review" | "reviewStatus" => value(name, text).map(Self::Review),
            "source" | "sourceId" if text.is_empty() => {
                Err("source must be the name or the identifier of a source".to_owned())
            }
            "source" | "sourceId" => Ok(match text.parse() {
                Ok(id) => Self::Source(id),
                Err(_) => Self::SourceName(text.to_owned()),
            }),
            _ => Err(format!("unknown label {name}; must be one of {NAMES}")),
        }
    }
}

impl Labels {
    /// Combines labels.
    ///
    /// # Errors
    /// The name of a label that is repeated.
    pub(super) fn of(labels: &[Label]) -> Result<Self, &'static str> {
        let mut all = Self::default();
        for label in labels.iter().cloned() {
            let (name, is_new) = match label {
                Label::Audience(label) => ("audience", all.audience_tag.replace(label).is_none()),
                Label::Sensitivity(label) => (
                    "sensitivity",
                    all.sensitivity_label.replace(label).is_none(),
                ),
                Label::Review(status) => ("review", all.review_status.replace(status).is_none()),
                Label::Source(source) => (
                    "source",
                    all.source_id.replace(source).is_none() && all.source_name.is_none(),
                ),
                Label::SourceName(name) => (
                    "source",
                    all.source_name.replace(name).is_none() && all.source_id.is_none(),
                ),
            };
            if !is_new {
                return Err(name);
            }
        }
        Ok(all)
    }

    /// Returns the name of a source whose identifier is not set yet.
    pub(super) fn source_name(&self) -> Option<&str> {
        self.source_name.as_deref()
    }

    /// Sets the identifier of the source in place of its name.
    pub(super) fn set_source(&mut self, source: SourceId) {
        (self.source_id, self.source_name) = (Some(source), None);
    }

    /// True if a memory has all of the labels.
    pub(super) fn match_memory(&self, memory: &MemorySummary) -> bool {
        fn matches<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        matches(self.audience_tag.as_ref(), &memory.audience_tag)
            && matches(self.sensitivity_label.as_ref(), &memory.sensitivity_label)
            && matches(self.review_status.as_ref(), &memory.review_status)
            && matches(self.source_id.as_ref(), &memory.source_id)
    }

    /// Returns the parameters for the list of memories.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let pairs = [
            (
                "audienceTag",
                self.audience_tag.as_ref().map(ToString::to_string),
            ),
            (
                "sensitivityLabel",
                self.sensitivity_label.map(|label| label.to_string()),
            ),
            (
                "reviewStatus",
                self.review_status.map(|status| status.to_string()),
            ),
            ("sourceId", self.source_id.map(|source| source.to_string())),
        ];
        let given = pairs.into_iter();
        given
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// Formats the labels as on the command line: `sensitivity=internal, review=pending`.
impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |name: &str| match name {
            "audienceTag" => "audience",
            "sensitivityLabel" => "sensitivity",
            "reviewStatus" => "review",
            _ => "source",
        };
        let parts = self.query().into_iter();
        let parts: Vec<_> = parts
            .map(|(name, value)| format!("{}={value}", short(name)))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_parsed_by_name() {
        let labels = [
            "sensitivity=internal",
            "audience=team:core",
            "review=pending",
        ];
        let labels: Vec<Label> = labels.iter().map(|text| text.parse().unwrap()).collect();
        let all = Labels::of(&labels).unwrap();
        assert_eq!(
            all.to_string(),
            "audience=team:core, sensitivity=internal, review=pending"
        );
        assert_eq!(
            serde_json::to_value(&all).unwrap(),
            serde_json::json!({
                "audienceTag": "team:core",
                "sensitivityLabel": "internal",
                "reviewStatus": "pending",
            })
        );
        let twice = [
            labels[0].clone(),
            "sensitivityLabel=public".parse().unwrap(),
        ];
        assert_eq!(Labels::of(&twice), Err("sensitivity"));
        let id = "018f0000-0000-7000-8000-000000000000";
        let sources = [format!("source={id}"), "source=Wiki".to_owned()];
        let sources: Vec<Label> = sources.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(Labels::of(&sources), Err("source"));
        let mut named = Labels::of(&sources[1..]).unwrap();
        assert_eq!(named.source_name(), Some("Wiki"));
        named.set_source(id.parse().unwrap());
        assert_eq!(named, Labels::of(&sources[..1]).unwrap());
    }

    #[test]
    fn label_parser_lists_valid_values() {
        let problem = |text: &str| text.parse::<Label>().unwrap_err();
        assert!(problem("internal").contains("NAME=VALUE"));
        assert!(problem("colour=red").contains("must be one of audience, sensitivity"));
        assert_eq!(
            problem("sensitivity=secret"),
            "sensitivity must be one of public, internal, confidential, restricted"
        );
        assert!(problem("source=").contains("name or the identifier"));
    }
}
