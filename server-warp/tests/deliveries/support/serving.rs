//! A whole server that delivers.

use std::sync::Arc;
use std::time::Duration;

use knowledge_core::service::KnowledgeService;
use knowledge_server::app::App;
use knowledge_server::deliveries::Deliveries;
use knowledge_server::metrics::Metrics;
use knowledge_server::net::NetConfig;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::exposition::Exposition;
use super::{guarded, until};

/// A time beyond the end of any test.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A running server, which dropping ends at once, as a crash does.
pub(crate) struct Serving {
    service: KnowledgeService,
    metrics: Arc<Metrics>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Serving {
    pub(crate) async fn start(service: &KnowledgeService, deliveries: Deliveries) -> Self {
        Self::start_with(service, deliveries, Duration::from_secs(30)).await
    }

    /// Starts a server that gives requests in flight this much time on shutdown.
    pub(crate) async fn start_with(
        service: &KnowledgeService,
        deliveries: Deliveries,
        shutdown_timeout: Duration,
    ) -> Self {
        let net = NetConfig {
            address: "127.0.0.1:0".parse().expect("an address"),
            shutdown_timeout,
            ..NetConfig::default()
        };
        let metrics = Metrics::new();
        let app = App::bind_with_metrics(service.clone(), net, Arc::clone(&metrics))
            .await
            .expect("bind")
            .maintain_every(NEVER)
            .deliver_with(deliveries);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            app.run(async {
                let _ = stopped.await;
            })
            .await;
        });
        Self {
            service: service.clone(),
            metrics,
            stop: Some(stop),
            task,
        }
    }

    /// Begins the shutdown.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(mut self) {
        let ended = guarded("the server to stop", &mut self.task).await;
        ended.expect("the server does not panic");
    }

    /// Returns a metric, as a scraper reads it.
    pub(crate) async fn number(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.metrics.deliveries().read_outbox(&self.service).await;
        Exposition::parse(&self.metrics.render()).value(name, labels)
    }

    pub(crate) async fn number_becomes(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        is_so: impl Fn(f64) -> bool,
    ) {
        until(name, async || is_so(self.number(name, labels).await)).await;
    }

    /// Returns the number of attempts with this outcome.
    pub(crate) async fn attempts(&self, outcome: &str) -> f64 {
        let labels = [("outcome", outcome)];
        self.number("knowledge_delivery_attempts_total", &labels)
            .await
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}
