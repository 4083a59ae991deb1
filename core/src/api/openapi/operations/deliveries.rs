//! Deliveries to outbound webhooks and citation subscriptions.

use schemars::JsonSchema;

use crate::access::{Need, needs};
use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::error::Error;
use crate::model::{Delivery, DeliveryStatus};
use crate::service::Redelivered;

pub(super) fn describe(all: &mut Descriptions) {
    describe_of(all, &WEBHOOK);
    describe_of(all, &SUBSCRIPTION);
}

fn describe_of(all: &mut Descriptions, endpoint: &EndpointOperations) {
    all.describe(
        endpoint.list,
        "Those that are still kept, by the time of their events. Each has its attempts, the oldest first: when, for how long, \
         and the status of the answer or what went wrong.",
    )
    .always_needs(endpoint.list_need)
    .query::<WithStatus>()
    .answers_page::<Delivery>();
    all.describe(endpoint.get, "")
        .always_needs(endpoint.get_need)
        .answers::<Delivery>();
    all.describe(
        endpoint.redeliver,
        "It waits for an attempt at once, with a whole new schedule of retries and the same `webhook-id`, whatever became of \
         it before: read it again to see what comes of it. An endpoint that is switched off has to be switched on first.",
    )
    .always_needs(endpoint.redeliver_need)
    .refuses(&Error::EndpointOff)
    .empty_body()
    .answers::<Delivery>()
    .leads_to(endpoint.get, endpoint.of_delivery);
    all.describe(
        endpoint.redeliver_dead,
        "The dead letters, the oldest first, each as if it was redelivered alone. `has_more` says that there are more than one \
         call takes: call again.",
    )
    .always_needs(endpoint.redeliver_dead_need)
    .refuses(&Error::EndpointOff)
    .empty_body()
    .answers::<Redelivered>();
    all.describe(
        endpoint.ping,
        "Sends one `webhook.ping`, with a single attempt, whatever type of event it is told of: read the delivery again to see \
         what came of it. One that the service switched off is tried too, and a 2xx answer switches it on again; one that its \
         owner switched off is not.",
    )
    .always_needs(endpoint.ping_need)
    .refuses(&Error::EndpointOff)
    .empty_body()
    .answers::<Delivery>()
    .leads_to(endpoint.get, endpoint.of_delivery)
    .leads_to(endpoint.redeliver, endpoint.of_delivery);
}

/// Which deliveries a list shows.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "read as a schema alone")]
struct WithStatus {
    /// Where they stand; without it all of them.
    status: Option<DeliveryStatus>,
}

/// The operations on one kind of endpoint, and what they need.
struct EndpointOperations {
    list: Operation,
    list_need: Need,
    get: Operation,
    get_need: Need,
    redeliver: Operation,
    redeliver_need: Need,
    redeliver_dead: Operation,
    redeliver_dead_need: Need,
    ping: Operation,
    ping_need: Need,
    /// The parameters of the operations on one delivery, from an answer that shows it.
    of_delivery: &'static [(&'static str, &'static str)],
}

const WEBHOOK: EndpointOperations = EndpointOperations {
    list: Operation::ListWebhookDeliveries,
    list_need: needs::LIST_WEBHOOK_DELIVERIES,
    get: Operation::GetWebhookDelivery,
    get_need: needs::READ_WEBHOOK_DELIVERY,
    redeliver: Operation::RedeliverToWebhook,
    redeliver_need: needs::REDELIVER_TO_WEBHOOK,
    redeliver_dead: Operation::RedeliverDeadToWebhook,
    redeliver_dead_need: needs::REDELIVER_DEAD_TO_WEBHOOK,
    ping: Operation::PingWebhook,
    ping_need: needs::PING_WEBHOOK,
    of_delivery: &[
        ("id", "$request.path.id"),
        ("webhookId", "$request.path.webhookId"),
        ("deliveryId", "$response.body#/id"),
    ],
};

const SUBSCRIPTION: EndpointOperations = EndpointOperations {
    list: Operation::ListCitationSubscriptionDeliveries,
    list_need: needs::LIST_SUBSCRIPTION_DELIVERIES,
    get: Operation::GetCitationSubscriptionDelivery,
    get_need: needs::READ_SUBSCRIPTION_DELIVERY,
    redeliver: Operation::RedeliverToCitationSubscription,
    redeliver_need: needs::REDELIVER_TO_SUBSCRIPTION,
    redeliver_dead: Operation::RedeliverDeadToCitationSubscription,
    redeliver_dead_need: needs::REDELIVER_DEAD_TO_SUBSCRIPTION,
    ping: Operation::PingCitationSubscription,
    ping_need: needs::PING_SUBSCRIPTION,
    of_delivery: &[
        ("id", "$request.path.id"),
        ("deliveryId", "$response.body#/id"),
    ],
};
