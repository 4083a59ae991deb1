//! Deliveries to the endpoints of the principal, which are the only ones.

use serde_json::Value;

use super::choices::Choices;
use super::world::World;
use crate::requests::answered;
use knowledge_core::Error;
use knowledge_core::model::EventType;
use knowledge_core::service::{ClaimedDelivery, InFlight};

/// Maximum number of deliveries claimed at once.
const CAPACITY: usize = 64;
/// Maximum number of claims in a row.
const CLAIMS_MAX: usize = 200;

impl World {
    /// Fans out all events.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn announce(&self) -> Result<(), Error> {
        let service = &self.seed.service;
        let now = service.env().now();
        while service.dispatcher().fan_out(now).await?.has_more {}
        Ok(())
    }

    /// Fans out all events, claims every delivery that is due, and returns each request as text.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn deliver(
        &mut self,
        choices: &mut Choices<'_>,
    ) -> Result<Vec<String>, Error> {
        let (service, now) = (self.seed.service.clone(), self.seed.service.env().now());
        let attempt = answered([204, 500][usize::from(choices.once_in(4))]);
        let mut lines = Vec::new();
        self.announce().await?;
        // Fan-out also draws for hidden events; the pings that a claim creates are the same.
        self.reseed(1);
        for _ in 0..CLAIMS_MAX {
            let nothing = InFlight::default();
            let batch = service.dispatcher().claim(now, CAPACITY, &nothing).await?;
            if batch.deliveries.is_empty() && !batch.has_more {
                break;
            }
            for claimed in &batch.deliveries {
                lines.push(self.shown(claimed));
                let lease = &claimed.lease;
                service.dispatcher().finish(now, lease, &attempt).await?;
            }
        }
        if self.has_removals {
            lines.sort();
        }
        Ok(lines)
    }

    /// Returns the request of a delivery as text, byte for byte.
    ///
    /// A step of a removal also draws identifiers for hidden records. With removals, the
    /// identifiers of events and operations, which are only random, are therefore left out, and so
    /// are the signature over them and the order that follows from them. So does the deletion of a
    /// memory that hidden recalls cite, of which such events tell.
    fn shown(&self, claimed: &ClaimedDelivery) -> String {
        let request = &claimed.request;
        let mut headers = request.headers();
        let mut body = String::from_utf8_lossy(&request.body).into_owned();
        let event = claimed.event_type;
        let is_of_removal = matches!(event, EventType::ChunkDeleted | EventType::CitationChanged);
        if self.has_removals || is_of_removal {
            headers.remove("webhook-id");
            headers.remove("webhook-signature");
            let mut json: Value = serde_json::from_str(&body).expect("a body is JSON");
            for part in ["/data/operation_id", "/data/event_id", "/data/delivery_id"] {
                if let Some(part) = json.pointer_mut(part) {
                    *part = Value::Null;
                }
            }
            body = json.to_string();
        }
        let endpoint = claimed.lease.endpoint();
        format!(
            "POST {} {endpoint}\n     <- {headers:?} {body}",
            request.url
        )
    }
}
