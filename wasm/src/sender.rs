//! Deliveries, sent through the `fetch` of the host.

use std::time::Duration;

use async_trait::async_trait;
use js_sys::Promise;
use js_sys::futures::JsFuture;
use knowledge_core::model::{AddressPolicy, DeliveryFailure, DeliveryFailureCode};
use knowledge_core::service::{
    Attempt, DELIVERY_TIMEOUT, DeliveryRequest, DeliveryResponse, DeliverySender,
    RESPONSE_BYTES_MAX,
};
use knowledge_core::store::read_json;
use serde::Deserialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// The host's `fetch`, wrapped by `wasm/js/deliveries.js`.
    pub type SenderBridge;

    #[wasm_bindgen(method, catch)]
    fn send(
        this: &SenderBridge,
        url: &str,
        headers: &str,
        body: &[u8],
        timeout_millis: f64,
        answer_bytes_max: usize,
    ) -> Result<Promise, JsValue>;
}

/// The `User-Agent` header of deliveries, as header lines.
const USER_AGENT: &str = concat!("user-agent\nknowledge/", env!("CARGO_PKG_VERSION"), "\n");

/// A [`DeliverySender`] that sends through JavaScript.
///
/// It checks an address in a URL before each exchange; the addresses of a name are unknown here.
pub(crate) struct FetchSender {
    pub(crate) bridge: SenderBridge,
    pub(crate) addresses: AddressPolicy,
}

/// Outcome of an exchange, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExchangeOutcome {
    duration_ms: f64,
    status: Option<u16>,
    retry_after_seconds: Option<f64>,
    failure: Option<DeliveryFailure>,
}

#[async_trait(?Send)]
impl DeliverySender for FetchSender {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        if let Err(refused) = self.addresses.check_url(&request.url) {
            return failed(
                DeliveryFailureCode::AddressRefused,
                &format!("the URL {refused}"),
            );
        }
        let mut headers = USER_AGENT.to_owned();
        for (name, value) in &request.headers() {
            let value = value.to_str().unwrap_or_default();
            headers.extend([name.as_str(), "\n", value, "\n"]);
        }
        let url = request.url.as_str();
        let timeout_millis = DELIVERY_TIMEOUT.as_secs_f64() * 1e3;
        let sent = match self.bridge.send(
            url,
            &headers,
            &request.body,
            timeout_millis,
            RESPONSE_BYTES_MAX,
        ) {
            Ok(promise) => JsFuture::from(promise).await,
            Err(error) => Err(error),
        };
        let exchanged = sent.ok().and_then(|value| value.as_string());
        let exchanged =
            exchanged.and_then(|json| read_json::<ExchangeOutcome>(json.as_bytes()).ok());
        exchanged.map_or_else(broken, ExchangeOutcome::into_attempt)
    }
}

impl ExchangeOutcome {
    fn into_attempt(self) -> Attempt {
        let duration = Duration::try_from_secs_f64(self.duration_ms / 1e3).unwrap_or_default();
        let outcome = match (self.status, self.failure) {
            (Some(status), None) => Ok(DeliveryResponse {
                status,
                retry_after: self
                    .retry_after_seconds
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            }),
            (_, Some(failure)) => Err(failure),
            (None, None) => return broken(),
        };
        Attempt { duration, outcome }
    }
}

/// Returns the attempt for a malformed outcome of an exchange.
fn broken() -> Attempt {
    failed(
        DeliveryFailureCode::ConnectionFailed,
        "the host could not send the request",
    )
}

fn failed(code: DeliveryFailureCode, message: &str) -> Attempt {
    let message = message.to_owned();
    Attempt {
        duration: Duration::ZERO,
        outcome: Err(DeliveryFailure { code, message }),
    }
}
