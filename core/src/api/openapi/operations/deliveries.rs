//! Deliveries to outbound webhooks and citation subscriptions.

use schemars::JsonSchema;

use crate::access::{RequiredPermission, permissions};
use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::error::Error;
use crate::model::{Delivery, DeliveryStatus};
use crate::service::RedeliveryReport;

pub(super) fn describe(all: &mut Descriptions) {
    describe_of(all, &WEBHOOK);
    describe_of(all, &SUBSCRIPTION);
}

fn describe_of(all: &mut Descriptions, endpoint: &EndpointOperations) {
    all.describe(
        endpoint.list,
        "Deliveries within the retention period, by the time of their events. Each has its attempts, oldest first, with time, \
         duration, and the status of the response or the failure.",
    )
    .always_needs(endpoint.list_need)
    .query::<WithStatus>()
    .answers_page::<Delivery>();
    all.describe(endpoint.get, "")
        .always_needs(endpoint.get_need)
        .answers::<Delivery>();
    all.describe(
        endpoint.redeliver,
        "The delivery is due immediately, with a new retry schedule and the same `webhook-id`, whatever its state. Read it \
         again for the result. An inactive endpoint has to be activated first.",
    )
    .always_needs(endpoint.redeliver_need)
    .refuses(&Error::EndpointInactive)
    .empty_body()
    .answers::<Delivery>()
    .leads_to(endpoint.get, endpoint.of_delivery);
    all.describe(
        endpoint.redeliver_dead,
        "Dead letters are redelivered oldest first, each as by a single redelivery. If `has_more` is true, call again: more \
         remain than one call processes.",
    )
    .always_needs(endpoint.redeliver_dead_need)
    .refuses(&Error::EndpointInactive)
    .empty_body()
    .answers::<RedeliveryReport>();
    all.describe(
        endpoint.ping,
        "Sends one `webhook.ping` in a single attempt, whatever the event type of the endpoint. Read the delivery again for \
         the result. An endpoint that the service disabled receives it too, and a 2xx response activates it again. An \
         endpoint that its owner deactivated does not.",
    )
    .always_needs(endpoint.ping_need)
    .refuses(&Error::EndpointInactive)
    .empty_body()
    .answers::<Delivery>()
    .leads_to(endpoint.get, endpoint.of_delivery)
    .leads_to(endpoint.redeliver, endpoint.of_delivery);
}

/// Filter of a list of deliveries.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only used as a schema")]
struct WithStatus {
    /// State of the deliveries; any if omitted.
    status: Option<DeliveryStatus>,
}

/// Operations on one kind of endpoint, and the permissions that they require.
struct EndpointOperations {
    list: Operation,
    list_need: RequiredPermission,
    get: Operation,
    get_need: RequiredPermission,
    redeliver: Operation,
    redeliver_need: RequiredPermission,
    redeliver_dead: Operation,
    redeliver_dead_need: RequiredPermission,
    ping: Operation,
    ping_need: RequiredPermission,
    /// Parameters of the operations on one delivery, from a response that contains it.
    of_delivery: &'static [(&'static str, &'static str)],
}

const WEBHOOK: EndpointOperations = EndpointOperations {
    list: Operation::ListWebhookDeliveries,
    list_need: permissions::LIST_WEBHOOK_DELIVERIES,
    get: Operation::GetWebhookDelivery,
    get_need: permissions::READ_WEBHOOK_DELIVERY,
    redeliver: Operation::RedeliverToWebhook,
    redeliver_need: permissions::REDELIVER_TO_WEBHOOK,
    redeliver_dead: Operation::RedeliverDeadToWebhook,
    redeliver_dead_need: permissions::REDELIVER_DEAD_TO_WEBHOOK,
    ping: Operation::PingWebhook,
    ping_need: permissions::PING_WEBHOOK,
    of_delivery: &[
        ("id", "$request.path.id"),
        ("webhookId", "$request.path.webhookId"),
        ("deliveryId", "$response.body#/id"),
    ],
};

const SUBSCRIPTION: EndpointOperations = EndpointOperations {
    list: Operation::ListCitationSubscriptionDeliveries,
    list_need: permissions::LIST_SUBSCRIPTION_DELIVERIES,
    get: Operation::GetCitationSubscriptionDelivery,
    get_need: permissions::READ_SUBSCRIPTION_DELIVERY,
    redeliver: Operation::RedeliverToCitationSubscription,
    redeliver_need: permissions::REDELIVER_TO_SUBSCRIPTION,
    redeliver_dead: Operation::RedeliverDeadToCitationSubscription,
    redeliver_dead_need: permissions::REDELIVER_DEAD_TO_SUBSCRIPTION,
    ping: Operation::PingCitationSubscription,
    ping_need: permissions::PING_SUBSCRIPTION,
    of_delivery: &[
        ("id", "$request.path.id"),
        ("deliveryId", "$response.body#/id"),
    ],
};
