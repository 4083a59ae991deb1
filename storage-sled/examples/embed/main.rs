//! An application with the service embedded: no HTTP interface, no server, one directory.
//!
//! ```sh
//! cargo run -p knowledge-storage-sled --example embed -- DIRECTORY
//! ```
//!
//! Start it again with the same directory: it finds what the first start stored. A copy needs
//! `async-trait`, `knowledge-core` (feature `tokio`), `knowledge-storage-sled`, `reqwest` (without
//! default features, with `rustls-no-provider`), `tokio` and `tokio-rustls` (feature `ring`).

mod sender;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use knowledge_core::access::Credential;
use knowledge_core::env::Env;
use knowledge_core::model::{
    AddressPolicy, BulkUpdate, MemoryChange, ReviewStatus, SourceId, WorkspaceId,
};
use knowledge_core::service::{
    Caller, DispatchLimits, KnowledgeService, NewMemory, NewOrganization, NewOwner, NewSource,
    NewWorkspace, Options, SealingKey,
};
use knowledge_storage_sled::{SledOptions, SledStore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::sender::Sender;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Time between two rounds of maintenance.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum time between two looks for deliveries that are due.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Delay after a failure of the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1);
    let directory = directory.unwrap_or_else(|| "knowledge-embed".into());
    run(Path::new(&directory)).await
}

async fn run(directory: &Path) -> Result<()> {
    let application = Application::start(directory, AddressPolicy::default()).await?;
    let tenant = Tenant::find_or_create(&application.service).await?;
    approve_runbooks(&application.service, &tenant).await?;
    application.stop().await;
    Ok(())
}

/// The service, with its tasks in the background.
struct Application {
    service: KnowledgeService,
    background: JoinSet<()>,
}

impl Application {
    /// Opens the store in a directory and starts the service.
    async fn start(directory: &Path, webhook_addresses: AddressPolicy) -> Result<Self> {
        let env = Env::system();
        let store = SledStore::open(directory.join("data"), SledOptions::default())?;
        // Outside the directory of the store, so that a backup of that has sealed secrets only.
        let sealing_key = sealing_key(&directory.join("sealing.key"), &store, &env).await?;
        let mut options = Options::new(sealing_key);
        options.webhook_addresses = webhook_addresses;
        let service = KnowledgeService::open(Arc::new(store), env, options).await?;

        let sender = Sender::new(service.webhook_addresses())?;
        let mut background = JoinSet::new();
        background.spawn(maintain(service.clone()));
        background.spawn(deliver(service.clone(), sender));
        Ok(Self {
            service,
            background,
        })
    }

    /// Stops the tasks and closes the store. Interrupted deliveries are made after the next start.
    async fn stop(mut self) {
        self.background.shutdown().await;
    }
}

/// Reads the key that seals the signing secrets in the store; creates it for a new store.
async fn sealing_key(path: &Path, store: &SledStore, env: &Env) -> Result<SealingKey> {
    if !path.exists() && KnowledgeService::is_new(store).await? {
        let key = SealingKey::generate(env);
        // A crash leaves either no key or a complete one.
        let unfinished = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&unfinished)?;
        file.write_all(key.expose())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        #[cfg(unix)]
        File::open(path.parent().unwrap_or(path))?.sync_all()?;
    }
    let key = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let key = <[u8; 32]>::try_from(key).map_err(|_| format!("{}: no key", path.display()))?;
    Ok(SealingKey::new(key))
}

/// Purges what has expired.
async fn maintain(service: KnowledgeService) {
    loop {
        match service.maintain(service.env().now()).await {
            Ok(report) if report.has_more => continue,
            Ok(_) => {}
            Err(error) => eprintln!("maintenance: {error}"),
        }
        sleep(MAINTENANCE_INTERVAL).await;
    }
}

/// Delivers events to webhooks and citation subscriptions as soon as they are due.
async fn deliver(service: KnowledgeService, sender: Sender) {
    loop {
        let now = service.env().now();
        let limits = DispatchLimits::default();
        let wait = match service.dispatcher().dispatch(&sender, now, limits).await {
            Ok(report) if report.has_more => continue,
            Ok(report) => report.next_due.map(|due| due.since(now)),
            Err(error) => {
                eprintln!("deliveries: {error}");
                sleep(RETRY_DELAY).await;
                continue;
            }
        };
        let wait = wait.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
        // Whichever is first: a new event, or the time of a retry.
        let _ = timeout(wait, service.dispatcher().deliveries_pending()).await;
    }
}

/// Organisation with one workspace, one source, and an owner who uses them.
struct Tenant {
    owner: Caller,
    workspace: WorkspaceId,
    source: SourceId,
}

impl Tenant {
    /// Returns the tenant of the first start, which creates it.
    ///
    /// Provisioning is the operator's interface: it checks no credential and allows everything.
    async fn find_or_create(service: &KnowledgeService) -> Result<Self> {
        let provisioning = service.provisioning();
        let (org, owner) = if let Some(org) = provisioning.organization("acme").await? {
            let owner = provisioning.member(org.id, "ada").await?;
            (org.id, owner.ok_or("the owner was removed")?.id)
        } else {
            let ada = NewOwner::builder()
                .handle("ada")
                .name("Ada")
                .teams(vec!["platform".to_owned()])
                .build();
            let acme = NewOrganization::builder()
                .slug("acme")
                .name("Acme")
                .owner(ada);
            let (org, owner) = provisioning.create_organization(&acme.build()).await?;
            (org.id, owner.id)
        };
        let workspace = match provisioning.workspace(org, "support").await? {
            Some(workspace) => workspace.id,
            None => {
                let new = NewWorkspace::builder()
                    .name("Support")
                    .slug("support")
                    .build();
                provisioning.create_workspace(org, &new).await?.id
            }
        };
        // The application has authenticated Ada itself and vouches for her.
        let owner = Caller::new(Credential::Trusted { org, member: owner });
        let source = match provisioning.sources(org).await?.first() {
            Some(source) => source.id,
            None => {
                let new = NewSource::builder().name("Wiki").kind("confluence").build();
                service.sources().create(&owner, &new).await?.id
            }
        };
        Ok(Self {
            owner,
            workspace,
            source,
        })
    }
}

/// Ingests three memories and approves them for one team.
async fn approve_runbooks(service: &KnowledgeService, tenant: &Tenant) -> Result<()> {
    let memory = |number: usize| {
        NewMemory::builder()
            .title(format!("Runbook {number}"))
            .content("When the queue grows, add a worker first and ask why second.")
            // With a key of its own, a memory is added only once.
            .source_key(format!("runbook-{number}"))
            .build()
    };
    let memories: Vec<_> = (1..=3).map(memory).collect();
    let ingested = service
        .memories()
        .ingest(&tenant.owner, tenant.workspace, tenant.source, &memories)
        .await?;

    // Exactly once, however often the call is repeated: the same key has the same result.
    let update = BulkUpdate::builder()
        .memory_ids(ingested.iter().filter_map(|memory| memory.id).collect())
        .change(
            MemoryChange::builder()
                .audience_tag("team:platform".parse()?)
                .review_status(ReviewStatus::Approved)
                .build(),
        )
        .build();
    let key = "approve-runbooks".parse()?;
    let result = service
        .memories()
        .bulk_update(&tenant.owner, &key, &update)
        .await?;

    let dashboard = service
        .workspaces()
        .get_dashboard_summary(&tenant.owner, tenant.workspace);
    println!(
        "{} memories approved{}, {} wait for review",
        result.summary.succeeded,
        if result.replayed { " before" } else { "" },
        dashboard.await?.value.review_backlog_count
    );
    Ok(())
}
