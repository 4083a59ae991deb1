//! The HTTP client that makes the exchanges.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use knowledge_core::model::{AddressPolicy, DeliveryFailure};
use knowledge_core::service::{
    ANSWER_BYTES_MAX, Attempt, DELIVERY_TIMEOUT, DeliveryAnswer, DeliveryRequest, DeliverySender,
};
use reqwest::{Client, redirect, retry};

use super::answer::retry_after;
use super::failure::{before_the_answer, in_the_answer, refused_url, timed_out};
use super::look_up::SystemLookUp;
use super::resolver::{LookUp, PermittedAddresses};
use crate::config::WebhookSettings;
use crate::http_client::{roots_of, roots_of_the_system, tls_config};

const USER_AGENT: &str = concat!("knowledge/", env!("CARGO_PKG_VERSION"));

/// Time for which a connection is kept for the next delivery to its host.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// How many connections are kept so for one host. Together they are those of the exchanges that ended a moment ago, see
/// [`open_files_max`](super::open_files_max).
const IDLE_PER_HOST_MAX: usize = 2;
/// How many headers an answer may have. Their size is bounded by hyper, at some 400 KiB together, and by nothing that
/// could be set here.
const ANSWER_HEADERS_MAX: usize = 100;

/// Makes the exchanges with endpoints, as [`DeliverySender`] asks for.
///
/// The address that is connected to is judged by the policy, that of a literal in the URL before each attempt, those of
/// a name as the one look-up of the connection finds them. No redirect is followed, no proxy of the environment used, no
/// answer decompressed.
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
    timeout: Duration,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryClientError {
    /// The file of authorities cannot be used.
    #[error("webhooks.ca_file {}: {problem}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// TLS cannot be set up.
    #[error("the client for deliveries: {0}")]
    Tls(String),
    /// The client cannot be made of its parts.
    #[error("the client for deliveries: {0}")]
    Client(#[from] reqwest::Error),
}

impl DeliveryClient {
    /// A client that asks the operating system for the addresses of names. Reads the certificates of the authorities,
    /// this once.
    ///
    /// # Errors
    /// One by one at [`DeliveryClientError`].
    pub fn new(settings: &WebhookSettings) -> Result<Self, DeliveryClientError> {
        Self::with_look_up(settings, Arc::new(SystemLookUp::default()))
    }

    /// A client that finds the addresses of names in another way. They are judged all the same.
    ///
    /// # Errors
    /// One by one at [`DeliveryClientError`].
    pub fn with_look_up(
        settings: &WebhookSettings,
        look_up: Arc<dyn LookUp>,
    ) -> Result<Self, DeliveryClientError> {
        let roots = match &settings.ca_file {
            Some(path) => roots_of(path).map_err(|problem| DeliveryClientError::Authorities {
                path: path.clone(),
                problem,
            })?,
            None => roots_of_the_system(),
        };
        if roots.is_empty() {
            tracing::warn!(
                "the system trusts no authority: no delivery to an https address will succeed"
            );
        }
        let policy = Arc::new(settings.addresses.clone());
        let resolver = PermittedAddresses {
            policy: Arc::clone(&policy),
            look_up,
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls_config(roots).map_err(DeliveryClientError::Tls)?)
            .dns_resolver(resolver)
            .user_agent(USER_AGENT)
            .http1_only()
            .http1_max_headers(ANSWER_HEADERS_MAX)
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            // The schedule of a delivery is core's.
            .retry(retry::never())
            .connect_timeout(DELIVERY_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .build()?;
        Ok(Self {
            client,
            policy,
            timeout: DELIVERY_TIMEOUT,
        })
    }

    /// Gives up after this time instead of [`DELIVERY_TIMEOUT`].
    #[must_use]
    pub fn timeout(mut self, whole_exchange: Duration) -> Self {
        self.timeout = whole_exchange;
        self
    }

    async fn exchange(&self, request: &DeliveryRequest) -> Result<DeliveryAnswer, DeliveryFailure> {
        // A literal address is connected to without being looked up.
        self.policy.check_url(&request.url).map_err(refused_url)?;
        let sending = self
            .client
            .post(request.url.as_url().clone())
            .headers(request.headers())
            .body(request.body.clone());
        let mut response = sending.send().await.map_err(|it| before_the_answer(&it))?;
        let answer = DeliveryAnswer {
            status: response.status().as_u16(),
            retry_after: retry_after(response.headers(), SystemTime::now()),
        };
        let mut left = ANSWER_BYTES_MAX;
        while let Some(chunk) = response.chunk().await.map_err(|it| in_the_answer(&it))? {
            match left.checked_sub(chunk.len()) {
                Some(rest) => left = rest,
                // Dropped with more to come: the connection is closed.
                None => break,
            }
        }
        Ok(answer)
    }
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

impl fmt::Debug for DeliveryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryClient")
            .field("policy", &self.policy)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
