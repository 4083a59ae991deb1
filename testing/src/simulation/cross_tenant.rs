//! Worlds for tests of tenancy, whose members use identifiers of another organisation.

use uuid::Uuid;

use super::world::{OrgState, World};
use knowledge_core::model::{
    AuditLogId, ChatId, ConnectorId, CredentialId, DeliveryId, InboundWebhookId, MemberId,
    MemoryId, RecallId, RoleId, SourceId, SubscriptionId, WebhookId, WorkspaceId,
};
use knowledge_core::service::Endpoint;

impl World {
    /// Returns this world with members who use entities of the other organisation as their own.
    ///
    /// `kinds` has a bit for each kind of entity to replace. `stranger` maps each identifier of the
    /// other organisation: a twin of this world can thus name, in the same places, entities that do
    /// not exist.
    #[must_use]
    pub fn cross_tenant(
        &self,
        is_second_org: bool,
        kinds: u16,
        stranger: impl Fn(Uuid) -> Uuid,
    ) -> Self {
        let mut world = self.clone();
        world.sent.clear();
        let [first, second] = &self.orgs;
        world.orgs = if is_second_org {
            [
                first.mixed_up(first, u16::MAX, &stranger),
                second.mixed_up(first, kinds, &stranger),
            ]
        } else {
            [
                first.mixed_up(second, kinds, &stranger),
                second.mixed_up(second, u16::MAX, &stranger),
            ]
        };
        world
    }

    /// Returns the identifiers of all entities of the first or the second organisation.
    #[must_use]
    pub fn identifiers(&self, is_second_org: bool) -> Vec<Uuid> {
        let org_state = &self.orgs[usize::from(is_second_org)];
        let ids = std::cell::RefCell::new(vec![org_state.id.0]);
        let note = |id| {
            ids.borrow_mut().push(id);
            id
        };
        org_state.mixed_up(org_state, u16::MAX, &note);
        ids.into_inner()
    }
}

impl OrgState {
    /// Returns this organisation with entities of another in place of some of its own.
    fn mixed_up(&self, other: &Self, kinds: u16, stranger: &impl Fn(Uuid) -> Uuid) -> Self {
        /// Returns the entities of a kind: its own, or those of the other under mapped identifiers.
        fn kind<T: Clone>(is_other: bool, own: &[T], other: &[T], map: impl Fn(&T) -> T) -> Vec<T> {
            if is_other {
                other.iter().map(map).collect()
            } else {
                own.to_vec()
            }
        }
        macro_rules! ids {
            ($bit:literal, $field:ident, $type:ident) => {
                kind(
                    kinds & (1 << $bit) != 0,
                    &self.$field,
                    &other.$field,
                    |id| $type(stranger(id.0)),
                )
            };
        }
        macro_rules! placed {
            ($bit:literal, $field:ident, $type:ident) => {
                kind(
                    kinds & (1 << $bit) != 0,
                    &self.$field,
                    &other.$field,
                    |(id, place)| ($type(stranger(id.0)), WorkspaceId(stranger(place.0))),
                )
            };
        }
        Self {
            workspaces: ids!(0, workspaces, WorkspaceId),
            memories: placed!(1, memories, MemoryId),
            sources: ids!(2, sources, SourceId),
            roles: ids!(3, roles, RoleId),
            deleted_roles: ids!(3, deleted_roles, RoleId),
            members: ids!(4, members, MemberId),
            connectors: placed!(5, connectors, ConnectorId),
            chats: placed!(6, chats, ChatId),
            recalls: ids!(7, recalls, RecallId),
            credentials: ids!(8, credentials, CredentialId),
            audit: ids!(9, audit, AuditLogId),
            webhooks: placed!(10, webhooks, WebhookId),
            inbound_webhooks: placed!(11, inbound_webhooks, InboundWebhookId),
            subscriptions: ids!(12, subscriptions, SubscriptionId),
            keys: placed!(13, keys, CredentialId),
            deliveries: kind(
                kinds & (1 << 14) != 0,
                &self.deliveries,
                &other.deliveries,
                |(id, endpoint)| {
                    let endpoint = match *endpoint {
                        Endpoint::Webhook(place, id) => Endpoint::Webhook(
                            WorkspaceId(stranger(place.0)),
                            WebhookId(stranger(id.0)),
                        ),
                        Endpoint::Subscription(id) => {
                            Endpoint::Subscription(SubscriptionId(stranger(id.0)))
                        }
                    };
                    (DeliveryId(stranger(id.0)), endpoint)
                },
            ),
            ..self.clone()
        }
    }
}
