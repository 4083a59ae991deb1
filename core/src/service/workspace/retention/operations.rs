//! Operations on the retention of a workspace.

use super::new_retention::{NewRetention, Retention};
use super::retention_state::RetentionState;
use super::stored_retention::StoredRetention;
use crate::error::Error;
use crate::keys;
use crate::model::{AuditAction, ResourceKind, WorkspaceId};
use crate::operation::Operation;
use crate::service::access::principal::Denial;
use crate::service::operation::{Authorized, Prefetch};
use crate::service::{Caller, Workspaces};

/// # Retention
impl Workspaces<'_> {
    /// Reads the retention of a workspace.
    ///
    /// # Errors
    /// Those of [`Operation::GetRetention`].
    pub async fn get_retention(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
    ) -> Result<Retention, Error> {
        self.service
            .perform(Operation::GetRetention, caller, |caller| async move {
                let prefetch = Prefetch::keys([keys::retention(caller.org(), workspace)]);
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let found = op.retention(workspace).await?;
                op.done(found.retention)
            })
            .await
    }

    /// Sets the retention of a workspace, at once for everything that it has.
    ///
    /// Chats that have expired are absent from that moment on, and
    /// [`maintain`](crate::service::KnowledgeService::maintain) erases them. A longer retention
    /// never brings them back, erased or not.
    ///
    /// Memories that have expired remain until
    /// [`maintain`](crate::service::KnowledgeService::maintain) deletes them: at once after a
    /// change of the retention, and within a day and the time of a sweep after they expire. It
    /// judges each by its present label and time of change. With them go the recalls that cite no
    /// other stored memory. Recalls that have expired and have no subscription go in the same way.
    ///
    /// # Errors
    /// Those of [`Operation::SetRetention`]; [`Error::InvalidRequest`] for a number of days outside
    /// its range; [`Error::Forbidden`] for a credential with a list of audience labels.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../../example.txt")]
    /// use knowledge_core::service::NewRetention;
    ///
    /// let new = NewRetention::builder().chat_days(90).build();
    /// let retention = service.workspaces().set_retention(&owner, workspace, &new).await?;
    /// assert_eq!(retention.chat_days, Some(90));
    /// assert_eq!(service.workspaces().get_retention(&viewer, workspace).await?, retention);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_retention(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        new: &NewRetention,
    ) -> Result<Retention, Error> {
        self.service.checks().check(new)?;
        self.service
            .perform(Operation::SetRetention, caller, |caller| async move {
                let org = caller.org();
                let prefetch = Prefetch::keys(RetentionState::keys(org, workspace));
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                // It erases chats of all members, and memories for anybody.
                if op.principal.has_audience_list() {
                    return Err(Denial::OutOfScope.into());
                }
                let now = op.now;
                let state = RetentionState::read(&mut op.transaction, org, workspace).await?;
                let (before, retention) = (&state.stored.retention, Retention::from(new));
                if *before == retention {
                    return op.done(retention);
                }
                let resource = (ResourceKind::Workspace, workspace.0);
                let action = AuditAction::RetentionUpdate;
                op.changed(action, resource, before, &retention);
                let after = state.changed_to(&retention, now);
                after.schedule(&mut op.transaction, Some(now));
                op.done(retention)
            })
            .await
    }
}

impl Authorized<'_> {
    /// Returns the retention of a workspace; the commit checks it.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn retention(
        &mut self,
        workspace: WorkspaceId,
    ) -> Result<StoredRetention, Error> {
        let key = keys::retention(self.org(), workspace);
        let found = self.transaction.get::<StoredRetention>(&key).await?;
        Ok(found.unwrap_or_default())
    }
}
