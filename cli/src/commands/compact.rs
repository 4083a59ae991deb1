//! `knowledge compact`: the same contents in less space.

use knowledge_server::backup::compaction::{
    CompactionError, CompactionReport, Phase, Watcher, compact,
};
use serde_json::json;

use super::args::{OutputFormat, quiet_log};
use super::failure::Failure;
use super::output::{print, print_json};
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

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    data: DataArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    quiet_log()?;
    let config = args.data.load()?.config.data();
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
    match args.output {
        OutputFormat::Text => {
            let entries = counted(summary.entries, "entry", "entries");
            let (before, after) = (grouped(bytes_before), grouped(bytes_after));
            let kept = kept.map_or_else(String::new, |kept| {
                format!("; the old store is {}", kept.display())
            });
            print(&format!(
                "{}: {entries}, {before} bytes before, {after} bytes after{kept}\n",
                config.name()
            ))
        }
        OutputFormat::Json => print_json(&json!({
            "directory": config.name(),
            "entries": summary.entries,
            "sha256": summary.sha256,
            "bytes_before": bytes_before,
            "bytes_after": bytes_after,
            "kept": kept,
        })),
    }
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
