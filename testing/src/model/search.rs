//! Naive search: reads everything, hides what the caller may not read, and ranks the rest.

use std::collections::BTreeMap;

use super::{Org, Who};
use crate::authorization::Verdict;
use knowledge_core::model::{MemoryId, RecallSearch, RecalledMemory, ReviewStatus, WorkspaceId};

/// Factor by which BM25 damps repetitions of a word.
const K1: f64 = 1.5;
/// Share of the length of a text in its normalisation.
const B: f64 = 0.75;
/// Number of parts of a score: a sum of whole parts does not depend on its order.
const PARTS: f64 = (1_u64 << 40) as f64;
/// The one character of the generated texts that is of a script without spaces.
const IDEOGRAPH: char = '\u{4e2d}';

/// Returns the words of a text: runs of letters and digits in lower case, at most 64 bytes of each.
/// Of a script without spaces, each two successive characters are one, or a single one.
fn words(text: &str) -> Vec<String> {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let kind = |char: &char| (char.is_alphanumeric(), *char == IDEOGRAPH);
    let runs = text.chunk_by(|a, b| kind(a) == kind(b));
    let runs = runs.filter(|run| run[0].is_alphanumeric());
    let words = runs.flat_map(|run| -> Vec<String> {
        if run[0] == IDEOGRAPH && run.len() > 1 {
            return run.windows(2).map(|pair| pair.iter().collect()).collect();
        }
        let mut word: String = run.iter().collect();
        while word.len() > 64 {
            word.pop();
        }
        vec![word]
    });
    words.collect()
}

impl Org {
    /// Returns what a search finds: the memories with their scores, best first.
    pub(crate) fn found(
        &self,
        who: &Who,
        workspace: WorkspaceId,
        search: &RecallSearch,
    ) -> Vec<RecalledMemory> {
        let texts = self.readable_texts(who, workspace);
        let query = search.query.as_deref();
        let query = query.filter(|query| !query.trim().is_empty());
        let by_words = query.map(|query| ranked(&texts, &words(query)));
        let candidates = search.candidates.as_ref().map(|candidates| {
            let mut named: Vec<MemoryId> = Vec::new();
            for candidate in candidates {
                let by_key = || {
                    let source = candidate.source_id?;
                    let name = (workspace, source, candidate.source_key.clone()?);
                    self.names.get(&name).copied()
                };
                let id = candidate.memory_id.or_else(by_key);
                named.extend(id.filter(|id| texts.contains_key(id) && !named.contains(id)));
            }
            named
        });
        let ranking: Vec<(MemoryId, Option<f64>)> = match (by_words, candidates) {
            (Some(found), None) => found.into_iter().map(|(id, by)| (id, Some(by))).collect(),
            (None, candidates) => candidates
                .into_iter()
                .flatten()
                .map(|id| (id, None))
                .collect(),
            (Some(found), Some(candidates)) => fused(&texts, &candidates, &found),
        };
        let limit = usize::try_from(search.limit).expect("a small number");
        let found = ranking.into_iter().take(limit);
        let found = found.map(|(id, score)| {
            let memory = &self.memories[&id];
            RecalledMemory::new(id, score, &memory.labels, memory.content.clone())
        });
        found.collect()
    }

    /// Returns the words of the memories that a caller may find.
    fn readable_texts(&self, who: &Who, workspace: WorkspaceId) -> BTreeMap<MemoryId, Vec<String>> {
        let rules = self.rules(who);
        let readable = self.memories.iter().filter(|(id, memory)| {
            let labels = &memory.labels;
            labels.workspace_id == workspace
                && labels.review == ReviewStatus::Approved
                && rules.sight(**id, labels) == Verdict::Everything
        });
        let text = |(id, memory): (&MemoryId, &super::Memory)| {
            let content = &memory.content;
            let (mut all, rest) = (words(&content.title), words(&content.content));
            all.extend(rest);
            (*id, all)
        };
        readable.map(text).collect()
    }
}

/// Returns the texts with at least one of the words, by BM25, those with equal scores in order.
fn ranked(texts: &BTreeMap<MemoryId, Vec<String>>, query: &[String]) -> Vec<(MemoryId, f64)> {
    let count = texts.len() as f64;
    let mean = texts.values().map(Vec::len).sum::<usize>() as f64 / count;
    let mut ranked: Vec<(MemoryId, f64)> = Vec::new();
    for (id, text) in texts {
        let length = K1 * (1.0 - B) + K1 * B / mean * text.len() as f64;
        let mut parts = 0.0;
        for word in query {
            let times = text.iter().filter(|other| *other == word).count() as f64;
            let having = texts.values().filter(|text| text.contains(word)).count() as f64;
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            parts += (rarity * PARTS * (times / (times + length)) + 0.5).floor();
        }
        if parts > 0.0 {
            ranked.push((*id, parts / PARTS));
        }
    }
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked
}

/// Returns the fused ranking of candidates and of what was found by words.
fn fused(
    texts: &BTreeMap<MemoryId, Vec<String>>,
    candidates: &[MemoryId],
    found: &[(MemoryId, f64)],
) -> Vec<(MemoryId, Option<f64>)> {
    let found: Vec<MemoryId> = found.iter().map(|(id, _)| *id).take(500).collect();
    let rank = |ranking: &[MemoryId], id: &MemoryId| {
        let index = ranking.iter().position(|other| other == id);
        index.map_or(0.0, |index| 1.0 / (60.0 + (index + 1) as f64))
    };
    let mut fused: Vec<(MemoryId, f64)> = Vec::new();
    for id in texts.keys() {
        let score = rank(candidates, id) + rank(&found, id);
        if score > 0.0 {
            fused.push((*id, score));
        }
    }
    fused.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    fused.into_iter().map(|(id, by)| (id, Some(by))).collect()
}
