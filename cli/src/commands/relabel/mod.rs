//! `knowledge relabel`: changes the labels of many memories, over the API of a server.

mod api;
mod labels;
mod names;
mod plan;

use std::collections::HashSet;
use std::path::PathBuf;

use http::Method;
use knowledge_core::env::Env;
use knowledge_core::model::{BulkResult, MemoryId, MemorySummary, WorkspaceId};
use serde::Serialize;
use serde_json::{Value, json};

use self::api::{Api, CallError};
use self::labels::{Label, Labels};
use self::names::{find_source, find_workspace};
use self::plan::{Plan, PlanError, Rejection, Task};
use super::args::{OutputFormat, token};
use super::confirm::confirm;
use super::failure::{Failure, plain_failures};
use super::table::plain;
use crate::progress::{Progress, counted, grouped};

/// Number of matches shown.
const SAMPLE_MAX: usize = 5;
/// Number of rejections shown.
const REJECTIONS_SHOWN_MAX: usize = 20;

/// Change the labels of all memories that match a filter
///
/// Finds the memories that have all labels of --where, shows their number, and sets the labels of
/// --set in batches over the API of a server; the token must be allowed to list and relabel them.
/// Labels are audience=LABEL, sensitivity=public|internal|confidential|restricted,
/// review=pending|approved|rejected and source=NAME or source=ID.
///
/// An interrupted run is resumed by running the command again with the same options, and changes
/// nothing twice: the matches are determined once and kept in a plan until all are changed.
/// Memories that could not be changed are listed at the end, with exit code 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Workspace, by slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: String,

    /// Label to match, for example sensitivity=internal; memories must have all that are given
    #[arg(long = "where", value_name = "NAME=VALUE", required = true)]
    filter: Vec<Label>,

    /// Label to set, for example sensitivity=confidential; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", required = true)]
    change: Vec<Label>,

    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,

    /// URL of the server
    #[arg(
        long,
        value_name = "URL",
        env = "KNOWLEDGE_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,

    /// File with the access token, readable only by its owner; defaults to KNOWLEDGE_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Trust the certificates of this file (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Plan file; defaults to one in the user's state directory, named after the options
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Memories per request, at most the server's limits.bulk_memories_max
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(1..=1_100)
    )]
    batch: u64,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// Result, or expected result of a dry run.
#[derive(Debug, Serialize)]
struct Summary<'s> {
    dry_run: bool,
    matched: u64,
    changed: u64,
    refused: &'s [Rejection],
}

plain_failures!(PlanError);

impl From<PlanError> for CallError {
    fn from(error: PlanError) -> Self {
        Failure::from(error).into()
    }
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let labels = |flag: &str, labels: &[Label]| {
        Labels::of(labels)
            .map_err(|name| Failure::usage(format!("{flag} {name}=… must not be repeated")))
    };
    let mut filter = labels("--where", &args.filter)?;
    let mut change = labels("--set", &args.change)?;
    let api = Api::new(
        &args.server,
        &token(args.token_file.as_deref())?,
        args.ca_file.as_deref(),
    )?;
    find_source(&api, &mut filter).await?;
    find_source(&api, &mut change).await?;
    let workspace = find_workspace(&api, &args.workspace).await?;
    let task = Task {
        server: api.base().to_owned(),
        workspace: workspace.id,
        filter,
        change,
    };
    let path = match &args.plan {
        Some(path) => path.clone(),
        None => state_directory()?.join(task.file_name()),
    };
    let (mut plan, was_interrupted) = match Plan::find(&path, &task)? {
        Some(plan) => {
            let (all, completed) = plan.memories();
            eprintln!(
                "an earlier run was interrupted; memories remaining: {} of {}",
                grouped(all - completed),
                grouped(all)
            );
            if args.dry_run {
                return summarise(&args, all, (0, &[]));
            }
            (plan, true)
        }
        None => {
            let found = find_matches(&api, &task, &workspace.slug).await?;
            show(&found, &task, &workspace.slug, args.dry_run);
            warn_of_audience(&api, &task, &found.ids).await;
            if args.dry_run || found.ids.is_empty() {
                return summarise(&args, found.ids.len() as u64, (0, &[]));
            }
            let instead = "pass --yes to confirm or --dry-run to preview";
            confirm(args.yes, "Change them?", instead)?;
            let run = (Env::system().uuid(), Env::system().now());
            let batch = usize::try_from(args.batch).unwrap_or(usize::MAX);
            let plan = Plan::create(&path, task.clone(), run, &found.ids, batch)?;
            (plan, false)
        }
    };
    if let Err(error) = execute(&api, &task, &mut plan, was_interrupted).await {
        return Err(unfinished(error, plan));
    }
    let (matched, _) = plan.memories();
    let summarised = summarise(&args, matched, plan.outcome());
    plan.remove()?;
    summarised
}

/// Returns the failure of an incomplete run.
///
/// If the server rejected the first request for its content, the plan is removed: it would fail
/// again, while other options may not.
fn unfinished(error: CallError, plan: Plan) -> Failure {
    let (all, completed) = plan.memories();
    let is_rejected = matches!(error, CallError::Rejected(_)) && completed == 0;
    let failure = Failure::from(error);
    if !is_rejected {
        return Failure::new(format!(
            "{failure}; memories done: {} of {}; run the command again to resume (plan: {})",
            grouped(completed),
            grouped(all),
            plan.path().display()
        ));
    }
    match plan.remove() {
        Ok(()) => Failure::new(format!(
            "{failure}; nothing was changed; use other options (--set, --batch)"
        )),
        Err(error) => error.into(),
    }
}

/// Returns the directory of plans.
///
/// This is `$XDG_STATE_HOME/knowledge/relabel`, or `.local/state/knowledge/relabel` in the home
/// directory.
fn state_directory() -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = match variable("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => {
            let home = variable("HOME").or_else(|| variable("USERPROFILE"));
            let missing =
                || Failure::usage("there is no home directory; name the plan file with --plan");
            PathBuf::from(home.ok_or_else(missing)?).join(".local/state")
        }
    };
    Ok(state.join("knowledge").join("relabel"))
}

/// The memories to change.
struct Matches {
    ids: Vec<MemoryId>,
    sample: Vec<MemorySummary>,
    /// Matches that already have the labels.
    unchanged: u64,
}

/// Finds the memories that match the filter and do not have the new labels.
async fn find_matches(api: &Api, task: &Task, workspace: &str) -> Result<Matches, Failure> {
    let mut found = Matches {
        ids: Vec::new(),
        sample: Vec::new(),
        unchanged: 0,
    };
    let mut progress = Progress::begin("searching", None);
    let each = |memory: MemorySummary| {
        if task.change.match_memory(&memory) {
            found.unchanged += 1;
            return;
        }
        found.ids.push(memory.id);
        if found.sample.len() < SAMPLE_MAX {
            found.sample.push(memory);
        }
    };
    let listed = list(api, task.workspace, &task.filter, &mut progress, each).await;
    progress.end();
    listed.map_err(|error| {
        let failure = Failure::from(error);
        Failure::new(format!("cannot list {workspace}: {failure}"))
    })?;
    Ok(found)
}

async fn list(
    api: &Api,
    workspace: WorkspaceId,
    filter: &Labels,
    progress: &mut Progress,
    mut each: impl FnMut(MemorySummary),
) -> Result<(), CallError> {
    let path = format!("/v1/workspaces/{workspace}/memories");
    let (mut cursor, mut seen) = (None, 0);
    loop {
        let (page, next) = api
            .page::<MemorySummary>(&path, &filter.query(), cursor.as_deref())
            .await?;
        seen += page.len() as u64;
        progress.advance(seen, seen);
        page.into_iter().for_each(&mut each);
        cursor = next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// Shows the changes to be made.
fn show(found: &Matches, task: &Task, workspace: &str, is_dry: bool) {
    let count = found.ids.len() as u64;
    let verb = match (is_dry, count) {
        (true, _) => "would get",
        (false, 1) => "gets",
        (false, _) => "get",
    };
    eprintln!(
        "{} of {workspace} with {} {verb} {}",
        counted(count, "memory", "memories"),
        task.filter,
        task.change
    );
    if found.unchanged > 0 {
        eprintln!(
            "{} these labels",
            counted(found.unchanged, "more already has", "more already have")
        );
    }
    for memory in &found.sample {
        let title = memory.title.as_deref().unwrap_or("(title not readable)");
        eprintln!("  {} {}", memory.id, plain(title));
    }
    let further = count - found.sample.len() as u64;
    if further > 0 {
        eprintln!("  and {} more", grouped(further));
    }
}

/// Warns if the new audience covers nobody. A token that may not ask gets no warning.
async fn warn_of_audience(api: &Api, task: &Task, ids: &[MemoryId]) {
    let mut body = serde_json::to_value(&task.change).unwrap_or(Value::Null);
    if ids.is_empty() || body.get("audienceTag").is_none_or(Value::is_null) {
        return;
    }
    body["memoryIds"] = json!(ids[..1]);
    body["dryRun"] = json!(true);
    let key = Env::system().uuid().to_string();
    let asked: Result<BulkResult, CallError> = api
        .call(Method::PATCH, "/v1/memories/bulk", Some((&body, &key)))
        .await;
    for label in asked
        .iter()
        .flat_map(|result| &result.labels_without_members)
    {
        eprintln!("warning: no member has {label} now: nobody could read these memories");
    }
}

/// Sends the requests that have no response yet.
async fn execute(
    api: &Api,
    task: &Task,
    plan: &mut Plan,
    was_interrupted: bool,
) -> Result<(), CallError> {
    let done = if was_interrupted {
        find_changed(api, task).await?
    } else {
        HashSet::new()
    };
    let (all, completed) = plan.memories();
    let mut progress = Progress::begin("relabelling", Some(all));
    progress.advance(completed, completed);
    for call in plan.open_calls() {
        let called = send_call(api, task, plan, call, &done).await;
        if let Err(error) = called {
            progress.end();
            return Err(error);
        }
        let (_, completed) = plan.memories();
        progress.advance(completed, completed);
    }
    progress.end();
    Ok(())
}

async fn send_call(
    api: &Api,
    task: &Task,
    plan: &mut Plan,
    call: usize,
    done: &HashSet<MemoryId>,
) -> Result<(), CallError> {
    let memories = plan.memories_of(call).iter().copied();
    let memories: Vec<MemoryId> = memories.filter(|id| !done.contains(id)).collect();
    let already_changed = (plan.memories_of(call).len() - memories.len()) as u64;
    if memories.is_empty() {
        return Ok(plan.complete(call, already_changed, Vec::new())?);
    }
    let mut body = serde_json::to_value(&task.change).unwrap_or(Value::Null);
    body["memoryIds"] = json!(memories);
    let key = plan.key(&memories);
    let result: BulkResult = api
        .call(Method::PATCH, "/v1/memories/bulk", Some((&body, &key)))
        .await?;
    let refused = result.results.iter().filter_map(|item| {
        let error = item.error.as_ref()?;
        Some(Rejection {
            id: item.memory_id,
            code: error.code.to_string(),
        })
    });
    let refused = refused.collect();
    let succeeded = u64::from(result.summary.succeeded) + already_changed;
    Ok(plan.complete(call, succeeded, refused)?)
}

/// Returns the memories that already have the new labels.
///
/// They are skipped on resumption: the server may have forgotten the idempotency key of a request
/// whose response was lost.
async fn find_changed(api: &Api, task: &Task) -> Result<HashSet<MemoryId>, CallError> {
    let mut done = HashSet::new();
    let mut progress = Progress::begin("searching for changed memories", None);
    let each = |memory: MemorySummary| {
        done.insert(memory.id);
    };
    let listed = list(api, task.workspace, &task.change, &mut progress, each).await;
    progress.end();
    listed.map(|()| done)
}

fn summarise(
    args: &Args,
    matched: u64,
    (changed, refused): (u64, &[Rejection]),
) -> Result<(), Failure> {
    let text = if args.dry_run {
        format!("{} would be changed\n", grouped(matched))
    } else {
        let refused = grouped(refused.len() as u64);
        format!("changed {}, not changed {refused}\n", grouped(changed))
    };
    let summary = Summary {
        dry_run: args.dry_run,
        matched,
        changed,
        refused,
    };
    args.output.print(&text, &summary)?;
    if refused.is_empty() {
        return Ok(());
    }
    for refused in refused.iter().take(REJECTIONS_SHOWN_MAX) {
        eprintln!("  {} {}", refused.id, refused.code);
    }
    if refused.len() > REJECTIONS_SHOWN_MAX {
        let further = refused.len() - REJECTIONS_SHOWN_MAX;
        eprintln!("  and {further} more; use --output json to list all");
    }
    Err(Failure::new(format!(
        "{} not changed",
        counted(refused.len() as u64, "memory was", "memories were")
    )))
}
