//! `knowledge compact`: the same contents in less space.

use knowledge_server::backup::compaction::{
    CompactionError, CompactionReport, Phase, Watcher, compact,
};
use serde_json::json;

use super::args::WithOutput;
use super::failure::Failure;
use super::settings::DataArgs;
use crate::progress::{Progress, counted, grouped};

/// Rewrite the store to reclaim unused space
///
/// sled's file grows with every change and never shrinks. This command writes a new store beside
/// the directory, compares it with the old one and swaps the two; the old store is removed last. If
/// it is interrupted, the next start finds either store, complete. No server may hold the directory
/// meanwhile, and the disk must have space for both stores.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep the old store as DIR.old
    #[arg(long)]
    keep: bool,

    #[command(flatten)]
    data: WithOutput<DataArgs>,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let WithOutput { output, location } = args.data;
    let config = location.configure()?.data();
    if config.store.is_shared() {
        return Err(Failure::usage(format!(
            "{} is compacted by PostgreSQL: autovacuum reclaims unused space, and VACUUM FULL \
             returns it to the system",
            config.name()
        )));
    }
    let mut shown = PhaseProgress(None);
    let compacted = compact(&config, args.keep, &mut shown).await;
    shown.end();
    let CompactionReport {
        summary,
        bytes_before,
        bytes_after,
        kept,
    } = compacted?;
    let entries = counted(summary.entries, "entry", "entries");
    let (before, after) = (grouped(bytes_before), grouped(bytes_after));
    let old = kept.as_ref().map_or_else(String::new, |kept| {
        format!("; the old store is {}", kept.display())
    });
    let text = format!(
        "{}: {entries}, {before} bytes before, {after} bytes after{old}\n",
        config.name()
    );
    let report = json!({
        "directory": config.name(),
        "entries": summary.entries,
        "sha256": summary.sha256,
        "bytes_before": bytes_before,
        "bytes_after": bytes_after,
        "kept": kept,
    });
    output.print(&text, &report)
}

/// Progress bar of the current phase.
struct PhaseProgress(Option<(Phase, Progress)>);

impl PhaseProgress {
    fn end(&mut self) {
        if let Some((_, progress)) = self.0.take() {
            progress.end();
        }
    }
}

impl Watcher for PhaseProgress {
    fn progress(&mut self, phase: Phase, entries: u64, of: u64) {
        if self.0.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            self.end();
            let what = match phase {
                Phase::Checking => "checking",
                Phase::Measuring => "measuring",
                Phase::Copying => "copying",
                Phase::Comparing => "comparing",
            };
            self.0 = Some((phase, Progress::over_entries(what, Some(of))));
        }
        if let Some((_, progress)) = &mut self.0 {
            progress.advance(entries, entries);
        }
    }
}

impl From<CompactionError> for Failure {
    fn from(error: CompactionError) -> Self {
        match error {
            CompactionError::Data(error) => error.into(),
            error => Self::new(error.to_string()),
        }
    }
}
