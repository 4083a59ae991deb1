//! Messages to inbound webhooks.

use std::time::Duration;

use http::HeaderName;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use uuid::Uuid;

use super::{Op, Weighted, alone};
use crate::call::ApiCall;
use crate::model::{Announcement, Batch, ErrorResponse, Expected, Model, Moment, Response};
use crate::simulation::call::{Described, Request, Run};
use crate::simulation::indeterminate::Changes;
use crate::simulation::part::Part;
use crate::simulation::world::OrgState;
use crate::strategies::{entity, new_memory};
use knowledge_core::api::Operation;
use knowledge_core::model::{InboundWebhookId, MemoryId, OrgId, Timestamp};
use knowledge_core::service::{InboundBatch, KnowledgeService, NewMemory, SigningSecret};

/// Retention of the record of a processed message.
const MESSAGE_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Maximum difference between the time of a message and its arrival, in seconds.
const TOLERANCE_SECONDS: i64 = 5 * 60;
/// Secret that no webhook has.
const OTHER_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Message to an inbound webhook.
#[derive(Clone, Debug)]
struct PostToInboundWebhook {
    org: OrgId,
    id: InboundWebhookId,
    secret: String,
    message_id: &'static str,
    /// Age of the message, in seconds.
    age: i64,
    memories: Vec<NewMemory>,
}

impl Described for PostToInboundWebhook {
    fn operation(&self) -> Option<Operation> {
        Some(Operation::PostToInboundWebhook)
    }

    fn org(&self) -> Option<OrgId> {
        Some(self.org)
    }

    fn api_call(&self, now: Timestamp) -> Option<ApiCall> {
        let mut call = ApiCall::new(Operation::PostToInboundWebhook);
        self.org.add_to(&mut call);
        self.id.add_to(&mut call);
        let batch = InboundBatch::builder().memories(self.memories.clone());
        batch.build().add_to(&mut call);
        let secret: SigningSecret = self.secret.parse().expect("a signing secret");
        let sent = Timestamp::from_millis((now.as_seconds() - self.age) * 1_000);
        let signature = secret.sign(self.message_id, sent, &call.body);
        for (name, value) in [
            ("webhook-id", self.message_id.to_owned()),
            ("webhook-timestamp", sent.as_seconds().to_string()),
            ("webhook-signature", signature),
        ] {
            call.add_header(HeaderName::from_static(name), value);
        }
        Some(call)
    }

    fn run<'a>(&'a self, _service: &'a KnowledgeService) -> Run<'a> {
        unreachable!("no caller of a message is trusted")
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let post = (
        (any::<bool>(), entity(), prop::bool::weighted(0.9)),
        select(&["m1", "m2", "m3", "m4", "m.5"][..]),
        prop_oneof![20 => Just(0), 1 => Just(TOLERANCE_SECONDS), 1 => Just(-TOLERANCE_SECONDS - 1)],
        vec(new_memory(), 1..3),
    );
    vec![alone(
        4,
        post.prop_map(
            |((is_second_org, id, is_signed), message_id, age, memories)| {
                Op::to(is_second_org, move |view| {
                    let (_, id) = view.placed::<InboundWebhookId>(id, None);
                    let mut own = view.own.inbound_webhooks.iter();
                    let number = own.position(|(own, _)| *own == id);
                    let secret = number.and_then(|number| view.own.signing_secrets.get(number));
                    let secret = secret.filter(|secret| is_signed && !secret.is_empty());
                    PostToInboundWebhook {
                        org: view.own.id,
                        id,
                        secret: secret.map_or_else(|| OTHER_SECRET.to_owned(), Clone::clone),
                        message_id,
                        age,
                        memories: memories.clone(),
                    }
                })
            },
        ),
    )]
}

impl Request for PostToInboundWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let sent = at.now.as_seconds() - self.age;
        let distance = (sent * 1_000 - at.now.as_millis()).abs();
        if distance > TOLERANCE_SECONDS * 1_000 {
            return Err(ErrorResponse::Unauthenticated.into());
        }
        let found = model.find_org(self.org);
        let found = found.and_then(|org| org.inbound_webhooks.get(&self.id));
        let facts = found.ok_or(ErrorResponse::NotFound)?.clone();
        if !facts.accepts(&self.secret, at.now) {
            return Err(ErrorResponse::Unauthenticated.into());
        }
        let (id, webhook) = (self.message_id, facts.record);
        if id.contains('.') {
            let code = knowledge_core::ProblemCode::InvalidValue;
            return Err(ErrorResponse::invalid("webhook-id", code).into());
        }
        let message = (self.id, id.to_owned());
        let processed = model.org(self.org).messages.get(&message).copied();
        let processed = processed.filter(|(_, expires_at)| at.now < *expires_at);
        let expires_at = at.now.plus(MESSAGE_RETENTION);
        let workspace = webhook.workspace_id;
        if let Err(errors) = model.errors_of_batch(&self.memories).then(Ok(())) {
            let org = model.org_mut(self.org);
            if processed.is_none() && org.has_endpoints(workspace) {
                org.messages.insert(message, (true, expires_at));
                let code = "invalid_request".to_owned();
                org.announce(Announcement::Rejected(
                    workspace,
                    self.id,
                    id.to_owned(),
                    code,
                ));
            }
            return Err(errors);
        }
        if matches!(processed, Some((false, _))) {
            return Ok(Response::done());
        }
        let org = model.org(self.org);
        let who = model.acting_for(self.org, facts.owner, at.now);
        let who = who.filter(|who| {
            let held = "held by the member that the inbound webhook acts as";
            let rules = org.rules(who);
            rules.may(Operation::PostToInboundWebhook, held, workspace)
        });
        let mut who = who.ok_or(ErrorResponse::Forbidden)?;
        who.webhook = Some(self.id);
        let ids = at
            .learned
            .and_then(|learned| learned.get::<Vec<MemoryId>>("/added"));
        let ids = ids.unwrap_or_default().into_iter();
        let ids = std::cell::RefCell::new(ids);
        let next = |_| ids.borrow_mut().next().map(|id| id.0);
        let batch = Batch {
            workspace,
            source: webhook.source_id,
            is_signed: true,
            revives: false,
            is_dry: false,
        };
        model.ingest(&who, batch, &self.memories, at.now, next)?;
        let org = model.org_mut(self.org);
        org.messages.insert(message, (false, expires_at));
        Ok(Response::done())
    }

    fn reconstruct(&self, _model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let added: Vec<Uuid> = if changes.added("audit").is_empty() {
            Vec::new()
        } else {
            changes.added_memories()?
        };
        Ok(Response::of(&json!({ "added": added })))
    }

    fn is_silent(&self) -> bool {
        true
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let added = response.get::<Vec<MemoryId>>("/added").unwrap_or_default();
        let webhooks = org_state.inbound_webhooks.iter();
        let mut place = webhooks
            .filter(|(id, _)| *id == self.id)
            .map(|(_, place)| *place);
        if let Some(place) = place.next() {
            org_state
                .memories
                .extend(added.into_iter().map(|id| (id, place)));
        }
    }
}
