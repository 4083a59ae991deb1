//! `knowledge org move`: moves an organisation to another partition.

use std::sync::Arc;

use knowledge_core::env::Env;
use knowledge_core::model::OrgId;
use knowledge_core::partition::{
    Copied, Directory, HOME, MoveError, MoveOutcome, MoveStep, Relocation, Stores,
};
use knowledge_core::store::StoreError;
use knowledge_server::config::Config;
use serde_json::json;

use super::args::WithOutput;
use super::failure::Failure;
use super::settings::DataArgs;
use crate::progress::counted;

/// Move an organisation to another partition
///
/// Copies everything of the organisation to the partition of this name in storage.partitions, then
/// removes it from the present one; `home` is the store in storage.store. The organisation is served
/// meanwhile. While the last changes are copied and compared, only its own writes are answered 503
/// with Retry-After. Credentials and URLs stay valid.
///
/// An interrupted move is resumed by the same command. Until its copy has been compared, a move back
/// to the present partition cancels it. All servers must have the same partitions in their
/// configuration first. Stores in directories can only be moved between while no server uses them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Slug of the organisation
    slug: String,

    /// Name of the partition to move it to
    #[arg(long, value_name = "PARTITION")]
    to: String,

    #[command(flatten)]
    data: WithOutput<DataArgs>,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let WithOutput { output, location } = args.data;
    let config = location.configure()?;
    // Unknown names are reported before anything is opened.
    config.data().partition(&args.to)?;
    let stores = open(&config).await?;
    let directory = Directory::new(Arc::clone(&stores[HOME]));
    let found = find(&directory, &args.slug).await?;
    let org = found.ok_or_else(|| unknown(&args.slug))?;
    let relocation = Relocation { org, to: &args.to };
    let mut last = None;
    let outcome = relocation.run(&stores, |step, _| {
        if last.replace(step) != Some(step) {
            eprintln!("{}", describe(step));
        }
    });
    let outcome = outcome.await.map_err(|error| failure(&args.slug, error))?;
    let (from, copied, cancelled) = match &outcome {
        MoveOutcome::Moved { from, copied } => (Some(from), copied.as_ref(), None),
        MoveOutcome::Cancelled { to } => (None, None, Some(to)),
        _ => (None, None, None),
    };
    let report = json!({
        "organization": org,
        "slug": args.slug,
        "from": from,
        "to": args.to,
        "cancelled": cancelled,
        "entries": copied.map(|copied| copied.entries),
        "sha256": copied.map(|copied| &copied.sha256),
    });
    output.print(&text((&args.slug, &args.to), &outcome), &report)
}

/// Opens the stores of all partitions, which servers have opened before.
async fn open(config: &Config) -> Result<Stores, Failure> {
    let data = config.data();
    let others = data.partitions.iter().map(|partition| &*partition.name);
    let mut stores = Stores::new();
    for name in others.chain([HOME]) {
        let opened = data.partition(name)?.open_existing().await?;
        let options = opened.options(config.limits.clone());
        // Upgrades the store if it is of an earlier schema.
        opened.service(Env::system(), options).await?;
        stores.insert(name.to_owned(), opened.backend().store());
    }
    Ok(stores)
}

/// Returns the organisation with this slug, also if it was deleted while it was being moved.
async fn find(directory: &Directory, slug: &str) -> Result<Option<OrgId>, StoreError> {
    if let Some(org) = directory.organization(slug).await? {
        return Ok(Some(org));
    }
    let placements = directory.placements().await?;
    let mut found = placements.into_iter();
    let found = found.find(|(_, placement)| placement.slug == slug);
    Ok(found.map(|(org, _)| org))
}

fn unknown(slug: &str) -> Failure {
    Failure::new(format!(
        "unknown organisation {slug:?}; list them with `knowledge org list`"
    ))
}

fn failure(slug: &str, error: MoveError) -> Failure {
    match error {
        MoveError::UnknownOrganization => unknown(slug),
        MoveError::OtherMove { ref to } => {
            Failure::new(format!("{error}: knowledge org move {slug} --to {to}"))
        }
        MoveError::Store(_) | MoveError::Directory(_) | MoveError::Superseded => {
            Failure::new(format!("{error}; repeat the command to resume the move"))
        }
        error => Failure::new(error.to_string()),
    }
}

fn describe(step: MoveStep) -> &'static str {
    match step {
        MoveStep::Copying => "copying while the organisation is served",
        MoveStep::Holding => "holding its writes: copying what has changed, comparing",
        MoveStep::Switching => "switching to the other partition",
        _ => "removing it from the partition that had it",
    }
}

fn text((slug, to): (&str, &str), outcome: &MoveOutcome) -> String {
    match outcome {
        MoveOutcome::Cancelled { to: other } => {
            format!("{slug} stays in {to}: its move to {other} was cancelled\n")
        }
        MoveOutcome::Moved { from, copied: None } => {
            format!("{slug} was moved from {from} to {to}\n")
        }
        MoveOutcome::Moved {
            from,
            copied: Some(Copied {
                entries, sha256, ..
            }),
        } => {
            let entries = counted(*entries, "entry", "entries");
            format!("{slug} was moved from {from} to {to}: {entries}, sha256 {sha256}\n")
        }
        _ => format!("{slug} is in {to}\n"),
    }
}
