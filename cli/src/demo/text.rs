//! Plausible texts, composed from templates. The same seed results in the same texts.

use fastrand::Rng;
use knowledge_core::model::{AudienceLabel, AudienceScope, ReviewStatus, SensitivityLabel};
use knowledge_core::service::NewMemory;

use super::data::{self, TEXTS, Topic};

/// Shares of old memories that are approved and rejected; the rest is pending.
const OLD: (f64, f64) = (0.86, 0.07);
/// Shares of recent memories that are approved and rejected.
const RECENT: (f64, f64) = (0.36, 0.04);
/// Relative time from which memories are recent.
const RECENT_FROM: f64 = 0.8;

/// A memory and the decisions to be made on it.
pub(super) struct Draft {
    pub(super) memory: NewMemory,
    pub(super) verdict: ReviewStatus,
    pub(super) is_to_be_restricted: bool,
}

/// Generator of memories.
pub(super) struct Writer {
    rng: Rng,
    written: u64,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            written: 0,
        }
    }

    /// Returns the next memory of a kind of source, at a relative time between 0 and 1.
    ///
    /// With `for_everybody` every member of the workspace can read it.
    pub(super) fn draft(&mut self, kind: &str, at: f64, for_everybody: bool) -> Draft {
        let topic = *self.pick(&TEXTS.topics_of(kind));
        let scene = Scene::new(&mut self.rng);
        self.written += 1;
        let title: &String = self.pick(&topic.titles);
        let title = scene.fill(title);
        let content = self.content(topic, &scene);
        let audience_tag = if for_everybody {
            None
        } else {
            self.audience(topic)
        };
        let sensitivity = self.sensitivity(topic);
        let memory = NewMemory::builder()
            .title(title)
            .content(content)
            .source_key(format!("{}-{}", topic.key, self.written))
            .maybe_audience_tag(audience_tag)
            .sensitivity_label(sensitivity)
            .build();
        Draft {
            memory,
            verdict: match self.verdict(at) {
                _ if for_everybody => ReviewStatus::Approved,
                verdict => verdict,
            },
            is_to_be_restricted: topic.is_restricted_later && self.rng.f64() < 0.3,
        }
    }

    fn pick<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.rng.usize(..list.len())]
    }

    /// Returns three paragraphs: the subject, the details, the outcome.
    fn content(&mut self, topic: &Topic, scene: &Scene) -> String {
        let parts = [
            (&topic.openings, 2),
            (&topic.details, 4),
            (&topic.outcomes, 2),
        ];
        let paragraphs = parts.map(|(sentences, most)| {
            let count = self.rng.usize(1..=most).min(sentences.len());
            let chosen = self.some(sentences, count);
            let filled: Vec<_> = chosen.iter().map(|sentence| scene.fill(sentence)).collect();
            filled.join(" ")
        });
        paragraphs.join("\n\n")
    }

    /// Selects some of the sentences, in their original order.
    fn some<'l>(&mut self, sentences: &'l [String], count: usize) -> Vec<&'l String> {
        let mut indexes: Vec<_> = (0..sentences.len()).collect();
        self.rng.shuffle(&mut indexes);
        indexes.truncate(count);
        indexes.sort_unstable();
        indexes.into_iter().map(|index| &sentences[index]).collect()
    }

    /// Returns an audience; `None`, that of the workspace, is the most frequent.
    fn audience(&mut self, topic: &Topic) -> Option<AudienceLabel> {
        let label = |scope, name| AudienceLabel::new(scope, name).ok();
        match self.rng.u8(..100) {
            0..20 => label(AudienceScope::Org, data::org_slug()),
            20..38 => label(AudienceScope::Team, &topic.team),
            38..42 => label(AudienceScope::User, &data::cast().admin),
            _ => None,
        }
    }

    fn sensitivity(&mut self, topic: &Topic) -> SensitivityLabel {
        match self.rng.u8(..100) {
            0..60 => topic.sensitivity,
            60..85 => SensitivityLabel::Internal,
            85..93 => SensitivityLabel::Public,
            _ => SensitivityLabel::Confidential,
        }
    }

    fn verdict(&mut self, at: f64) -> ReviewStatus {
        let (approved, rejected) = if at < RECENT_FROM { OLD } else { RECENT };
        match self.rng.f64() {
            drawn if drawn < approved => ReviewStatus::Approved,
            drawn if drawn < approved + rejected => ReviewStatus::Rejected,
            _ => ReviewStatus::Pending,
        }
    }
}

/// Names and numbers of one memory, shared by its title and its sentences.
struct Scene {
    values: Vec<(&'static str, String)>,
}

impl Scene {
    fn new(rng: &mut Rng) -> Self {
        let mut values: Vec<_> = TEXTS
            .slots
            .iter()
            .map(|slot| {
                let value = &slot.values[rng.usize(..slot.values.len())];
                (slot.name.as_str(), value.clone())
            })
            .collect();
        values.extend([
            ("n", rng.u32(3..60).to_string()),
            ("m", rng.u32(2..9).to_string()),
            ("k", (rng.u32(4..90) * 50).to_string()),
            ("pct", rng.u32(2..38).to_string()),
            ("day", rng.u32(1..29).to_string()),
            (
                "hour",
                format!("{:02}:{:02}", rng.u32(0..24), rng.u32(0..12) * 5),
            ),
            ("ticket", rng.u32(1_000..9_999).to_string()),
        ]);
        Self { values }
    }

    /// Replaces the `{names}` of a template.
    fn fill(&self, template: &str) -> String {
        let mut text = String::with_capacity(template.len() * 3 / 2);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            let value = self.values.iter().find(|(known, _)| *known == name);
            text.push_str(before);
            text.push_str(value.map_or(name, |(_, value)| value));
            rest = behind;
        }
        text.push_str(rest);
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use knowledge_core::limits::Limits;

    use super::*;

    fn drafts(seed: u64, count: usize) -> Vec<Draft> {
        let mut writer = Writer::new(seed);
        (0..count)
            .map(|index| {
                let source = &data::ORGANIZATION.sources[index % 3];
                writer.draft(&source.kind, index as f64 / count as f64, false)
            })
            .collect()
    }

    #[test]
    fn demo_texts_are_filled_and_within_limits() {
        for draft in drafts(1, 3_000) {
            let NewMemory { title, content, .. } = &draft.memory;
            draft.memory.validate(&Limits::default()).unwrap();
            assert!(
                !format!("{title}{content}").contains(['{', '}']),
                "{title}: {content}"
            );
            assert!(content.len() > 80, "{content}");
        }
    }

    #[test]
    fn demo_template_slots_have_fillers() {
        let scene = Scene::new(&mut Rng::with_seed(1));
        let known: HashSet<_> = scene.values.iter().map(|(name, _)| *name).collect();
        for topic in &TEXTS.topics {
            let texts = [
                &topic.titles,
                &topic.openings,
                &topic.details,
                &topic.outcomes,
            ];
            for text in texts.into_iter().flatten() {
                for slot in text.split('{').skip(1) {
                    let name = slot.split('}').next().unwrap();
                    assert!(known.contains(name), "{name} in {text}");
                }
            }
        }
    }

    #[test]
    fn demo_texts_repeat_by_seed_and_are_mostly_distinct() {
        let texts = |seed| -> Vec<_> {
            drafts(seed, 1_000)
                .into_iter()
                .map(|draft| (draft.memory.title, draft.memory.content))
                .collect()
        };
        assert_eq!(texts(7), texts(7));
        assert_ne!(texts(7), texts(8));
        let distinct: HashSet<_> = texts(7).into_iter().collect();
        assert!(distinct.len() > 990, "{}", distinct.len());
    }

    #[test]
    fn demo_backlog_is_a_fraction_of_all_memories() {
        let drafts = drafts(7, 10_000);
        let share = |status| {
            let found = drafts.iter().filter(|draft| draft.verdict == status);
            found.count() as f64 / drafts.len() as f64
        };
        assert!((0.1..0.3).contains(&share(ReviewStatus::Pending)));
        assert!(share(ReviewStatus::Rejected) > 0.02);
    }
}
