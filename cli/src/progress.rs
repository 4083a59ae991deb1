//! Progress of long operations on standard error: a bar on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Progress display of an operation on memories or other items. Its total is counted in items or,
/// if they are read from a file, in bytes. Dropping it removes the display.
pub(crate) struct Progress {
    what: &'static str,
    /// Noun of the items, in the singular and the plural.
    noun: (&'static str, &'static str),
    total: Option<u64>,
    position: u64,
    memories: u64,
    began: Instant,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
}

impl Progress {
    /// Starts to display an operation that ends at `total`, if that is known.
    pub(crate) fn begin(what: &'static str, total: Option<u64>) -> Self {
        Self::over(("memory", "memories"), what, total)
    }

    /// Starts to display an operation on the entries of a store.
    pub(crate) fn over_entries(what: &'static str, total: Option<u64>) -> Self {
        Self::over(("entry", "entries"), what, total)
    }

    fn over(noun: (&'static str, &'static str), what: &'static str, total: Option<u64>) -> Self {
        let began = Instant::now();
        let shown = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr())
                .with_style(style(total.is_some()))
                .with_prefix(what)
                .with_message(counted(0, noun.0, noun.1));
            Shown::Bar(bar)
        } else {
            Shown::Lines { last: began }
        };
        Self {
            what,
            noun,
            total,
            position: 0,
            memories: 0,
            began,
            shown,
        }
    }

    /// Sets the position and the number of completed items.
    pub(crate) fn advance(&mut self, position: u64, memories: u64) {
        (self.position, self.memories) = (position, memories);
        let (rate, line, count) = (self.rate(), self.line(), self.count());
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_message(format!("{count}, {rate}"));
                bar.set_position(position);
            }
            Shown::Lines { last } if last.elapsed() >= LINE_INTERVAL => {
                *last = Instant::now();
                eprintln!("{line}");
            }
            Shown::Lines { .. } => {}
        }
    }

    /// Prints a line without disturbing the bar.
    pub(crate) fn note(&self, line: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| eprintln!("{line}")),
            Shown::Lines { .. } => eprintln!("{line}"),
        }
    }

    /// Ends the display.
    pub(crate) fn end(self) {
        match &self.shown {
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { .. } => eprintln!("{}", self.line()),
        }
    }

    fn count(&self) -> String {
        counted(self.memories, self.noun.0, self.noun.1)
    }

    fn rate(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        format!(
            "{} a second",
            grouped((self.memories as f64 / seconds) as u64)
        )
    }

    /// Formats a line such as `importing: 12,000 memories, 4,000 a second, 37 %, 6s left`.
    fn line(&self) -> String {
        let line = format!("{}: {}, {}", self.what, self.count(), self.rate());
        let Some(total) = self.total.filter(|total| *total > 0) else {
            return line;
        };
        let done = self.position.min(total) as f64 / total as f64;
        let percent = (done * 100.0) as u64;
        if self.position >= total || done <= 0.0 {
            return format!("{line}, {percent} %");
        }
        let left = self.began.elapsed().mul_f64((1.0 - done) / done);
        let left = humantime::format_duration(Duration::from_secs(left.as_secs()));
        format!("{line}, {percent} %, {left} left")
    }
}

fn style(has_end: bool) -> ProgressStyle {
    let template = if has_end {
        "{prefix} {wide_bar:.cyan/dim} {percent}%, {msg}, {eta} left"
    } else {
        "{prefix} {spinner} {msg}, {elapsed}"
    };
    ProgressStyle::with_template(template)
        .expect("the templates are tested")
        .progress_chars("━╸─")
}

/// Formats a number with its noun: `1 entry`, `1,200 entries`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", grouped(number))
}

/// Formats a number with commas between its thousands.
pub(crate) fn grouped(number: u64) -> HumanCount {
    HumanCount(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_style_templates_are_valid() {
        for has_end in [false, true] {
            let _ = style(has_end);
        }
    }

    #[test]
    fn progress_noun_agrees_with_its_number() {
        for (items, count) in [(1, "1 memory, "), (2, "2 memories, ")] {
            let mut progress = Progress::begin("searching", None);
            progress.advance(items, items);
            let line = progress.line();
            assert!(line.starts_with(&format!("searching: {count}")), "{line}");
        }
    }

    #[test]
    fn counted_noun_agrees_with_its_number() {
        let entries = |number| counted(number, "entry", "entries");
        let counts = [entries(0), entries(1), entries(2_000)];
        assert_eq!(counts, ["0 entries", "1 entry", "2,000 entries"]);
    }

    #[test]
    fn numbers_have_thousands_separators() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number).to_string(), text);
        }
    }
}
