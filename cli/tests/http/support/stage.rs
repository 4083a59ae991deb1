//! A service that delivers only on demand.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use knowledge_core::env::Env;
use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode};
use knowledge_core::service::{Attempt, AttemptOutcome, DeliveryResponse, InFlight};
use knowledge_core::store::MemoryStore;
use knowledge_testing::fixture::OrgFixture;
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

use super::client::{Answer, Call};
use super::in_process::InProcess;
use super::target::{own_org, target};

/// A service that makes no deliveries by itself, and a caller.
///
/// It runs in this process, since the service of the other tests makes deliveries; another front
/// end that delivers on demand is used instead.
pub(crate) struct Stage {
    place: Place,
    token: String,
}

enum Place {
    /// The server's library.
    Here(Box<InProcess>),
    /// The service under test, and the path that controls its deliveries.
    There {
        org: &'static OrgFixture,
        dispatch_path: &'static str,
        /// A lock: each order covers all due deliveries, so only one test at a time may give any.
        _turn: MutexGuard<'static, ()>,
    },
}

impl Stage {
    pub(crate) async fn set() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let place = match target().dispatch_path() {
            None => Place::Here(Box::new(
                InProcess::over(Arc::new(MemoryStore::new())).await,
            )),
            Some(dispatch_path) => Place::There {
                org: own_org(),
                dispatch_path,
                _turn: TURN.lock().await,
            },
        };
        let mut stage = Self {
            place,
            token: String::new(),
        };
        stage.token = stage.org().members.admin.token.clone();
        stage
    }

    pub(crate) fn org(&self) -> &OrgFixture {
        match &self.place {
            Place::Here(server) => server.org(),
            Place::There { org, .. } => org,
        }
    }

    pub(crate) fn base_url(&self) -> &str {
        match &self.place {
            Place::Here(server) => &server.base_url,
            Place::There { .. } => target().base_url(),
        }
    }

    /// Sends a request of an administrator.
    pub(crate) async fn send(&self, call: Call) -> Answer {
        let call = call.bearer(&self.token);
        match &self.place {
            Place::Here(server) => call.send_to(&server.base_url).await,
            Place::There { .. } => call.send().await,
        }
    }

    /// Fans out the events.
    pub(crate) async fn expand(&self) {
        let Place::Here(server) = &self.place else {
            // It fans out before each attempt.
            return;
        };
        let expand = || server.service.fan_out(Env::system().now());
        while expand().await.expect("expanded").has_more {}
    }

    /// Attempts the one due delivery to this URL.
    ///
    /// The receiver responds with this status, or is unreachable. Returns the outcome, if it is
    /// reported.
    pub(crate) async fn attempt(&self, url: &str, status: Option<u16>) -> Option<AttemptOutcome> {
        match &self.place {
            Place::Here(server) => Some(attempt_here(server, url, status).await),
            Place::There { dispatch_path, .. } => {
                let outcome = json!({ "url": url, "status": status });
                let told = Call::new(Method::POST, *dispatch_path).json(&outcome);
                assert_eq!(told.send().await.status, 204);
                None
            }
        }
    }
}

async fn attempt_here(server: &InProcess, url: &str, status: Option<u16>) -> AttemptOutcome {
    let now = Env::system().now();
    let claimed = server
        .service
        .claim_deliveries(now, 10, &InFlight::default())
        .await
        .expect("claimed");
    let [delivery] = claimed.deliveries.as_slice() else {
        panic!("one is due: {claimed:?}");
    };
    assert_eq!(delivery.request.url.as_str(), url);
    let attempt = Attempt {
        duration: Duration::from_millis(35),
        outcome: match status {
            Some(status) => Ok(DeliveryResponse {
                status,
                retry_after: None,
            }),
            None => Err(DeliveryFailure {
                code: DeliveryFailureCode::ConnectionFailed,
                message: "nobody listens".to_owned(),
            }),
        },
    };
    let finished = server
        .service
        .finish_delivery(now, &delivery.lease, &attempt);
    finished.await.expect("finished")
}
