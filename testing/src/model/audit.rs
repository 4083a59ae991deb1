//! The audit log.
//!
//! Most responses do not name their entries of the audit log. The model therefore learns the
//! identifiers from the first list that shows them; in a list they only have to be in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ErrorResponse, Expected, Model, Moment, Org, Response, Who};
use knowledge_core::model::{
    ChatId, ConnectorId, CredentialId, ErasureId, InboundWebhookId, MemberId, MemoryId, OrgId,
    RecallId, RoleId, SourceId, SubscriptionId, Timestamp, WebhookId, WorkspaceId,
};
use knowledge_core::service::{AuditAction, AuditFilter, PageRequest, ResourceKind};

/// Retention of an entry.
const RETENTION: std::time::Duration = std::time::Duration::from_secs(400 * 24 * 60 * 60);

/// Audited operation, whose entries have consecutive identifiers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuditOperation {
    /// Identifier of the operation and of its first entry, once they are known.
    pub(crate) ids: Option<(Uuid, Uuid)>,
    /// True if what was shown of it could also be of another operation.
    is_guess: bool,
    pub(crate) at: Timestamp,
    pub(crate) actor: Option<MemberId>,
    pub(crate) credential: Option<CredentialId>,
    pub(crate) via: Option<MemberId>,
    pub(crate) webhook: Option<InboundWebhookId>,
    /// Identifier of the request; `None` for the operator and for what follows a request.
    pub(crate) request_id: Option<Uuid>,
    pub(crate) action: AuditAction,
    pub(crate) entries: Vec<AuditFacts>,
    /// Workspace of the resource of each entry, if its states do not name it.
    places: Vec<Option<WorkspaceId>>,
}

/// Entry of the audit log, apart from what it shares with the others of the operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuditFacts {
    pub(crate) kind: ResourceKind,
    pub(crate) resource: Uuid,
    pub(crate) outcome: &'static str,
    /// True if the actor decided the review of a memory that it had added itself.
    pub(crate) is_own: bool,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

/// Record that entries of the audit log are about.
pub(crate) trait Audited {
    /// Returns the kind and the identifier of the record.
    fn resource(self) -> (ResourceKind, Uuid);
}

impl Audited for (ResourceKind, Uuid) {
    fn resource(self) -> Self {
        self
    }
}

/// Implements [`Audited`] for the identifiers of records of these kinds.
macro_rules! audited {
    ($($id:ident: $kind:ident),+ $(,)?) => {$(
        impl Audited for $id {
            fn resource(self) -> (ResourceKind, Uuid) {
                (ResourceKind::$kind, self.0)
            }
        }
    )+};
}

audited! {
    OrgId: Organization, WorkspaceId: Workspace, MemberId: Member, RoleId: Role,
    CredentialId: Credential, SourceId: Source, MemoryId: Memory, RecallId: Recall, ChatId: Chat,
    ConnectorId: Connector, WebhookId: Webhook, InboundWebhookId: InboundWebhook,
    SubscriptionId: Subscription, ErasureId: Erasure,
}

impl AuditFacts {
    /// Creates an entry about a successful operation; `()` is the state of what does not exist.
    pub(crate) fn ok(
        resource: impl Audited,
        before: impl Serialize,
        after: impl Serialize,
    ) -> Self {
        let (kind, resource) = resource.resource();
        Self {
            kind,
            resource,
            outcome: "ok",
            is_own: false,
            before: json!(before),
            after: json!(after),
        }
    }
}

impl AuditOperation {
    /// Returns an entry on the wire, without the reason, which is for people.
    fn entry(&self, index: usize) -> Value {
        self.entry_with(self.ids, index)
    }

    /// Returns an entry as it is on the wire with these identifiers of the operation.
    fn entry_with(&self, ids: Option<(Uuid, Uuid)>, index: usize) -> Value {
        let entry = &self.entries[index];
        json!({
            "id": ids.map(|(_, first)| id_at(first, index)),
            "operation_id": ids.map(|(operation, _)| operation),
            "at": self.at,
            "actor_id": self.actor,
            "credential_id": self.credential,
            "via_id": self.via,
            "inbound_webhook_id": self.webhook,
            "client_address": null,
            "request_id": self.request_id,
            "action": self.action,
            "resource": { "kind": entry.kind, "id": entry.resource },
            "outcome": entry.outcome,
            "reason": null,
            "own": entry.is_own,
            "before": entry.before,
            "after": entry.after,
        })
    }

    fn id(&self, index: usize) -> Option<Uuid> {
        let (_, first) = self.ids?;
        Some(id_at(first, index))
    }

    /// Returns the identifiers of the operation, if a shown entry can be this one of its entries.
    ///
    /// Its entries in the shown part of the log, from `upper`, exclusive, to the last shown entry,
    /// must be all those shown of the operation: no other operation has identifiers in between.
    fn ids_by(
        &self,
        (place, index): (usize, usize),
        matching: &[(usize, usize)],
        (id, operation): (Uuid, Uuid),
        (upper, shown): (u128, &BTreeMap<Uuid, &Value>),
    ) -> Option<(Uuid, Uuid)> {
        let first = Uuid::from_u128(id.as_u128().checked_sub(index as u128)?);
        // The first identifier of an operation ends in 16 zero bits.
        if first.as_u128() & 0xffff != 0 {
            return None;
        }
        let ids = (operation, first);
        let last = Uuid::from_u128(first.as_u128() | 0xffff);
        let mut shown_of_operation = shown.range(first..=last);
        let is_last = |id: Uuid| shown.keys().next().is_some_and(|last| id >= *last);
        let mut own = (0..self.entries.len())
            .filter(|index| matching.binary_search(&(place, *index)).is_ok())
            .map(|index| (id_at(first, index), index))
            .filter(|(id, _)| is_last(*id) && id.as_u128() < upper);
        let agree = own.all(|(id, index)| {
            let next = shown_of_operation.next();
            next.is_some_and(|(at, shown)| {
                *at == id && **shown == self.entry_with(Some(ids), index)
            })
        });
        (agree && shown_of_operation.next().is_none()).then_some(ids)
    }
}

/// Removes from a state what the audit log does not have: titles, queries and paths of URLs.
fn strip(state: &mut Value) {
    let Some(fields) = state.as_object_mut() else {
        return;
    };
    fields.retain(|name, _| !matches!(&**name, "title" | "query"));
    for (name, value) in fields {
        if let ("url" | "webhook_url", Some(url)) = (&**name, value.as_str()) {
            *value = match url.split('/').collect::<Vec<_>>()[..] {
                [scheme, "", host, ..] => json!(format!("{scheme}//{host}")),
                _ => json!(""),
            };
        }
    }
}

/// Returns the identifier of an entry of the operation whose first entry has the identifier `first`.
fn id_at(first: Uuid, index: usize) -> Uuid {
    Uuid::from_u128(first.as_u128() + index as u128)
}

/// Returns true if a state names one of these workspaces.
fn names(state: &Value, closed: &BTreeSet<WorkspaceId>) -> bool {
    match state {
        Value::String(_) => uuid_of(state).is_some_and(|id| closed.contains(&WorkspaceId(id))),
        Value::Array(items) => items.iter().any(|item| names(item, closed)),
        Value::Object(fields) => fields.values().any(|field| names(field, closed)),
        _ => false,
    }
}

fn uuid_of(value: &Value) -> Option<Uuid> {
    value.as_str()?.parse().ok()
}

/// Returns the number of milliseconds in an identifier.
fn millis(id: Uuid) -> u128 {
    id.as_u128() >> 80
}

impl Org {
    /// Records an operation on one resource.
    pub(crate) fn audit(
        &mut self,
        who: &Who,
        action: AuditAction,
        entry: AuditFacts,
        at: Timestamp,
    ) {
        self.audit_all(Some(who), action, None, vec![entry], at);
    }

    /// Records an operation of the operator on one resource.
    pub(crate) fn audit_by_operator(
        &mut self,
        action: AuditAction,
        entry: AuditFacts,
        at: Timestamp,
    ) {
        self.audit_all(None, action, None, vec![entry], at);
    }

    /// Records an operation with these entries.
    pub(crate) fn audit_all(
        &mut self,
        who: Option<&Who>,
        action: AuditAction,
        ids: Option<(Uuid, Uuid)>,
        mut entries: Vec<AuditFacts>,
        at: Timestamp,
    ) {
        for entry in &mut entries {
            strip(&mut entry.before);
            strip(&mut entry.after);
        }
        let places = entries.iter();
        let places = places.map(|entry| self.place_of(action, entry)).collect();
        self.audit.push(Arc::new(AuditOperation {
            places,
            ids,
            is_guess: false,
            at,
            actor: who.map(|who| who.member),
            credential: who.and_then(|who| who.credential),
            via: who.and_then(|who| who.via),
            webhook: who.and_then(|who| who.webhook),
            request_id: who.and_then(|who| who.request_id),
            action,
            entries,
        }));
    }

    /// Returns the workspace of the resource of an entry, if it is in one.
    ///
    /// Of a memory or a role it is known from its states, unless the entry is about a refusal.
    /// Of one memory among many that does not exist for the caller, the entry has no workspace.
    pub(crate) fn place_of(&self, action: AuditAction, entry: &AuditFacts) -> Option<WorkspaceId> {
        let is_of_many = matches!(
            action,
            AuditAction::MemoryBulkUpdate | AuditAction::ErasureCreate
        );
        let is_refusal = entry.outcome == "forbidden" && entry.before.is_null() && !is_of_many;
        let id = entry.resource;
        match entry.kind {
            ResourceKind::Workspace => Some(WorkspaceId(id)),
            ResourceKind::Memory if is_refusal => {
                let found = self.memories.get(&MemoryId(id));
                found.map(|memory| memory.labels.workspace_id)
            }
            ResourceKind::Role if is_refusal => self.roles.get(&RoleId(id))?.workspace_id,
            ResourceKind::Recall => self.place_of_recall(RecallId(id)),
            ResourceKind::Subscription => {
                let found = self.subscriptions.get(&SubscriptionId(id))?;
                self.place_of_recall(found.recall_id)
            }
            ResourceKind::Chat => {
                let found = self.chats.get(&ChatId(id));
                found.map(|facts| facts.chat.workspace_id)
            }
            ResourceKind::Connector => {
                let found = self.connectors.get(&ConnectorId(id));
                found.map(|facts| facts.connector.workspace_id)
            }
            ResourceKind::Webhook => {
                let found = self.webhooks.get(&WebhookId(id));
                found.map(|webhook| webhook.workspace_id)
            }
            ResourceKind::InboundWebhook => {
                let found = self.inbound_webhooks.get(&InboundWebhookId(id));
                found.map(|facts| facts.record.workspace_id)
            }
            ResourceKind::Credential => {
                let found = self.mcp_keys.get(&CredentialId(id));
                found.map(|key| key.workspace_id)
            }
            _ => None,
        }
    }

    /// Returns the outcome of a change of a memory, one of many, that does not exist for the caller.
    ///
    /// It tells that there is such a memory, unless that is in a private workspace.
    pub(crate) fn outcome_of_hidden(&self, id: MemoryId) -> &'static str {
        let is_told = match self.memories.get(&id) {
            Some(memory) => !self.private.contains(&memory.labels.workspace_id),
            None => self.removing.memories.contains(&id),
        };
        if is_told { "forbidden" } else { "not_found" }
    }

    fn place_of_recall(&self, recall: RecallId) -> Option<WorkspaceId> {
        let found = self.recalls.get(&recall);
        found.map(|recall| recall.workspace_id)
    }

    /// Returns the entries that match a filter: the places of the operation and of the entry.
    ///
    /// Those about `closed` workspaces do not exist.
    fn matching(
        &self,
        filter: &AuditFilter,
        closed: &BTreeSet<WorkspaceId>,
        now: Timestamp,
    ) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for (place, operation) in self.audit.iter().enumerate() {
            let is_wanted = now < operation.at.plus(RETENTION)
                && filter.actor_id.is_none_or(|id| operation.actor == Some(id))
                && filter
                    .action
                    .is_none_or(|action| operation.action == action)
                && filter.since.is_none_or(|since| since <= operation.at)
                && filter.until.is_none_or(|until| operation.at < until);
            for (index, entry) in operation.entries.iter().enumerate() {
                let is_about = filter.resource_kind.is_none_or(|kind| entry.kind == kind)
                    && filter.resource_id.is_none_or(|id| entry.resource == id)
                    && filter
                        .outcome
                        .is_none_or(|outcome| entry.outcome == outcome.as_str());
                let about = operation.places[index];
                let is_closed = about.is_some_and(|workspace| closed.contains(&workspace))
                    || names(&entry.before, closed)
                    || names(&entry.after, closed);
                if is_wanted && is_about && !is_closed {
                    found.push((place, index));
                }
            }
        }
        found
    }

    /// Takes back guessed identifiers that the shown entries refute, and returns them.
    fn take_back_guesses(
        &mut self,
        matching: &[(usize, usize)],
        (upper, shown): (u128, &BTreeMap<Uuid, &Value>),
    ) -> BTreeSet<Uuid> {
        let mut taken = BTreeSet::new();
        for place in 0..self.audit.len() {
            let operation = &self.audit[place];
            let Some((id, first)) = operation.ids.filter(|_| operation.is_guess) else {
                continue;
            };
            let last = Uuid::from_u128(first.as_u128() | 0xffff);
            let Some((entry, _)) = shown.range(first..=last).next() else {
                continue;
            };
            let index = (entry.as_u128() & 0xffff) as usize;
            let ids = operation.ids_by((place, index), matching, (*entry, id), (upper, shown));
            if ids.is_none() {
                Arc::make_mut(&mut self.audit[place]).ids = None;
                taken.extend([id, first]);
            }
        }
        taken
    }

    /// Returns the operations that a shown entry can be of, whether or not their identifiers are
    /// known: the place of each, and its identifiers then.
    fn candidates(
        &self,
        matching: &[(usize, usize)],
        (id, entry): (Uuid, &Value),
        shown: (u128, &BTreeMap<Uuid, &Value>),
    ) -> Vec<(usize, (Uuid, Uuid))> {
        let Some(operation) = uuid_of(&entry["operation_id"]) else {
            return Vec::new();
        };
        let resource = uuid_of(&entry["resource"]["id"]);
        let candidates = matching.iter().filter_map(|(place, index)| {
            let of = &self.audit[*place];
            let can_be = Some(of.entries[*index].resource) == resource
                && entry["action"] == json!(of.action)
                && entry["at"] == json!(of.at);
            let ids = can_be.then(|| of.ids_by((*place, *index), matching, (id, operation), shown));
            Some((*place, ids.flatten()?))
        });
        let mut candidates: Vec<_> = candidates.collect();
        candidates.dedup_by_key(|(place, _)| *place);
        candidates
    }

    /// Learns the identifiers of the shown entries, which precede `after`, and returns the new ones.
    fn learn_audit(
        &mut self,
        matching: &[(usize, usize)],
        shown: &[Value],
        after: Option<Uuid>,
    ) -> BTreeSet<Uuid> {
        let by_id = shown.iter();
        let by_id: BTreeMap<Uuid, &Value> = by_id
            .filter_map(|shown| Some((uuid_of(&shown["id"])?, shown)))
            .collect();
        let upper = after.map_or(u128::MAX, |after| after.as_u128());
        let taken_back = self.take_back_guesses(matching, (upper, &by_id));
        let known = matching.iter();
        let known = known.filter_map(|(place, index)| self.audit[*place].id(*index));
        let mut known: BTreeSet<Uuid> = known.collect();
        let mut learned = BTreeSet::new();
        loop {
            let (mut named, mut guess) = (Vec::new(), None);
            for (id, shown) in by_id.iter().filter(|(id, _)| !known.contains(id)) {
                let candidates = self.candidates(matching, (*id, shown), (upper, &by_id));
                let is_free = |(place, _): &&(usize, _)| self.audit[*place].ids.is_none();
                let mut free = candidates.iter().filter(is_free);
                let Some((place, ids)) = free.next() else {
                    continue;
                };
                let name = (*place, *ids, candidates.len() > 1);
                match free.next() {
                    None => named.push(name),
                    Some(_) => guess = guess.or(Some(name)),
                }
            }
            if named.is_empty() {
                named.extend(guess);
            }
            if named.is_empty() {
                break;
            }
            for (place, ids, is_guess) in named {
                let operation = Arc::make_mut(&mut self.audit[place]);
                if operation.ids.is_none() {
                    (operation.ids, operation.is_guess) = (Some(ids), is_guess);
                    known.extend((0..operation.entries.len()).map(|index| id_at(ids.1, index)));
                    learned.extend([ids.0, ids.1]);
                }
            }
        }
        &learned - &taken_back
    }
}

impl Model {
    /// Returns a page of the audit log as a caller sees it, newest entry first.
    pub(crate) fn audit_page(
        &mut self,
        who: &Who,
        (list, filter): (String, &AuditFilter),
        page: &PageRequest,
        at: &Moment<'_>,
    ) -> Expected {
        let (limit, after) = self.page_request(&list, page)?;
        let shown = at
            .learned
            .and_then(|learned| learned.get::<Vec<Value>>("/data"));
        let shown = shown.unwrap_or_default();
        let org = who.org;
        let closed = self.org(org).closed_to(who);
        let matching = self.org(org).matching(filter, &closed, at.now);
        let learned = self.org_mut(org).learn_audit(&matching, &shown, after);
        let are_new = learned.into_iter().all(|id| self.made(Some(id)) == id);
        let org = self.org(org);
        let entry = |(place, index): &(usize, usize)| (&org.audit[*place], *index);
        let mut known: Vec<_> = matching
            .iter()
            .map(entry)
            .filter_map(|(operation, index)| Some((operation.id(index)?, operation, index)))
            .filter(|(id, ..)| after.is_none_or(|after| *id < after))
            .collect();
        known.sort_by_key(|(id, ..)| std::cmp::Reverse(*id));
        // Entries of unknown identifiers follow those of the page, unless they are of a later time.
        let last = known.get(limit.wrapping_sub(1)).map(|(id, ..)| *id);
        let unknown = matching.iter().map(entry);
        let unknown = unknown
            .filter(|(operation, _)| operation.ids.is_none())
            .map(|(operation, _)| operation.at.as_millis().unsigned_abs().into())
            .filter(|time: &u128| after.is_none_or(|after| *time <= millis(after)));
        let unknown: Vec<u128> = unknown.collect();
        // On the page of a cursor, they may also precede it, if they have its time.
        let is_before = |time: &u128| after.is_some_and(|after| *time == millis(after));
        let is_missed = |time: &u128| match last {
            Some(last) => *time > millis(last),
            None => true,
        };
        let is_complete = !unknown
            .iter()
            .any(|time| is_missed(time) && !is_before(time));
        let has_more = known.len() > limit || unknown.iter().any(|time| !is_before(time));
        let may_have_more = has_more || !unknown.is_empty();
        let mut data: Vec<_> = known
            .iter()
            .take(limit)
            .map(|(_, of, index)| of.entry(*index))
            .collect();
        if !is_complete || !are_new {
            data.push(json!("an entry is missing or not new"));
        }
        let is_full = data.len() == limit;
        let more = match (is_full && has_more, is_full && may_have_more) {
            (false, true) => None,
            (has_more, _) => Some(has_more),
        };
        let next = self.next_cursor(list, last.filter(|_| is_full), more, at);
        Ok(Response::page(data, &next))
    }

    /// Returns the entry of the audit log with this identifier.
    pub(crate) fn audit_entry(&self, who: &Who, id: Uuid, now: Timestamp) -> Expected {
        let (org, filter) = (who.org, AuditFilter::default());
        let closed = self.org(org).closed_to(who);
        let all = self.org(org).matching(&filter, &closed, now);
        let mut all = all
            .into_iter()
            .map(|(place, index)| (&self.org(org).audit[place], index));
        let found = all.find(|(operation, index)| operation.id(*index) == Some(id));
        let (operation, index) = found.ok_or(ErrorResponse::NotFound)?;
        Ok(Response::of(&operation.entry(index)))
    }
}

#[cfg(test)]
mod tests {
    use knowledge_core::model::Organization;

    use super::*;

    fn org(at: Timestamp) -> Org {
        Org::new(&Organization {
            id: OrgId(Uuid::from_u128(1)),
            name: "acme".to_owned(),
            slug: "acme".to_owned(),
            created_at: at,
            erasing: BTreeMap::new(),
            removing: Vec::new(),
            private: BTreeSet::new(),
        })
    }

    /// Returns an organisation with two ingests, whose last entries are equal.
    fn ingests_with_equal_ends(at: Timestamp) -> Org {
        let mut org = org(at);
        for first in [7, 9] {
            let entries = vec![about(first), about(8)];
            org.audit_all(None, AuditAction::MemoryIngest, None, entries, at);
        }
        org
    }

    fn about(memory: u128) -> AuditFacts {
        AuditFacts::ok(MemoryId(Uuid::from_u128(memory)), (), ())
    }

    fn ids(at: u128) -> (Uuid, Uuid) {
        (Uuid::from_u128(at), Uuid::from_u128(at << 16))
    }

    /// Returns the entries of all operations with these identifiers.
    fn shown(org: &Org, given: &[Option<(Uuid, Uuid)>]) -> Vec<Value> {
        let operations = org.audit.iter().zip(given);
        let shown = operations.flat_map(|(operation, ids)| {
            (0..operation.entries.len()).map(|index| operation.entry_with(*ids, index))
        });
        shown.collect()
    }

    #[test]
    fn shorter_operation_does_not_take_ids_of_a_longer_one() {
        let at = Timestamp::from_millis(1_769_851_800_000);
        let mut org = org(at);
        let action = AuditAction::MemoryIngest;
        org.audit_all(None, action, None, vec![about(7)], at);
        org.audit_all(None, action, None, vec![about(7), about(8)], at);

        // The later operation has the lower identifiers.
        let given = [ids(4), ids(3)].map(Some);
        let shown = shown(&org, &given);
        let matching = org.matching(&AuditFilter::default(), &BTreeSet::new(), at);
        org.learn_audit(&matching, &shown, None);
        let learned: Vec<_> = org.audit.iter().map(|operation| operation.ids).collect();
        assert_eq!(learned, given);
    }

    /// The oldest entry on the page can be of either operation, the others of the second one only.
    #[test]
    fn entry_is_of_the_operation_that_the_others_leave() {
        let at = Timestamp::from_millis(1_769_851_800_000);
        let mut org = ingests_with_equal_ends(at);
        let given = [4, 3].map(|at| Some(ids(at)));
        let shown = shown(&org, &given);
        let matching = org.matching(&AuditFilter::default(), &BTreeSet::new(), at);
        org.learn_audit(&matching, &[&shown[..2], &shown[3..]].concat(), None);
        let learned: Vec<_> = org.audit.iter().map(|operation| operation.ids).collect();
        assert_eq!(learned, given);
    }

    /// The last entries of both operations are equal, and the first page shows only one of them.
    #[test]
    fn guess_is_taken_back_once_more_is_shown() {
        let at = Timestamp::from_millis(1_769_851_800_000);
        let mut org = ingests_with_equal_ends(at);
        let given = [3, 4].map(|at| Some(ids(at)));
        let shown = shown(&org, &given);
        let matching = org.matching(&AuditFilter::default(), &BTreeSet::new(), at);
        let learned = |org: &Org| org.audit.iter().map(|of| of.ids).collect::<Vec<_>>();

        let new = org.learn_audit(&matching, &shown[3..], None);
        assert_eq!(learned(&org), [given[1], None]);
        assert_eq!(new.len(), 2);
        let new = org.learn_audit(&matching, &shown, None);
        assert_eq!(learned(&org), given);
        assert_eq!(new, BTreeSet::from(<[Uuid; 2]>::from(ids(3))));
    }
}
