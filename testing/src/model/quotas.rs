//! Quotas of organisations.

use super::{ErrorResponse, Model, Org};
use knowledge_core::model::{OrgId, Quota};

impl Org {
    /// Returns the number of the organisation's records that count towards a quota.
    ///
    /// Remains of removed workspaces count until maintenance deletes them.
    pub(crate) fn usage(&self, quota: Quota) -> usize {
        let removing = self.removing.units.get(&quota).copied().unwrap_or(0);
        removing + self.shown(quota)
    }

    /// Returns the number of these records that the API shows.
    pub(super) fn shown(&self, quota: Quota) -> usize {
        match quota {
            Quota::Memories => self.memories.len(),
            Quota::Recalls => self.recalls.len(),
            Quota::Chats => self.chats.len(),
            Quota::ChatMessages => self.chats.values().map(|chat| chat.messages.len()).sum(),
            Quota::Sources => self.sources.len(),
            Quota::Members => self.members.len(),
            Quota::Endpoints => {
                self.webhooks.len() + self.inbound_webhooks.len() + self.subscriptions.len()
            }
            other => unreachable!("{other} is not counted in records"),
        }
    }
}

impl Model {
    /// Checks that an organisation may have `units` more of a quota.
    ///
    /// The audit log of a simulation stays far below its quota.
    pub(crate) fn check_quota(
        &self,
        org: OrgId,
        quota: Quota,
        units: usize,
    ) -> Result<(), Vec<ErrorResponse>> {
        let limits = &self.limits;
        let maximum = match quota {
            Quota::Memories => limits.memories_per_org_max,
            Quota::Recalls => limits.recalls_per_org_max,
            Quota::Chats => limits.chats_per_org_max,
            Quota::ChatMessages => limits.chat_messages_per_org_max,
            Quota::Sources => limits.sources_per_org_max,
            Quota::Members => limits.members_per_org_max,
            Quota::Endpoints => limits.endpoints_per_org_max,
            _ => u64::MAX,
        };
        let is_exceeded = (self.org(org).usage(quota) + units) as u64 > maximum;
        if units > 0 && is_exceeded {
            Err(ErrorResponse::QuotaExceeded(quota).into())
        } else {
            Ok(())
        }
    }
}
