//! `knowledge demo`: something to look at, from nothing, in one command.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::access::Credential;
use knowledge_core::limits::Limits;
use knowledge_core::model::AddressPolicy;
use knowledge_core::service::{KnowledgeService, Options};

use knowledge_storage_embedded::DirectoryLock;

use super::args::{LogFormatArg, OutputFormat};
use super::failure::Failure;
use super::output::{has_colours, print, print_json};
#[cfg(unix)]
use super::serve::admin_socket;
use super::serve::shutdown_signal;
use crate::app::App;
#[cfg(unix)]
use crate::config::Config;
use crate::config::WebhookSettings;
use crate::data::{Data, DataConfig, DataError};
use crate::deliveries::{Deliveries, DeliveryClient, IN_FLIGHT_MAX_DEFAULT, Wake, open_files_max};
use crate::demo::{
    self, Demo, DemoState, Plan, Screen, StateError, read_state, state_path, write_state,
};
use crate::logging::{self, LogConfig};
use crate::net::{ADDRESS_DEFAULT, NetConfig, OPEN_FILES_RESERVED};
use crate::store_address::StoreAddress;
use crate::system::system_env;

/// What the texts of the demo follow from.
const SEED: u64 = 2_026;

/// Make an organisation with two weeks of history, and serve it
///
/// Prints tokens and a curl line for each operation, then serves. The next start on the same directory serves the same
/// data, and its tokens go on working. Beside the directory stand DIR.demo.json, which has the tokens, and DIR.key;
/// remove the three to begin anew.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory of the demo's store
    #[arg(long, value_name = "DIR", default_value = "./knowledge-demo")]
    data_dir: PathBuf,

    /// The store instead: sled:DIR, fjall:DIR, or memory:, which goes with the process
    #[arg(long, value_name = "STORE", conflicts_with = "data_dir")]
    store: Option<StoreAddress>,

    /// The address to listen on; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value_t = ADDRESS_DEFAULT)]
    listen: SocketAddr,

    /// How many memories to make, at the first start
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(3..=10_000_000))]
    memories: u64,

    /// Send nothing to webhooks and citation subscriptions, whoever registers them
    #[arg(long)]
    no_deliveries: bool,

    /// What to print on standard output: a screen for people, or one line of JSON once connections are accepted
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    /// What to log, see `knowledge serve --help`; info shows the requests
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log_level: String,

    /// How log lines look
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormatArg::Auto)]
    log_format: LogFormatArg,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    logging::init(&LogConfig {
        level: args.log_level.clone(),
        format: args.log_format.into(),
    })?;
    let config = match &args.store {
        Some(store) => DataConfig::of(store.clone()),
        None => DataConfig::at(&args.data_dir),
    };
    let prepared = prepare(&config).await?;
    #[cfg(unix)]
    let store = prepared.data.backend().clone();
    let service = prepared.service.clone();
    let wake = prepared.wake.clone();
    let net = NetConfig {
        address: args.listen,
        open_files_reserved: OPEN_FILES_RESERVED + open_files_max(IN_FLIGHT_MAX_DEFAULT),
        ..NetConfig::default()
    };
    // Before the work, so that an address that is taken is told at once.
    let mut app = App::bind(service.clone(), net).await?;
    if !args.no_deliveries {
        let client = DeliveryClient::new(&webhooks())?;
        app = app.deliver_with(Deliveries::through(Arc::new(client)).woken_by(wake));
    }
    let demo = prepared.finish(args.memories).await?;
    #[cfg(unix)]
    let app = {
        let config = Config {
            data: config.clone(),
            ..Config::default()
        };
        app.with_admin(admin_socket(&config, &service, &store).await?)
    };
    let base_url = app.base_url();
    let shutdown = shutdown_signal()?;
    let serving = tokio::spawn(app.run(shutdown));
    show(&service, &demo, base_url, &config, &args).await?;
    serving
        .await
        .map_err(|error| Failure::new(format!("the server ended: {error}")))?;
    Ok(())
}

/// A store that is the demo's: with a whole demo in it, or with nothing.
struct Prepared {
    data: Data,
    service: KnowledgeService,
    wake: Wake,
    /// The file that keeps the tokens; none for a store in memory.
    state_path: Option<PathBuf>,
    made: Option<Demo>,
}

/// Opens the store of the demo. What an interrupted start left in it is removed; what is not the demo's is refused.
async fn prepare(config: &DataConfig) -> Result<Prepared, Failure> {
    let state_path = config.directory().map(state_path);
    let wake = Wake::new();
    let mut data = open_data(config, &wake).await?;
    let mut service = open_service(&data).await?;
    let mut state = match &state_path {
        Some(path) => read_state(path)?,
        None => None,
    };
    if demo::is_empty(&service).await? {
        state = None; // Whatever an earlier demo wrote is not about this store.
    } else if demo::holds_other_data(&service).await? || state.is_none() {
        let state = state_path.unwrap_or_default();
        return Err(Failure::new(format!(
            "{} has data that no demo made, or whose {} is gone: choose another --data-dir",
            config.name(),
            state.display()
        )));
    }
    if state == Some(DemoState::Seeding) {
        eprintln!("the last start was interrupted while it made the demo: beginning anew");
        drop((service, data)); // The last holders of the store: its directory is free now.
        remove(config)?;
        data = open_data(config, &wake).await?;
        service = open_service(&data).await?;
        state = None;
    }
    Ok(Prepared {
        data,
        service,
        wake,
        state_path,
        made: match state {
            Some(DemoState::Ready(demo)) => Some(*demo),
            _ => None,
        },
    })
}

impl Prepared {
    /// Makes the demo where it is not there, and brings one that is there up to the present.
    async fn finish(self, memories: u64) -> Result<Demo, Failure> {
        let is_made = self.made.is_some();
        let mut demo = match self.made {
            Some(demo) => {
                demo::report_syncs(&self.service, &demo).await?;
                demo
            }
            None => make(&self.data, self.state_path.as_deref(), memories).await?,
        };
        if demo.counts.memories != memories {
            let made = demo.counts.memories;
            tracing::info!(made, memories, "the demo keeps the memories that it has");
        }
        if demo::log_in(&self.service, &mut demo).await? || !is_made {
            keep_state(
                self.state_path.as_deref(),
                &DemoState::Ready(Box::new(demo.clone())),
            )?;
        }
        Ok(demo)
    }
}

/// Opens the store, which wakes the dispatcher from here on.
async fn open_data(config: &DataConfig, wake: &Wake) -> Result<Data, Failure> {
    let mut data = config.open().await?;
    data.store = wake.watch_store(data.store);
    Ok(data)
}

async fn open_service(data: &Data) -> Result<KnowledgeService, Failure> {
    Ok(data.service(system_env(), options(data)).await?)
}

fn options(data: &Data) -> Options {
    Options {
        webhook_addresses: webhooks().addresses,
        ..data.options(Limits::default())
    }
}

/// Whoever plays with the demo may have a receiver on the same machine. The demo itself has no endpoint that is
/// switched on, so that nothing leaves it unless somebody registers one.
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

/// Makes the demo. Until it is whole the state says so: a crash is found by the next start.
async fn make(data: &Data, state_path: Option<&Path>, memories: u64) -> Result<Demo, Failure> {
    keep_state(state_path, &DemoState::Seeding)?;
    let plan = Plan {
        memories,
        seed: SEED,
        now: system_env().now(),
    };
    Ok(demo::seed(Arc::clone(&data.store), options(data), plan).await?)
}

/// Removes the half-made store of a demo.
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
    let operator = Credential::Trusted {
        org: demo.org_id,
        member: demo.bearer_member,
    };
    let dashboard = service
        .dashboard_summary(&operator, demo.workspace_id)
        .await?;
    let roles = demo::custom_roles(service, demo).await?;
    let screen = Screen {
        base_url,
        demo,
        roles: &roles,
        backlog: dashboard.value.review_backlog_count,
        data_dir: config.name(),
        key: service.env().uuid(),
    };
    match args.output {
        OutputFormat::Json => print_json(&screen.json()),
        OutputFormat::Text => print(&screen.text(has_colours())),
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::new(error.to_string())
    }
}
