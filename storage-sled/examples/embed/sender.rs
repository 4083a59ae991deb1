//! HTTP client of deliveries: permitted addresses only, no redirects, limited time and size.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use knowledge_core::model::{AddressPolicy, DeliveryFailure, DeliveryFailureCode};
use knowledge_core::service::{
    Attempt, DELIVERY_TIMEOUT, DeliveryRequest, DeliveryResponse, DeliverySender,
    RESPONSE_BYTES_MAX,
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, header, redirect, retry};
use tokio::net::lookup_host;
use tokio_rustls::rustls::crypto::ring;

pub(crate) struct Sender {
    client: Client,
    policy: AddressPolicy,
}

impl Sender {
    pub(crate) fn new(policy: &AddressPolicy) -> reqwest::Result<Self> {
        // The cryptography of TLS. With the feature `rustls`, reqwest brings its own.
        let _ = ring::default_provider().install_default();
        let client = Client::builder()
            .dns_resolver(Arc::new(PermittedResolver(policy.clone())))
            .redirect(redirect::Policy::none())
            // The service schedules retries.
            .retry(retry::never())
            .no_proxy()
            .build()?;
        Ok(Self {
            client,
            policy: policy.clone(),
        })
    }

    async fn exchange(&self, request: &DeliveryRequest) -> Result<DeliveryResponse, Failure> {
        // An address in the URL is not resolved, so it is checked here.
        self.policy.check_url(&request.url).map_err(|refused| {
            let message = format!("the URL {refused}");
            (DeliveryFailureCode::AddressRefused, message)
        })?;
        let mut response = self
            .client
            .post(request.url.as_str())
            .headers(request.headers())
            .body(request.body.clone())
            .send()
            .await
            .map_err(|_| failed(DeliveryFailureCode::ConnectionFailed, "no response"))?;
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let outcome = DeliveryResponse {
            status: response.status().as_u16(),
            retry_after: seconds.map(Duration::from_secs),
        };
        let (mut read, incomplete) = (0, "the response ended early");
        while read <= RESPONSE_BYTES_MAX {
            match response.chunk().await {
                Ok(Some(chunk)) => read += chunk.len(),
                Ok(None) => break,
                Err(_) => return Err(failed(DeliveryFailureCode::AnswerBroken, incomplete)),
            }
        }
        Ok(outcome)
    }
}

#[async_trait]
impl DeliverySender for Sender {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        let began = Instant::now();
        let exchange = tokio::time::timeout(DELIVERY_TIMEOUT, self.exchange(request)).await;
        let outcome = exchange
            .unwrap_or_else(|_| {
                Err(failed(
                    DeliveryFailureCode::TimedOut,
                    "the request timed out",
                ))
            })
            .map_err(|(code, message)| DeliveryFailure { code, message });
        Attempt {
            duration: began.elapsed(),
            outcome,
        }
    }
}

type Failure = (DeliveryFailureCode, String);

fn failed(code: DeliveryFailureCode, message: &str) -> Failure {
    (code, message.to_owned())
}

/// Resolver that returns only the addresses to which deliveries may go.
struct PermittedResolver(AddressPolicy);

impl Resolve for PermittedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            // Port 0 stands for the port of the URL.
            let mut addresses: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            addresses.retain(|address| policy.permits(address.ip()));
            if addresses.is_empty() {
                return Err("no address that deliveries may go to".into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
