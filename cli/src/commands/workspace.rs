//! `knowledge workspace`: the workspaces of an organisation.

use clap::Subcommand;
use http::Method;
use knowledge_core::model::{AudienceLabel, SensitivityLabel, Workspace, WorkspaceAccess};
use knowledge_core::service::{NewWorkspace, NewWorkspaceAccess};
use serde_json::{Map, Value, json};

use super::args::WithOutput;
use super::confirm::confirm;
use super::failure::Failure;
use super::operator::OrgArgs;
use super::output::render_options;
use super::table::{Cell, Fit, Table};

/// Create, list and delete workspaces, open or close them, and set their retention
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(CreateArgs),
    /// List the workspaces of an organisation
    List(WithOutput<OrgArgs>),
    Delete(DeleteArgs),
    Access(AccessArgs),
    Retention(RetentionArgs),
}

/// Create a workspace
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Slug: 1 to 64 of the characters a-z 0-9 . _ -
    slug: String,

    /// Name; defaults to the slug
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Audience label of new memories, for example team:platform; defaults to workspace:SLUG
    #[arg(long, value_name = "LABEL")]
    audience: Option<AudienceLabel>,

    /// Its people: open for every member of the organisation, private for members with a role in it
    /// and owners
    #[arg(long, value_name = "ACCESS", default_value = "open")]
    access: WorkspaceAccess,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// Open a workspace to every member of the organisation, or make it private
///
/// A private workspace exists only for members with a role in it (`knowledge user role HANDLE ROLE
/// --workspace SLUG`) and for owners, and the label workspace:SLUG covers them only. It changes at
/// once, and no webhook tells of it.
#[derive(Debug, clap::Args)]
struct AccessArgs {
    /// Slug of the workspace
    slug: String,

    /// open or private
    access: WorkspaceAccess,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// Delete a workspace with everything in it
///
/// It cannot be used from that moment on. The running server, or the next one that is started,
/// deletes its memories, recalls, chats, connectors, keys and webhooks in the background. The audit
/// log of the organisation keeps what was done there. The slug stays taken, because labels
/// workspace:SLUG may remain. Backups made before still contain it.
#[derive(Debug, clap::Args)]
struct DeleteArgs {
    /// Slug of the workspace
    slug: String,

    /// Delete it without asking
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    org: OrgArgs,
}

/// Show or set after how many days a workspace erases chats, memories and recalls
///
/// Values that no flag names stay as they are. Chats that have expired are gone at once and for good;
/// memories, and recalls without a subscription, are deleted by a daily sweep, the first of which is
/// due at once.
#[derive(Debug, clap::Args)]
struct RetentionArgs {
    /// Slug of the workspace
    slug: String,

    /// Days without a new message after which a chat is erased, or `keep`
    #[arg(long, value_name = "DAYS", value_parser = days)]
    chat_days: Option<Days>,

    /// Days without a change after which a memory with a sensitivity label is deleted, or `keep`,
    /// for example restricted=30; repeatable
    #[arg(long, value_name = "LABEL=DAYS", value_parser = days_of_label)]
    memory_days: Vec<(SensitivityLabel, Days)>,

    /// Days after which a recall without a citation subscription is erased
    #[arg(long, value_name = "DAYS")]
    recall_days: Option<u64>,

    /// Registration of recalls by searches
    #[arg(long, value_name = "BOOL")]
    record_recalls: Option<bool>,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

impl RetentionArgs {
    fn is_change(&self) -> bool {
        self.chat_days.is_some()
            || !self.memory_days.is_empty()
            || self.recall_days.is_some()
            || self.record_recalls.is_some()
    }
}

/// Number of days; none to keep what there is.
#[derive(Clone, Copy, Debug)]
struct Days(Option<u64>);

fn days(text: &str) -> Result<Days, String> {
    if text == "keep" {
        return Ok(Days(None));
    }
    let days = text.parse().map_err(|_| "must be a number of days or keep");
    Ok(Days(Some(days?)))
}

fn days_of_label(text: &str) -> Result<(SensitivityLabel, Days), String> {
    let (label, text) = text.split_once('=').ok_or("must be LABEL=DAYS")?;
    let label: SensitivityLabel = label.parse().map_err(|error| format!("{error}"))?;
    Ok((label, days(text)?))
}

/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[
    ("slug", "the slug"),
    ("name", "--name"),
    ("audience", "--audience"),
    ("access", "the access"),
    ("chat_days", "--chat-days"),
    ("memory_days.public", "--memory-days public"),
    ("memory_days.internal", "--memory-days internal"),
    ("memory_days.confidential", "--memory-days confidential"),
    ("memory_days.restricted", "--memory-days restricted"),
    ("recall_days", "--recall-days"),
    ("record_recalls", "--record-recalls"),
];

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
        Command::Delete(args) => delete(args).await,
        Command::Access(args) => access(args).await,
        Command::Retention(args) => retention(args).await,
    }
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let new = NewWorkspace::builder()
        .name(args.name.unwrap_or_else(|| args.slug.clone()))
        .slug(args.slug)
        .maybe_audience(args.audience)
        .access(args.access);
    let body = json!(new.build());
    let created = operator.call(Method::POST, &["workspaces"], Some(&body), FLAGS);
    let created: Workspace = created.await?;
    eprintln!(
        "created workspace {} ({}) of {}",
        created.slug, created.id, operator.org.slug
    );
    output.print_if_json(&created)
}

async fn access(args: AccessArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let path = ["workspaces", &args.slug, "access"];
    let body = json!(NewWorkspaceAccess::builder().access(args.access).build());
    let set = operator.call(Method::PUT, &path, Some(&body), FLAGS);
    let set: Workspace = set.await?;
    let people = match set.access {
        WorkspaceAccess::Open => "every member of the organisation",
        WorkspaceAccess::Private => "members with a role in it, and owners",
    };
    eprintln!(
        "the workspace {} of {} is {}: it exists for {people}",
        set.slug, operator.org.slug, set.access
    );
    output.print_if_json(&set)
}

async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let operator = args.org.open().await?;
    let (slug, org) = (args.slug, &operator.org.slug);
    let question = format!(
        "Delete the workspace {slug} of {org} with all its memories, recalls, chats, connectors, \
         keys, webhooks and roles? This cannot be undone."
    );
    confirm(args.yes, &question, "pass --yes to confirm")?;
    operator.remove(&["workspaces", &slug], FLAGS).await?;
    eprintln!(
        "deleted the workspace {slug} of {org}; a server deletes its data in the background\n\
         What stays: the slug, which is not used again; the entries of the audit log until the end \
         of their retention; sources; backups made before."
    );
    Ok(())
}

async fn retention(args: RetentionArgs) -> Result<(), Failure> {
    let is_change = args.is_change();
    let (operator, output) = args.org.open().await?;
    let path = ["workspaces", &args.slug, "retention"];
    let mut retention: Value = operator.call(Method::GET, &path, None, FLAGS).await?;
    if is_change {
        let recall_days = args.recall_days.map(Value::from);
        let record_recalls = args.record_recalls.map(Value::from);
        let mut body = json!({
            "memory_days": retention["memory_days"],
            "recall_days": recall_days.unwrap_or_else(|| retention["recall_days"].clone()),
            "record_recalls": record_recalls.unwrap_or_else(|| retention["record_recalls"].clone()),
        });
        let chats = args.chat_days.map(|Days(days)| json!(days));
        let chats = chats.unwrap_or_else(|| retention["chat_days"].clone());
        if !chats.is_null() {
            body["chat_days"] = chats;
        }
        for (label, Days(days)) in args.memory_days {
            let memories = body["memory_days"].as_object_mut();
            let memories: &mut Map<String, Value> = memories.expect("memory_days is an object");
            match days {
                Some(days) => memories.insert(label.to_string(), json!(days)),
                None => memories.remove(label.as_str()),
            };
        }
        let set = operator.call(Method::PUT, &path, Some(&body), FLAGS);
        retention = set.await?;
    }
    let mut table = Table::new(&[("WHAT", Fit::Whole), ("DAYS", Fit::Whole)]);
    let mut row = |what: &str, days: &Value| {
        let days = days.as_u64().map(|days| days.to_string());
        let days = days.unwrap_or_else(|| "kept".to_owned());
        table.row([Cell::new(what), Cell::new(days)]);
    };
    row("chats", &retention["chat_days"]);
    for label in SensitivityLabel::ALL {
        let days = &retention["memory_days"][label.as_str()];
        row(&format!("{label} memories"), days);
    }
    row("recalls", &retention["recall_days"]);
    if retention["record_recalls"] == json!(false) {
        table.row([
            Cell::new("recalls of searches"),
            Cell::new("not registered"),
        ]);
    }
    output.print(&table.draw(render_options()), &retention)
}

async fn list(org: WithOutput<OrgArgs>) -> Result<(), Failure> {
    let (operator, output) = org.open().await?;
    let workspaces: Vec<Workspace> = operator.list("workspaces", &[]).await?;
    let columns = [
        ("SLUG", Fit::Cut),
        ("ID", Fit::Whole),
        ("AUDIENCE", Fit::Cut),
        ("ACCESS", Fit::Whole),
        ("CREATED", Fit::Optional),
        ("NAME", Fit::Cut),
    ];
    output.print_list(&workspaces, &columns, |workspace| {
        [
            Cell::new(&workspace.slug),
            Cell::new(workspace.id.to_string()),
            Cell::new(workspace.audience.to_string()),
            Cell::new(workspace.access.as_str()),
            Cell::new(workspace.created_at.to_string()),
            Cell::new(&workspace.name),
        ]
    })
}
