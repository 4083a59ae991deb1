//! Deletion of single chats and recalls.

use super::removal::{Removal, messages_read};
use crate::access::Action;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{AuditAction, ChatId, RecallId, WorkspaceId};
use crate::operation::Operation;
use crate::service::access::monitor::slugs_read;
use crate::service::memories::recalls::find_any_recall;
use crate::service::operation::{Authorized, Prefetch};
use crate::service::tasks::ScheduledTask;
use crate::service::workspace::chats::{chat_keys, find_any_chat};
use crate::service::{Caller, Chats, Recalls};
use crate::store::RangeRead;

impl Chats<'_> {
    /// Deletes a chat with its messages.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteChat`]; [`Error::NotFound`] for an unknown chat, also one that
    /// the caller takes no part in, unless it holds `erasure:manage` there.
    pub async fn delete(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        chat: ChatId,
    ) -> Result<(), Error> {
        self.service
            .perform(Operation::DeleteChat, caller, |caller| async move {
                let org = caller.org();
                let prefetch = Prefetch::keys(chat_keys(org, workspace, chat))
                    .and_range(messages_read(org, chat));
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let (now, member) = (op.now, op.principal.member_id());
                let found = find_any_chat(&mut op, workspace, chat).await?;
                let erases = op.principal.erases(op.held_in(workspace));
                let is_erased = op.principal.org.erases_member(found.created_by);
                if is_erased || (!erases && !found.exists_for(&op.principal)) {
                    return Err(Error::not_found(EntityKind::Chat));
                }
                let needed = if found.created_by == member {
                    Action::ChatWrite
                } else {
                    Action::ErasureManage
                };
                op.require(needed, workspace)?;
                let mut removal = Removal::new(self.service, org, now);
                if removal.chat(&mut op.transaction, &found).await? {
                    let task = ScheduledTask::FormerChat { org, chat };
                    task.schedule(&mut op.transaction, now, self.service.env());
                }
                op.removed(AuditAction::ChatDelete, removal);
                op.done(())
            })
            .await
    }
}

impl Recalls<'_> {
    /// Deletes a recall with its citation subscriptions.
    ///
    /// # Errors
    /// Those of [`Operation::DeleteRecall`]; [`Error::NotFound`], also for a recall that does not
    /// exist for the caller, unless it holds `erasure:manage` in the workspace.
    pub async fn delete(self, caller: &Caller, recall: RecallId) -> Result<(), Error> {
        self.service
            .perform(Operation::DeleteRecall, caller, |caller| async move {
                let org = caller.org();
                let subscriptions = RangeRead::all(keys::subscriptions(org, recall));
                let count = keys::subscription_count(org, recall);
                let prefetch = Prefetch::keys([keys::recall(org, recall), count])
                    .and_ranges([slugs_read(org), subscriptions]);
                let caller = caller.authenticate(prefetch).await?;
                let (mut op, found) = find_any_recall(caller, recall).await?;
                let now = op.now;
                let needed = if found.created_by == op.principal.member_id() {
                    Action::RecallCreate
                } else {
                    Action::ErasureManage
                };
                op.require(needed, found.workspace_id)?;
                let mut removal = Removal::new(self.service, org, now);
                if !removal.recall(&mut op.transaction, &found).await? {
                    return Err(Error::internal("a commit has no room for one recall"));
                }
                op.removed(AuditAction::RecallDelete, removal);
                op.done(())
            })
            .await
    }
}

impl Authorized<'_> {
    /// Records what was removed.
    fn removed(&mut self, action: AuditAction, removal: Removal<'_>) {
        let (operation, actor) = self.audit(action);
        let pages = removal.into_pages();
        operation.record_pages(&mut self.transaction, actor, action, pages);
    }
}
