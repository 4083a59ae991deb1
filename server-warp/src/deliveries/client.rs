//! HTTP client of deliveries.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use http::{HeaderValue, header};
use knowledge_core::model::{AddressPolicy, DeliveryFailure};
use knowledge_core::service::{
    Attempt, DELIVERY_TIMEOUT, DeliveryRequest, DeliveryResponse, DeliverySender,
    RESPONSE_BYTES_MAX,
};
use reqwest::Client;

use super::connections::OpenConnections;
use super::failure::{before_response, in_response, rejected_url, timed_out};
use super::look_up::SystemResolver;
use super::resolver::{PermittedResolver, Resolver};
use super::retry_after::retry_after;
use super::settings::WebhookSettings;
use crate::http_client::{RootsError, builder, read_roots, system_roots};
use crate::partial_debug::partial_debug;

const USER_AGENT: &str = concat!("knowledge/", env!("CARGO_PKG_VERSION"));

/// Time for which an idle connection is kept for the next delivery to its host.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of headers of a response. Their size is limited by hyper to some 400 KiB in
/// total, which is not configurable here.
const RESPONSE_HEADERS_MAX: usize = 100;

/// HTTP client that sends deliveries as a [`DeliverySender`].
///
/// The policy checks every address before connecting: a literal address in the URL before each
/// attempt, the addresses of a name as returned by the connection's only look-up. The client
/// follows no redirects, uses no proxy from the environment, and does not decompress responses.
///
/// ```
/// use knowledge_server::config::WebhookSettings;
/// use knowledge_server::deliveries::DeliveryClient;
///
/// let client = DeliveryClient::new(&WebhookSettings::default())?;
/// # Ok::<(), knowledge_server::deliveries::DeliveryClientError>(())
/// ```
#[derive(Clone)]
pub struct DeliveryClient {
    client: Client,
    policy: Arc<AddressPolicy>,
    connections: Arc<OpenConnections>,
    timeout: Duration,
}

/// Error of creating a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryClientError {
    /// The CA file cannot be used.
    #[error("webhooks.ca_file {0}")]
    Authorities(#[from] RootsError),
    /// TLS cannot be set up.
    #[error("the client for deliveries: {0}")]
    Tls(String),
    /// The HTTP client cannot be built.
    #[error("the client for deliveries: {0}")]
    Client(#[from] reqwest::Error),
}

impl DeliveryClient {
    /// Creates a client that resolves names by the operating system. Reads the CA certificates
    /// once.
    ///
    /// # Errors
    /// See [`DeliveryClientError`].
    pub fn new(settings: &WebhookSettings) -> Result<Self, DeliveryClientError> {
        Self::with_resolver(settings, Arc::new(SystemResolver::default()))
    }

    /// Creates a client with another resolver. The policy applies to its addresses as well.
    ///
    /// # Errors
    /// See [`DeliveryClientError`].
    pub fn with_resolver(
        settings: &WebhookSettings,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, DeliveryClientError> {
        let roots = match &settings.ca_file {
            Some(path) => read_roots(path)?,
            None => system_roots(),
        };
        if roots.is_empty() {
            tracing::warn!(
                "the system has no CA certificates; deliveries to https addresses will fail"
            );
        }
        let connections_max = super::connections_max(settings.in_flight_max);
        let policy = Arc::new(settings.addresses.clone());
        let resolver = PermittedResolver {
            policy: Arc::clone(&policy),
            resolver,
        };
        let client = builder(roots)
            .map_err(DeliveryClientError::Tls)?
            .dns_resolver(resolver)
            .user_agent(USER_AGENT)
            .http1_max_headers(RESPONSE_HEADERS_MAX)
            .connect_timeout(DELIVERY_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // The endpoints of one host may have all exchanges.
            .pool_max_idle_per_host(settings.in_flight_max)
            .build()?;
        Ok(Self {
            client,
            policy,
            connections: Arc::new(OpenConnections::new(connections_max, IDLE_TIMEOUT)),
            timeout: DELIVERY_TIMEOUT,
        })
    }

    /// Sets the timeout of the whole exchange; [`DELIVERY_TIMEOUT`] by default.
    #[must_use]
    pub fn timeout(mut self, whole_exchange: Duration) -> Self {
        self.timeout = whole_exchange;
        self
    }

    async fn exchange(
        &self,
        request: &DeliveryRequest,
    ) -> Result<DeliveryResponse, DeliveryFailure> {
        // A literal address is not passed to the resolver.
        self.policy.check_url(&request.url).map_err(rejected_url)?;
        let authority = authority(request.url.as_str());
        let connection = self.connections.begin(authority);
        let mut headers = request.headers();
        if connection.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let sending = self
            .client
            .post(request.url.as_str())
            .headers(headers)
            .body(request.body.clone());
        let mut response = sending.send().await.map_err(|it| before_response(&it))?;
        let outcome = DeliveryResponse {
            status: response.status().as_u16(),
            retry_after: retry_after(response.headers(), SystemTime::now()),
        };
        let mut left = RESPONSE_BYTES_MAX;
        while let Some(chunk) = response.chunk().await.map_err(|it| in_response(&it))? {
            match left.checked_sub(chunk.len()) {
                Some(rest) => left = rest,
                // Dropping an incomplete response closes its connection.
                None => return Ok(outcome),
            }
        }
        connection.keep();
        Ok(outcome)
    }
}

/// Returns scheme, host and port of a URL in serialised form.
fn authority(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |scheme| scheme + 3);
    let path = url[begin..].find('/');
    path.map_or(url, |path| &url[..begin + path])
}

#[async_trait]
impl DeliverySender for DeliveryClient {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        let began = Instant::now();
        let exchange = tokio::time::timeout(self.timeout, self.exchange(request));
        let outcome = exchange.await.unwrap_or_else(|_| Err(timed_out()));
        Attempt {
            duration: began.elapsed(),
            outcome,
        }
    }
}

partial_debug!(DeliveryClient: policy, timeout);
