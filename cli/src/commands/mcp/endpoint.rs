//! Endpoints of messages: the store of this machine, or a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use knowledge_core::model::{Workspace, WorkspaceId};
#[cfg(unix)]
use knowledge_server::admin::SocketActivity;
#[cfg(unix)]
use knowledge_server::backup::Backup;
use knowledge_server::config::Config;
use knowledge_server::http_client::HttpClient;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::target::Target;
use crate::commands::args::{base_url, http_client, known, token};
use crate::commands::failure::Failure;
use crate::commands::operator::{Operator, OrgOperator};
#[cfg(unix)]
use crate::commands::serve::admin_socket;

/// Time without a client of its admin socket after which a process may release the store.
const IDLE_MIN: Duration = Duration::from_secs(2);
/// Path of the endpoint of a server.
const PATH: &str = "/mcp";
/// Timeout of one exchange with a server.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a response in bytes.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(super) enum Endpoint {
    Store(Box<StoreEndpoint>),
    Server(Box<ServerEndpoint>),
}

/// The store, held by this process or by another one.
pub(super) struct StoreEndpoint {
    config: Config,
    org: String,
    member: String,
    workspace: String,
    /// The way to the store; `None` after it was released.
    reached: Option<Reached>,
}

/// A way to the store.
struct Reached {
    operator: OrgOperator,
    /// Admin socket for others, if this process holds the store.
    socket: Option<ServedSocket>,
}

/// An admin socket that this process serves.
struct ServedSocket {
    #[cfg(unix)]
    activity: SocketActivity,
    stop: oneshot::Sender<()>,
    stopped: JoinHandle<()>,
}

impl ServedSocket {
    #[cfg(unix)]
    fn is_idle(&self) -> bool {
        self.activity.is_idle_for(IDLE_MIN)
    }

    #[cfg(not(unix))]
    fn is_idle(&self) -> bool {
        true
    }
}

/// A server with a public address.
pub(super) struct ServerEndpoint {
    client: HttpClient,
    url: String,
    authorization: HeaderValue,
}

impl Endpoint {
    pub(super) async fn open(target: Target) -> Result<Self, Failure> {
        let Some(url) = target.url else {
            let org = target.org.slug();
            let config = target.org.config()?;
            let reached = Reached::open(&config, org).await?;
            let member = reached.operator.acting_member(target.member).await?;
            let workspace = find_workspace(&reached.operator, target.workspace).await?;
            return Ok(Self::Store(Box::new(StoreEndpoint {
                org: reached.operator.org.slug.clone(),
                config,
                member,
                workspace,
                reached: Some(reached),
            })));
        };
        let address = address(&url, target.workspace.as_deref())?;
        let ca_file = target.ca_file.as_deref();
        let client = http_client(&address, ca_file, EXCHANGE_TIMEOUT, RESPONSE_BYTES_MAX)?;
        let token = token(target.token_file.as_deref())?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.expose()))
            .expect("tokens are visible ASCII");
        authorization.set_sensitive(true);
        Ok(Self::Server(Box::new(ServerEndpoint {
            client,
            url: address,
            authorization,
        })))
    }

    /// Sends a message, and returns the response whatever its status.
    pub(super) async fn send(
        &mut self,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, Failure> {
        match self {
            Self::Store(store) => store.send(headers, body).await,
            Self::Server(server) => server.send(headers, body).await,
        }
    }

    /// Releases the store until the next message, if this process holds a directory that nobody
    /// else is using through it.
    pub(super) async fn release_idle(&mut self) {
        if let Self::Store(store) = self
            && !store.config.data().store.is_shared()
            && let Some(reached) = store.reached.take_if(|reached| reached.is_idle())
        {
            reached.close().await;
        }
    }

    /// Releases the store. Requests of others have five seconds to complete.
    pub(super) async fn close(self) {
        if let Self::Store(store) = self
            && let Some(reached) = store.reached
        {
            reached.close().await;
        }
    }
}

/// Returns the address of the endpoint of a server, which may already be one.
pub(super) fn address(url: &str, workspace: Option<&str>) -> Result<String, Failure> {
    let base = base_url("--url", url)?;
    let base = base.strip_suffix(PATH).unwrap_or(&base);
    let Some(workspace) = workspace else {
        return Ok(format!("{base}{PATH}"));
    };
    let id: WorkspaceId = workspace.parse().map_err(|_| {
        Failure::usage(format!(
            "with --url, --workspace must be the identifier of a workspace, not {workspace:?}"
        ))
    })?;
    Ok(format!("{base}{PATH}?workspace={id}"))
}

impl StoreEndpoint {
    /// Returns the directory of the store, unless it is in a database.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        self.config.data().directory().map(Path::to_owned)
    }

    /// Returns the names of the organisation, the member and the workspace.
    pub(super) fn names(&self) -> [(&'static str, &str); 3] {
        [
            ("org", &self.org),
            ("member", &self.member),
            ("workspace", &self.workspace),
        ]
    }

    async fn send(&mut self, headers: &HeaderMap, body: Bytes) -> Result<Response<Bytes>, Failure> {
        let segments = [
            "members",
            &self.member,
            "workspaces",
            &self.workspace,
            "mcp",
        ];
        if let Some(reached) = &self.reached {
            let sent = reached.operator.pass_on(&segments, headers, body.clone());
            if let Ok(response) = sent.await {
                return Ok(response);
            }
            // The process that held the store has released it or ended. It may have handled the
            // message: at worst, a recall is registered twice.
        }
        let reached = Reached::open(&self.config, Some(self.org.clone())).await?;
        let reached = self.reached.insert(reached);
        reached.operator.pass_on(&segments, headers, body).await
    }
}

impl Reached {
    async fn open(config: &Config, org: Option<String>) -> Result<Self, Failure> {
        let operator = Operator::connect(config, false).await?.of(org).await?;
        let socket = serve_others(&operator, config).await?;
        Ok(Self { operator, socket })
    }

    /// Returns true if this process holds the store, and no other uses it.
    fn is_idle(&self) -> bool {
        self.operator.store().is_some() && self.socket.as_ref().is_none_or(ServedSocket::is_idle)
    }

    async fn close(self) {
        if let Some(socket) = self.socket {
            drop(socket.stop);
            if let Err(error) = socket.stopped.await {
                eprintln!("error: the admin socket failed: {error}");
            }
        }
    }
}

/// Serves the admin socket if this process holds the store, so that others reach it too.
#[cfg(unix)]
async fn serve_others(
    operator: &OrgOperator,
    config: &Config,
) -> Result<Option<ServedSocket>, Failure> {
    let Some(opened) = operator.store() else {
        return Ok(None);
    };
    let backup = Backup::of(opened.data.backend().clone());
    let backup = backup.with_partitions(opened.partitions.clone());
    let Some(socket) = admin_socket(config, opened.api.clone(), backup).await? else {
        return Ok(None);
    };
    let (stop, asked) = oneshot::channel::<()>();
    let activity = socket.activity();
    let stopped = tokio::spawn(socket.run(async move {
        let _ = asked.await;
    }));
    Ok(Some(ServedSocket {
        activity,
        stop,
        stopped,
    }))
}

/// There are no Unix sockets here.
#[cfg(not(unix))]
async fn serve_others(_: &OrgOperator, _: &Config) -> Result<Option<ServedSocket>, Failure> {
    Ok(None)
}

impl ServerEndpoint {
    async fn send(&self, headers: &HeaderMap, body: Bytes) -> Result<Response<Bytes>, Failure> {
        let request = Request::builder().method(Method::POST).uri(&self.url);
        let request = request.body(body);
        let mut request = request.map_err(|error| Failure::new(error.to_string()))?;
        *request.headers_mut() = headers.clone();
        request
            .headers_mut()
            .insert(AUTHORIZATION, self.authorization.clone());
        let sent = self.client.send(request).await;
        sent.map_err(|problem| Failure::new(format!("{}: {problem}", self.url)))
    }
}

/// Returns the slug of a workspace, or of the only one.
async fn find_workspace(operator: &OrgOperator, name: Option<String>) -> Result<String, Failure> {
    let mut all: Vec<Workspace> = operator.list("workspaces", &[]).await?;
    let slugs = known(all.iter().map(|workspace| workspace.slug.as_str()));
    if let Some(name) = name {
        let is_named = |found: &Workspace| found.slug == name || found.id.to_string() == name;
        return match all.into_iter().find(is_named) {
            Some(found) => Ok(found.slug),
            None => Err(Failure::new(format!(
                "there is no workspace {name:?}; known workspaces: {slugs}"
            ))),
        };
    }
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only.slug),
        (None, _) => Err(Failure::new(
            "there is no workspace; create one with `knowledge workspace create`",
        )),
        (Some(_), false) => {
            let message = "there are several workspaces; choose one with --workspace";
            Err(Failure::usage(format!("{message}: {slugs}")))
        }
    }
}
