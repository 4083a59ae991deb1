//! Private workspaces, which do not exist for the principal.

use super::hidden::KEYS;
use super::world::World;
use crate::requests::{
    VIEWER, new_chat, new_memory, new_recall, new_role, new_workspace, review, with,
};
use knowledge_core::Error;
use knowledge_core::access::RoleRef;
use knowledge_core::model::{MemberId, ReviewStatus, WorkspaceAccess};
use knowledge_core::service::{MemberAssignment, NewWorkspace};

fn private(slug: &str) -> NewWorkspace {
    with(new_workspace(slug), |new| {
        new.access = WorkspaceAccess::Private;
    })
}

impl World {
    /// Adds a private workspace to both worlds, which the principal names, and another one to the
    /// second. In the first world it is empty.
    ///
    /// Both have one, because an erasure of a source or a member is refused to those for whom one
    /// does not exist, and so is a change of an organisation-wide role: that there is any is an
    /// exception.
    pub(super) async fn add_private(&mut self, member: MemberId) -> Result<(), Error> {
        let vault = self.seed.workspace(&private("vault")).await?.id;
        self.vault = Some(vault);
        if !self.is_second {
            return Ok(());
        }
        let seed = &self.seed;
        let cellar = seed.workspace(&private("cellar")).await?.id;
        let role = with(new_role("cellarer"), |new| new.workspace_id = Some(cellar));
        let role = RoleRef::Custom(seed.role(&role).await?.id);
        for (member, role) in [(self.nora, role), (member, VIEWER)] {
            let held = MemberAssignment::Workspace(cellar, Some(role));
            seed.assign(member, held).await?;
        }
        let new = [with(new_memory("Wine"), |new| {
            new.source_key = Some(KEYS[0].to_owned());
        })];
        for (slug, place) in [("vault", vault), ("cellar", cellar)] {
            let memories = seed.ingest(place, self.sources[0], &new).await?;
            let approved = review(ReviewStatus::Approved);
            seed.bulk_update(slug, &memories, approved).await?;
            seed.recall(place, &new_recall(&memories)).await?;
            seed.chat(place, &new_chat("Wine")).await?;
        }
        Ok(())
    }
}
