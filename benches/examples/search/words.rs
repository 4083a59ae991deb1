//! Words by Zipf's law, and memories and questions of them.

use knowledge_core::model::SensitivityLabel;
use knowledge_core::service::NewMemory;
use knowledge_testing::requests::new_memory;

/// Number of different words.
pub(crate) const WORDS: usize = 200_000;
/// Size of a text, in bytes.
const CONTENT_BYTES: usize = 300;

/// Words of a question.
pub(crate) type Question = Vec<String>;

/// Words by Zipf's law: the rank of a word is inversely proportional to its frequency.
pub(crate) struct Zipf {
    random: fastrand::Rng,
    /// Sums of the frequencies up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new() -> Self {
        let mut sum = 0.0;
        let frequencies = (1..=WORDS).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self {
            sums: frequencies.collect(),
            random: fastrand::Rng::with_seed(5),
        }
    }

    fn word(&mut self) -> String {
        let total = self.sums.last().copied().unwrap_or_default();
        let wanted = self.random.f64() * total;
        let rank = self.sums.partition_point(|sum| *sum < wanted);
        format!("w{rank}")
    }

    /// Returns a word with a rank in these bounds.
    fn ranked(&mut self, ranks: std::ops::Range<usize>) -> String {
        format!("w{}", self.random.usize(ranks))
    }

    /// Returns questions of so many stop words and three other common words.
    pub(crate) fn questions(&mut self, count: usize, stop_words: usize) -> Vec<Question> {
        let question = |_| {
            let mut question: Question = (0..stop_words).map(|_| self.ranked(0..20)).collect();
            question.extend((0..3).map(|_| self.ranked(20..500)));
            question
        };
        (0..count).map(question).collect()
    }

    /// Returns questions of one word that few memories have.
    pub(crate) fn rare_questions(&mut self, count: usize) -> Vec<Question> {
        let ranks = WORDS / 4 * 3..WORDS;
        (0..count)
            .map(|_| vec![self.ranked(ranks.clone())])
            .collect()
    }

    pub(crate) fn memory(&mut self, number: usize) -> NewMemory {
        let mut memory = new_memory(&format!("Page {number}"));
        let mut content = String::new();
        while content.len() < CONTENT_BYTES {
            content.push_str(&self.word());
            content.push(' ');
        }
        memory.content = content;
        let audience = ["workspace:w", "org:acme"][number % 2];
        memory.audience_tag = audience.parse().ok();
        let sensitivities = [
            SensitivityLabel::Public,
            SensitivityLabel::Internal,
            SensitivityLabel::Confidential,
        ];
        memory.sensitivity_label = Some(sensitivities[number % 3]);
        memory
    }
}
