//! `knowledge demo`: a server with sample data, in one command.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::model::{AddressPolicy, Organization};
use knowledge_core::service::{KnowledgeService, Options};
use knowledge_server::app::App;
use knowledge_server::auth::login_url;
#[cfg(unix)]
use knowledge_server::backup::Backup;
#[cfg(unix)]
use knowledge_server::config::Config;
use knowledge_server::config::WebhookSettings;
use knowledge_server::data::{Data, DataConfig, DataError};
use knowledge_server::deliveries::{
    Deliveries, DeliveryClient, IN_FLIGHT_MAX_DEFAULT, open_files_max,
};
use knowledge_server::logging::{self, LogConfig};
use knowledge_server::net::{ADDRESS_DEFAULT, NetConfig, OPEN_FILES_RESERVED};
use knowledge_server::store_address::StoreAddress;
use knowledge_storage_embedded::DirectoryLock;

use super::args::{LogFormatArg, OutputFormat, StoreParser};
use super::failure::{Failure, plain_failures};
use super::output::has_colours;
#[cfg(unix)]
use super::serve::admin_socket;
use super::serve::shutdown_signal;
use crate::demo::{
    self, Demo, DemoState, Plan, Screen, StateError, read_state, state_path, write_state,
};

/// Seed of the demo's texts.
const SEED: u64 = 2_026;

/// Create an organisation with two weeks of history, and serve it
///
/// Prints tokens and a curl command for each operation, then serves. Later starts on the same
/// directory serve the same data, and the tokens keep working. The tokens are stored in
/// DIR.demo.json and the key in DIR.key; remove both files and the directory to start over.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory of the demo's store
    #[arg(long, value_name = "DIR", default_value = "./knowledge-demo")]
    data_dir: PathBuf,

    /// Store to use instead: sled:DIR, fjall:DIR, or memory:, which is lost when the process ends
    #[arg(long, value_name = "STORE", value_parser = StoreParser, conflicts_with = "data_dir")]
    store: Option<StoreAddress>,

    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value_t = ADDRESS_DEFAULT)]
    listen: SocketAddr,

    /// Number of memories to create at the first start
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(3..=10_000_000))]
    memories: u64,

    /// Deliver nothing to webhooks and citation subscriptions
    #[arg(long)]
    no_deliveries: bool,

    /// Format of the output: a screen of text, or one line of JSON once connections are accepted
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    /// Log level, see `knowledge serve --help`; info includes requests
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log_level: String,

    /// Format of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormatArg::Auto)]
    log_format: LogFormatArg,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    logging::init(&LogConfig {
        level: args.log_level.clone(),
        format: args.log_format.into(),
    })?;
    let config = match &args.store {
        Some(StoreAddress::Postgres(_)) => {
            return Err(Failure::usage(
                "a demo needs a store of its own: --store sled:DIR, fjall:DIR or memory:",
            ));
        }
        Some(store) => DataConfig::of(store.clone()),
        None => DataConfig::at(&args.data_dir),
    };
    let prepared = prepare(&config).await?;
    #[cfg(unix)]
    let store = prepared.data.backend().clone();
    let service = prepared.service.clone();
    let net = NetConfig {
        address: args.listen,
        open_files_reserved: OPEN_FILES_RESERVED + open_files_max(IN_FLIGHT_MAX_DEFAULT),
        ..NetConfig::default()
    };
    // Bound first, so that an address in use is reported immediately.
    let mut app = App::bind(service.clone(), net).await?;
    if !args.no_deliveries {
        let client = DeliveryClient::new(&webhooks())?;
        app = app.deliver_with(Deliveries::through(Arc::new(client)));
    }
    let demo = prepared.finish(args.memories).await?;
    #[cfg(unix)]
    let app = {
        let config = Config {
            store: Some(config.store.clone()),
            data: config.clone(),
            ..Config::default()
        };
        app.with_admin(admin_socket(&config, service.clone(), Backup::of(store.clone())).await?)
    };
    let base_url = app.base_url();
    let shutdown = shutdown_signal()?;
    let serving = tokio::spawn(app.run(shutdown));
    show(&service, &demo, base_url, &config, &args).await?;
    serving
        .await
        .map_err(|error| Failure::new(format!("the server failed: {error}")))?;
    Ok(())
}

/// The demo's store, either empty or with a complete demo.
struct PreparedDemo {
    data: Data,
    service: KnowledgeService,
    /// File with the tokens; none for a store in memory.
    state_path: Option<PathBuf>,
    existing: Option<Demo>,
}

/// Opens the demo's store.
///
/// Removes the remains of an interrupted start, and rejects a store with other data.
async fn prepare(config: &DataConfig) -> Result<PreparedDemo, Failure> {
    let state_path = config.directory().map(state_path);
    let mut data = config.open().await?;
    let mut service = open_service(&data).await?;
    let mut state = match &state_path {
        Some(path) => read_state(path)?,
        None => None,
    };
    let orgs = service.provisioning().organizations().await?;
    let is_other = |org: &Organization| org.slug != demo::org_slug();
    if orgs.is_empty() {
        state = None; // The file belongs to a removed store.
    } else if orgs.iter().any(is_other) || state.is_none() {
        let state = state_path.unwrap_or_default();
        return Err(Failure::new(format!(
            "{} contains data that does not belong to a demo, or its {} is missing; choose another \
             --data-dir",
            config.name(),
            state.display()
        )));
    }
    if state == Some(DemoState::Seeding) {
        eprintln!("the last start was interrupted while creating the demo; starting over");
        drop((service, data)); // Releases the lock on the directory.
        remove(config)?;
        data = config.open().await?;
        service = open_service(&data).await?;
        state = None;
    }
    Ok(PreparedDemo {
        data,
        service,
        state_path,
        existing: match state {
            Some(DemoState::Ready(demo)) => Some(*demo),
            _ => None,
        },
    })
}

impl PreparedDemo {
    /// Creates the demo, or brings an existing one up to date.
    async fn finish(self, memories: u64) -> Result<Demo, Failure> {
        let existed = self.existing.is_some();
        let mut demo = match self.existing {
            Some(demo) => {
                demo::report_syncs(&self.service, &demo).await?;
                demo
            }
            None => create(&self.data, self.state_path.as_deref(), memories).await?,
        };
        if demo.memories != memories {
            let existing = demo.memories;
            tracing::info!(existing, memories, "--memories ignored: the demo exists");
        }
        if demo::renew_credentials(&self.service, &mut demo).await? || !existed {
            keep_state(
                self.state_path.as_deref(),
                &DemoState::Ready(Box::new(demo.clone())),
            )?;
        }
        Ok(demo)
    }
}

async fn open_service(data: &Data) -> Result<KnowledgeService, Failure> {
    Ok(data.service(Env::system(), options(data)).await?)
}

fn options(data: &Data) -> Options {
    let mut options = data.options(Limits::default());
    options.webhook_addresses = webhooks().addresses;
    options
}

/// Returns webhook settings that allow a receiver on the same machine.
///
/// The demo itself has no active endpoint, so that nothing is sent unless somebody registers one.
fn webhooks() -> WebhookSettings {
    let loopback = ["127.0.0.0/8", "::1/128"];
    let ranges = loopback.map(|range| range.parse().expect("a range"));
    WebhookSettings {
        addresses: AddressPolicy {
            allow: ranges.to_vec(),
            allow_http: true,
        },
        ..WebhookSettings::default()
    }
}

/// Creates the demo. The state says so until it is complete, so that the next start detects a
/// crash.
async fn create(data: &Data, state_path: Option<&Path>, memories: u64) -> Result<Demo, Failure> {
    keep_state(state_path, &DemoState::Seeding)?;
    let plan = Plan {
        memories,
        seed: SEED,
        now: Env::system().now(),
    };
    Ok(demo::seed(Arc::clone(&data.store), options(data), plan).await?)
}

/// Removes an incomplete demo store.
fn remove(config: &DataConfig) -> Result<(), Failure> {
    let path = config.path()?;
    DirectoryLock::acquire(&path)
        .map_err(DataError::from)?
        .remove_directory()
        .map_err(|error| Failure::new(format!("cannot remove {}: {error}", path.display())))
}

fn keep_state(path: Option<&Path>, state: &DemoState) -> Result<(), Failure> {
    match path {
        Some(path) => Ok(write_state(path, state)?),
        None => Ok(()),
    }
}

async fn show(
    service: &KnowledgeService,
    demo: &Demo,
    base_url: String,
    config: &DataConfig,
    args: &Args,
) -> Result<(), Failure> {
    let operator = demo.administrator();
    let dashboard = service
        .workspaces()
        .get_dashboard_summary(&operator, demo.workspace_id)
        .await?;
    let roles = demo::custom_roles(service, demo).await?;
    let pending = demo::pending_memory(service, demo).await?;
    let link = demo::login_link(service, demo).await?;
    let screen = Screen {
        login_url: login_url(&base_url, link.expose()),
        base_url,
        demo,
        roles: &roles,
        pending,
        backlog: dashboard.value.review_backlog_count,
        data_dir: config.name(),
        key: service.env().uuid(),
    };
    let text = screen.text(has_colours());
    args.output.print(&text, &screen.json())
}

plain_failures!(StateError);
