//! `knowledge relabel`: the labels of many memories, over the interface of a server.

mod api;
mod labels;
mod plan;

use std::collections::HashSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use http::Method;
use knowledge_core::access::Secret;
use knowledge_core::env::Clock;
use knowledge_core::model::{BulkResult, MemoryId, MemorySummary, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::api::{Api, CallError};
use self::labels::{Label, Labels};
use self::plan::{Plan, PlanError, Refused, Task};
use super::args::OutputFormat;
use super::failure::Failure;
use super::output::{print, print_json};
use super::table::plain;
use super::tenant::known;
use crate::private_file;
use crate::progress::{Progress, grouped};
use crate::system::{SystemClock, system_env};

/// How many of those that would be changed are shown.
const SAMPLE_MAX: usize = 5;
/// How many of those that were refused are shown.
const REFUSED_SHOWN_MAX: usize = 20;
/// The variable with the token.
const TOKEN_VARIABLE: &str = "KNOWLEDGE_TOKEN";

/// Change the labels of all memories that have some labels
///
/// Looks for the memories with all labels of --where, says how many they are, and gives them the labels of --set, in
/// calls of up to 1,000 memories through the interface of a server: it needs a token that may list and relabel them.
/// Labels are audience=LABEL, sensitivity=public|internal|confidential|restricted, review=pending|approved|rejected and
/// source=ID.
///
/// Interrupted, it goes on when it is started again with the same options, and changes nothing twice: which memories
/// are changed is decided once, and kept in a plan until all of them are done. What was not changed is listed at the
/// end, with exit code 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The workspace, by its slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: String,

    /// A label that the memories have, for example sensitivity=internal; may be repeated, then they have all of them
    #[arg(long = "where", value_name = "NAME=VALUE", required = true)]
    filter: Vec<Label>,

    /// A label that they get, for example sensitivity=confidential; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", required = true)]
    change: Vec<Label>,

    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// The server
    #[arg(
        long,
        value_name = "URL",
        env = "KNOWLEDGE_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,

    /// The file with the access token, readable by its owner alone; without it the variable KNOWLEDGE_TOKEN has it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Trust the certificates of this file (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// The plan; without it a file in the state directory of the user, named after what is asked for
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Memories in one call, no more than the server takes (limits.bulk_memories_max)
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_300))]
    batch: u64,

    /// What the summary looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// What came of it, or would.
#[derive(Debug, Serialize)]
struct Summary<'s> {
    dry_run: bool,
    matched: u64,
    changed: u64,
    refused: &'s [Refused],
}

/// The workspace in a list.
#[derive(Deserialize)]
struct Listed {
    id: WorkspaceId,
    slug: String,
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<PlanError> for CallError {
    fn from(error: PlanError) -> Self {
        Failure::from(error).into()
    }
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let labels = |flag: &str, labels: &[Label]| {
        Labels::of(labels)
            .map_err(|name| Failure::usage(format!("{flag} {name}=… must be given once")))
    };
    let filter = labels("--where", &args.filter)?;
    let change = labels("--set", &args.change)?;
    let api = Api::new(&args.server, &token(&args)?, args.ca_file.as_deref())?;
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
            let (all, answered) = plan.memories();
            eprintln!(
                "an earlier run was interrupted: {} of {} memories are left",
                grouped(all - answered),
                grouped(all)
            );
            if args.dry_run {
                return summarise(&args, all, (0, &[]));
            }
            (plan, true)
        }
        None => {
            let found = look(&api, &task, &workspace.slug).await?;
            show(&found, &task, &workspace.slug, args.dry_run);
            if args.dry_run || found.ids.is_empty() {
                return summarise(&args, found.ids.len() as u64, (0, &[]));
            }
            confirm(&args)?;
            let run = (system_env().uuid(), SystemClock.now());
            let batch = usize::try_from(args.batch).unwrap_or(usize::MAX);
            let plan = Plan::make(&path, task.clone(), run, &found.ids, batch)?;
            (plan, false)
        }
    };
    if let Err(error) = carry_out(&api, &task, &mut plan, was_interrupted).await {
        return Err(unfinished(error, plan));
    }
    let (matched, _) = plan.memories();
    let summarised = summarise(&args, matched, plan.outcome());
    plan.remove()?;
    summarised
}

/// What is said of a plan that is not carried out. One of which the server refused the first call is not kept: it would
/// refuse that call each time, while other options may do.
fn unfinished(error: CallError, plan: Plan) -> Failure {
    let (all, answered) = plan.memories();
    let is_refused = matches!(error, CallError::Refused(_)) && answered == 0;
    let failure = Failure::from(error);
    if !is_refused {
        return Failure::new(format!(
            "{failure}; {} of {} memories are done: start it again to go on (the plan is {})",
            grouped(answered),
            grouped(all),
            plan.path().display()
        ));
    }
    match plan.remove() {
        Ok(()) => Failure::new(format!(
            "{failure}; the server took nothing of it: start it with other options (--set, --batch)"
        )),
        Err(error) => error.into(),
    }
}

fn token(args: &Args) -> Result<Secret, Failure> {
    let (text, place) = match &args.token_file {
        Some(file) => {
            let text = private_file::read(file)?;
            let missing = || Failure::new(format!("--token-file {} is missing", file.display()));
            (text.ok_or_else(missing)?, "--token-file")
        }
        None => {
            let text = std::env::var(TOKEN_VARIABLE).map_err(|_| {
                Failure::usage(format!(
                    "a token is needed: --token-file FILE, or the variable {TOKEN_VARIABLE}"
                ))
            })?;
            (text, TOKEN_VARIABLE)
        }
    };
    let token: Result<Secret, _> = text.trim().parse();
    token.map_err(|error| Failure::new(format!("{place} has no token: {error}")))
}

/// Where plans are kept: `$XDG_STATE_HOME/knowledge/relabel`, or under the home of the user.
fn state_directory() -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = match variable("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => {
            let home = variable("HOME").or_else(|| variable("USERPROFILE"));
            let missing =
                || Failure::usage("there is no home directory: name the plan with --plan");
            PathBuf::from(home.ok_or_else(missing)?).join(".local/state")
        }
    };
    Ok(state.join("knowledge").join("relabel"))
}

async fn find_workspace(api: &Api, name: &str) -> Result<Listed, Failure> {
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = api
            .page::<Listed>("/v1/workspaces", &[], cursor.as_deref())
            .await?;
        for workspace in page {
            if workspace.slug == name || workspace.id.to_string() == name {
                return Ok(workspace);
            }
            seen.push(workspace.slug);
        }
        cursor = next;
        if cursor.is_none() {
            let known = known(seen.iter().map(String::as_str));
            return Err(Failure::new(format!(
                "there is no workspace {name:?} for this token; there are: {known}"
            )));
        }
    }
}

/// The memories that would be changed.
struct Found {
    ids: Vec<MemoryId>,
    sample: Vec<MemorySummary>,
    /// How many match and have the labels already.
    are_so: u64,
}

/// Looks through the workspace for what the filter admits and the change would change.
async fn look(api: &Api, task: &Task, workspace: &str) -> Result<Found, Failure> {
    let mut found = Found {
        ids: Vec::new(),
        sample: Vec::new(),
        are_so: 0,
    };
    let mut progress = Progress::begin("looking", None);
    let each = |memory: MemorySummary| {
        if task.change.are_those_of(&memory) {
            found.are_so += 1;
            return;
        }
        found.ids.push(memory.id);
        if found.sample.len() < SAMPLE_MAX {
            found.sample.push(memory);
        }
    };
    let looked = list(api, task.workspace, &task.filter, &mut progress, each).await;
    progress.end();
    looked.map_err(|error| {
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

/// Says what would be changed.
fn show(found: &Found, task: &Task, workspace: &str, is_dry: bool) {
    let count = found.ids.len() as u64;
    let would = if is_dry { "would get" } else { "get" };
    eprintln!(
        "{} memories of {workspace} with {} {would} {}",
        grouped(count),
        task.filter,
        task.change
    );
    if found.are_so > 0 {
        eprintln!("{} more have that already", grouped(found.are_so));
    }
    for memory in &found.sample {
        let title = memory.title.as_deref().unwrap_or("(not yours to read)");
        eprintln!("  {} {}", memory.id, plain(title));
    }
    let further = count - found.sample.len() as u64;
    if further > 0 {
        eprintln!("  and {} more", grouped(further));
    }
}

/// Asks whoever sits at the terminal.
fn confirm(args: &Args) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "there is no terminal to ask at: --yes changes them without asking, --dry-run shows them",
        ));
    }
    eprint!("Change them? [y/N] ");
    let mut answer = String::new();
    io::stderr().flush().ok();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was changed")),
    }
}

/// Makes the calls that had no answer yet.
async fn carry_out(
    api: &Api,
    task: &Task,
    plan: &mut Plan,
    was_interrupted: bool,
) -> Result<(), CallError> {
    let done = if was_interrupted {
        changed_meanwhile(api, task).await?
    } else {
        HashSet::new()
    };
    let (all, answered) = plan.memories();
    let mut progress = Progress::begin("relabelling", Some(all));
    progress.advance(answered, answered);
    for call in plan.open_calls() {
        let called = make_call(api, task, plan, call, &done).await;
        if let Err(error) = called {
            progress.end();
            return Err(error);
        }
        let (_, answered) = plan.memories();
        progress.advance(answered, answered);
    }
    progress.end();
    Ok(())
}

async fn make_call(
    api: &Api,
    task: &Task,
    plan: &mut Plan,
    call: usize,
    done: &HashSet<MemoryId>,
) -> Result<(), CallError> {
    let memories = plan.memories_of(call).iter().copied();
    let memories: Vec<MemoryId> = memories.filter(|id| !done.contains(id)).collect();
    let were_so = (plan.memories_of(call).len() - memories.len()) as u64;
    if memories.is_empty() {
        return Ok(plan.answer(call, were_so, Vec::new())?);
    }
    let mut body = serde_json::to_value(&task.change).unwrap_or(Value::Null);
    body["memoryIds"] = json!(memories);
    let key = plan.key(&memories);
    let result: BulkResult = api
        .call(Method::PATCH, "/v1/memories/bulk", Some((&body, &key)))
        .await?;
    let refused = result.results.iter().filter_map(|item| {
        let error = item.error.as_ref()?;
        Some(Refused {
            id: item.memory_id,
            code: error.code.to_string(),
        })
    });
    let refused = refused.collect();
    let succeeded = u64::from(result.summary.succeeded) + were_so;
    Ok(plan.answer(call, succeeded, refused)?)
}

/// The memories that have their labels, so that they are not given them twice: the server may have forgotten a call
/// whose answer did not arrive. How long it remembers is its own setting.
async fn changed_meanwhile(api: &Api, task: &Task) -> Result<HashSet<MemoryId>, CallError> {
    let mut done = HashSet::new();
    let mut progress = Progress::begin("looking what is done", None);
    let each = |memory: MemorySummary| {
        done.insert(memory.id);
    };
    let looked = list(api, task.workspace, &task.change, &mut progress, each).await;
    progress.end();
    looked.map(|()| done)
}

fn summarise(
    args: &Args,
    matched: u64,
    (changed, refused): (u64, &[Refused]),
) -> Result<(), Failure> {
    match args.output {
        OutputFormat::Json => print_json(&Summary {
            dry_run: args.dry_run,
            matched,
            changed,
            refused,
        })?,
        OutputFormat::Text if args.dry_run => {
            print(&format!("{} would be changed\n", grouped(matched)))?;
        }
        OutputFormat::Text => print(&format!(
            "changed {}, not changed {}\n",
            grouped(changed),
            grouped(refused.len() as u64)
        ))?,
    }
    if refused.is_empty() {
        return Ok(());
    }
    for refused in refused.iter().take(REFUSED_SHOWN_MAX) {
        eprintln!("  {} {}", refused.id, refused.code);
    }
    if refused.len() > REFUSED_SHOWN_MAX {
        let further = refused.len() - REFUSED_SHOWN_MAX;
        eprintln!("  and {further} more: --output json has all of them");
    }
    Err(Failure::new(format!(
        "{} memories were not changed",
        grouped(refused.len() as u64)
    )))
}
