//! Tests of coverage: nobody grants, changes or takes away actions that they do not hold there.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, Credential, CredentialKind, RoleRef};
use knowledge_core::model::{CustomRole, CustomRoleUpdate, MemberId, RoleActions, WorkspaceId};
use knowledge_core::service::{Caller, DeleteRole, MemberAssignment, MemberUpdate};
use knowledge_store::faults::FaultPlan;
use knowledge_testing::requests::with;

use crate::make::{ADMIN, MEMBER, OWNER, VIEWER, actions, code, custom, new_member, new_role};
use crate::roles::{NONE, active, update, with_actions};
use crate::world::World;

/// An organisation with a workspace `legal`, and calls by any of its members.
struct Org {
    world: World,
    legal: WorkspaceId,
}

impl Org {
    async fn new() -> Self {
        let world = World::new().await;
        let legal = world.workspace("legal").await;
        Self { world, legal }
    }

    /// Adds a member with a role, and with another role in `legal`.
    async fn member(&self, role: RoleRef, in_legal: RoleRef) -> MemberId {
        let member = self.world.member(role).await;
        self.restrict(member, in_legal).await;
        member
    }

    /// Assigns a role in `legal`, as the owner.
    async fn restrict(&self, member: MemberId, role: RoleRef) {
        let assigned = self.world.assign_in(member, self.legal, Some(role));
        assigned.await.unwrap();
    }

    /// Adds a member with the actions of a viewer and these.
    async fn viewer_who_may(&self, allow: &[Action]) -> Caller {
        let role = self.world.role(BaseRole::Viewer, actions(allow), NONE);
        self.world.caller(custom(role.await.id)).await
    }

    async fn add(&self, by: &Caller, role: RoleRef) -> Result<(), Error> {
        let new = new_member(&self.world.name("added"), role);
        self.world.by(by).add_member(&new).await.map(drop)
    }

    async fn change(
        &self,
        by: &Caller,
        member: MemberId,
        update: MemberUpdate,
    ) -> Result<(), Error> {
        let changed = self.world.by(by).update_member(member, &update, None);
        changed.await.map(drop)
    }

    async fn rename(&self, by: &Caller, member: MemberId) -> Result<(), Error> {
        let name = self.world.name("Somebody");
        self.change(by, member, MemberUpdate::builder().name(name).build())
            .await
    }

    async fn assign(&self, by: &Caller, member: MemberId, role: RoleRef) -> Result<(), Error> {
        self.change(by, member, MemberUpdate::builder().role(role).build())
            .await
    }

    /// Assigns a role in `legal`, or ends the one that the member has there.
    async fn assign_in_legal(
        &self,
        by: &Caller,
        member: MemberId,
        role: Option<RoleRef>,
    ) -> Result<(), Error> {
        let legal = self.legal;
        let assignment = MemberAssignment::Workspace(legal, role);
        match role {
            Some(_) => self.world.by(by).assign_role(member, assignment).await,
            None => self.world.by(by).end_workspace_role(member, legal).await,
        }
    }

    async fn remove(&self, by: &Caller, member: MemberId) -> Result<(), Error> {
        self.world.by(by).remove_member(member).await
    }

    /// Creates a role with the actions of a viewer and these, in `legal` if `is_legal`.
    async fn create(
        &self,
        by: &Caller,
        is_legal: bool,
        allow: &[Action],
    ) -> Result<CustomRole, Error> {
        let new = with(new_role(&self.world.name("role")), |new| {
            new.workspace_id = is_legal.then_some(self.legal);
            new.actions = RoleActions {
                allow: actions(allow),
                deny: NONE,
            };
        });
        self.world.by(by).create_role(&new).await
    }

    async fn change_role(
        &self,
        by: &Caller,
        role: &CustomRole,
        update: CustomRoleUpdate,
    ) -> Result<(), Error> {
        let changed = self.world.by(by).update_role(role.id, &update, None);
        changed.await.map(drop)
    }

    async fn delete(
        &self,
        by: &Caller,
        role: &CustomRole,
        to: Option<RoleRef>,
    ) -> Result<(), Error> {
        let request = DeleteRole::builder().maybe_reassign_to(to).build();
        self.world.by(by).delete_role(role.id, &request).await
    }
}

fn renamed(name: &str) -> CustomRoleUpdate {
    CustomRoleUpdate::builder().name(name).build()
}

#[tokio::test]
async fn inactive_role_does_not_hide_actions() {
    let org = Org::new().await;
    let manager = org.viewer_who_may(&[Action::RoleManage]).await;
    let role = org.world.role(BaseRole::Viewer, NONE, NONE).await;
    let change = async |update| org.change_role(&manager, &role, update).await;
    change(active(false)).await.unwrap();
    let delete = actions(&[Action::MemoryDelete]);
    assert_eq!(code(change(with_actions(delete, NONE)).await), "forbidden");
    let base = CustomRoleUpdate::builder().base_role(BaseRole::Member);
    assert_eq!(code(change(base.build()).await), "forbidden");
    change(with_actions(NONE, delete)).await.unwrap();
    change(active(true)).await.unwrap();
    // What the role denies is not to be covered, until the list is to become shorter.
    change(with_actions(NONE, NONE)).await.unwrap();
}

#[tokio::test]
async fn inactive_role_is_covered_as_if_it_were_active() {
    let org = Org::new().await;
    let allow = actions(&[Action::MemoryDelete]);
    let role = org.world.role(BaseRole::Viewer, allow, NONE).await;
    let holder = org.world.member(custom(role.id)).await;
    let in_legal = org.member(VIEWER, custom(role.id)).await;
    update(&org.world, role.id, active(false)).await.unwrap();
    let manager = org
        .viewer_who_may(&[Action::RoleManage, Action::MemberManage])
        .await;
    let off = with(renamed("Mine"), |update| {
        update.actions = with_actions(NONE, NONE).actions;
    });
    for change in [renamed("Mine"), active(true), off] {
        let changed = org.change_role(&manager, &role, change).await;
        assert_eq!(code(changed), "forbidden");
    }
    let deleted = org.delete(&manager, &role, Some(VIEWER)).await;
    assert_eq!(code(deleted), "forbidden");
    for member in [holder, in_legal] {
        assert_eq!(code(org.rename(&manager, member).await), "forbidden");
        assert_eq!(code(org.remove(&manager, member).await), "forbidden");
    }
    assert_eq!(
        code(org.assign(&manager, holder, VIEWER).await),
        "forbidden"
    );
    let ended = org.assign_in_legal(&manager, in_legal, None).await;
    assert_eq!(code(ended), "forbidden");
    // Elsewhere the member is a viewer, as is everybody whom the manager may restrict.
    let other = org.world.member(VIEWER).await;
    org.assign_in_legal(&manager, other, Some(VIEWER))
        .await
        .unwrap();
    org.remove(&manager, other).await.unwrap();
}

/// The actions in force count, not those that the role of the caller would grant.
#[tokio::test]
async fn holder_of_inactive_role_covers_base_role_without_deny() {
    let org = Org::new().await;
    let allow = actions(&[Action::MemoryDelete]);
    let deny = actions(&[Action::DashboardRead]);
    let role = org.world.role(BaseRole::Viewer, allow, deny).await;
    let holder = org.world.caller(custom(role.id)).await;
    update(&org.world, role.id, active(false)).await.unwrap();
    let caller = org
        .world
        .service
        .authenticate(&holder, CredentialKind::Session);
    assert_eq!(
        caller.await.unwrap().org_actions(),
        BaseRole::Viewer.actions() - deny
    );
}

#[tokio::test]
async fn restricted_admin_cannot_lift_restrictions() {
    let org = Org::new().await;
    let adam = org.member(ADMIN, VIEWER).await;
    let admin = org.world.trusted(adam);
    for role in [None, Some(ADMIN), Some(MEMBER)] {
        let lifted = org.assign_in_legal(&admin, adam, role).await;
        assert_eq!(code(lifted), "forbidden", "its own: {role:?}");
    }
    let other = org.member(ADMIN, VIEWER).await;
    for role in [None, Some(ADMIN), Some(MEMBER)] {
        let lifted = org.assign_in_legal(&admin, other, role).await;
        assert_eq!(code(lifted), "forbidden", "another's: {role:?}");
    }
    // Where the admin is not restricted, it may lift what it could set.
    let sales = org.world.workspace("sales").await;
    let restricted = MemberAssignment::Workspace(sales, Some(VIEWER));
    org.world
        .by(&admin)
        .assign_role(other, restricted)
        .await
        .unwrap();
    org.world
        .by(&admin)
        .end_workspace_role(other, sales)
        .await
        .unwrap();
    org.assign_in_legal(&org.world.owner, adam, None)
        .await
        .unwrap();
    org.assign_in_legal(&admin, other, None).await.unwrap();
}

#[tokio::test]
async fn restricted_admin_cannot_grant_beyond_restriction() {
    let org = Org::new().await;
    let admin = org.world.trusted(org.member(ADMIN, VIEWER).await);
    assert_eq!(code(org.add(&admin, ADMIN).await), "forbidden");
    assert_eq!(code(org.add(&admin, MEMBER).await), "forbidden");
    org.add(&admin, VIEWER).await.unwrap();
    let everywhere = org.world.member(VIEWER).await;
    let raised = org.assign(&admin, everywhere, MEMBER).await;
    assert_eq!(code(raised), "forbidden");
    // In `legal`, the role in the organisation does not count for this one.
    let restricted = org.member(VIEWER, VIEWER).await;
    org.assign(&admin, restricted, ADMIN).await.unwrap();
    // A role of the organisation can be held in any workspace.
    let allow = [Action::ChatWrite];
    assert_eq!(code(org.create(&admin, false, &allow).await), "forbidden");
    assert_eq!(code(org.create(&admin, true, &allow).await), "forbidden");
    let role = org.create(&admin, false, &[]).await.unwrap();
    let wider = with_actions(actions(&allow), NONE);
    let changed = org.change_role(&admin, &role, wider).await;
    assert_eq!(code(changed), "forbidden");
    org.change_role(&admin, &role, renamed("Plain"))
        .await
        .unwrap();
    let wide = org.create(&org.world.owner, false, &allow).await.unwrap();
    assert_eq!(code(org.delete(&admin, &wide, None).await), "forbidden");
    let to = Some(custom(wide.id));
    assert_eq!(code(org.delete(&admin, &role, to).await), "forbidden");
    org.delete(&admin, &role, None).await.unwrap();
}

#[tokio::test]
async fn member_cannot_change_member_beyond_their_own() {
    let org = Org::new().await;
    let manager = org.viewer_who_may(&[Action::MemberManage]).await;
    for above in [ADMIN, MEMBER, OWNER] {
        let member = org.world.member(above).await;
        assert_eq!(code(org.remove(&manager, member).await), "forbidden");
        assert_eq!(code(org.rename(&manager, member).await), "forbidden");
        let lowered = org.assign(&manager, member, VIEWER).await;
        assert_eq!(code(lowered), "forbidden");
        let restricted = org.assign_in_legal(&manager, member, Some(VIEWER));
        assert_eq!(code(restricted.await), "forbidden");
    }
    // A role in one workspace suffices.
    let member = org.member(VIEWER, MEMBER).await;
    assert_eq!(code(org.remove(&manager, member).await), "forbidden");
    assert_eq!(code(org.rename(&manager, member).await), "forbidden");
    let ended = org.assign_in_legal(&manager, member, None).await;
    assert_eq!(code(ended), "forbidden");
    let member = org.world.member(VIEWER).await;
    org.rename(&manager, member).await.unwrap();
    org.remove(&manager, member).await.unwrap();
}

/// An action that a holder keeps has to be covered like one that it gains or loses.
#[tokio::test]
async fn kept_action_is_covered_too() {
    let org = Org::new().await;
    let may = [Action::MemberManage, Action::RoleManage];
    let manager = org.viewer_who_may(&may).await;
    let allow = actions(&[Action::MemoryDelete]);
    let role = org.world.role(BaseRole::Viewer, allow, NONE).await;
    let other = org.world.role(BaseRole::Viewer, allow, NONE).await;
    let member = org.member(VIEWER, custom(role.id)).await;
    let to = Some(custom(other.id));
    let moved = org.assign_in_legal(&manager, member, to).await;
    assert_eq!(code(moved), "forbidden");
    assert_eq!(code(org.delete(&manager, &role, to).await), "forbidden");
}

#[tokio::test]
async fn own_role_is_changed_only_by_owners() {
    let org = Org::new().await;
    let adam = org.world.member(ADMIN).await;
    let admin = org.world.trusted(adam);
    assert_eq!(code(org.assign(&admin, adam, VIEWER).await), "forbidden");
    let restricted = org.assign_in_legal(&admin, adam, Some(VIEWER)).await;
    assert_eq!(code(restricted), "forbidden");
    // Its name is no role, and the same role is no change.
    org.rename(&admin, adam).await.unwrap();
    org.assign(&admin, adam, ADMIN).await.unwrap();
    let owner = org.world.member(OWNER).await;
    let by_owner = org.world.trusted(owner);
    org.restrict(owner, VIEWER).await;
    org.assign_in_legal(&by_owner, owner, Some(MEMBER))
        .await
        .unwrap();
    org.assign_in_legal(&by_owner, owner, None).await.unwrap();
    org.assign(&by_owner, owner, ADMIN).await.unwrap();
}

#[tokio::test]
async fn held_custom_role_is_changed_only_by_others() {
    let org = Org::new().await;
    let allow = actions(&[Action::RoleManage]);
    let role = org.world.role(BaseRole::Viewer, allow, NONE).await;
    let holder = org.world.caller(custom(role.id)).await;
    let local = org.world.role(BaseRole::Viewer, NONE, NONE).await;
    let restricted = org
        .world
        .caller(custom(
            org.create(&org.world.owner, false, &[Action::RoleManage])
                .await
                .unwrap()
                .id,
        ))
        .await;
    let &Credential::Trusted { member, .. } = restricted.credential() else {
        unreachable!("a trusted credential")
    };
    org.restrict(member, custom(local.id)).await;
    for (by, role) in [(&holder, &role), (&restricted, &local)] {
        let changed = org.change_role(by, role, renamed("Mine")).await;
        assert_eq!(code(changed), "forbidden");
        assert_eq!(code(org.delete(by, role, Some(VIEWER)).await), "forbidden");
    }
    org.change_role(&holder, &local, renamed("Local"))
        .await
        .unwrap();
    // The holder of a deleted role holds the one that replaced it.
    let next = org.world.role(BaseRole::Viewer, allow, NONE).await;
    let moved = org.delete(&org.world.owner, &role, Some(custom(next.id)));
    moved.await.unwrap();
    let changed = org.change_role(&holder, &next, renamed("Mine")).await;
    assert_eq!(code(changed), "forbidden");
}

#[tokio::test]
async fn role_of_workspace_is_covered_in_its_workspace() {
    let org = Org::new().await;
    let manages = [Action::RoleManage, Action::MemberManage];
    let manager = org.viewer_who_may(&manages).await;
    let &Credential::Trusted { member, .. } = manager.credential() else {
        unreachable!("a trusted credential")
    };
    let delete = [Action::MemoryDelete];
    assert_eq!(code(org.create(&manager, true, &delete).await), "forbidden");
    org.restrict(member, ADMIN).await;
    assert_eq!(
        code(org.create(&manager, false, &delete).await),
        "forbidden"
    );
    let role = org.create(&manager, true, &delete).await.unwrap();
    org.change_role(&manager, &role, renamed("Local"))
        .await
        .unwrap();
    let other = org.world.member(VIEWER).await;
    org.assign_in_legal(&manager, other, Some(custom(role.id)))
        .await
        .unwrap();
    org.rename(&manager, other).await.unwrap();
    org.delete(&manager, &role, Some(MEMBER)).await.unwrap();
    org.assign_in_legal(&manager, other, None).await.unwrap();
}

/// The commit checks the caller's roles in workspaces: a new restriction is respected.
#[tokio::test]
async fn restriction_set_during_change_is_respected() {
    let org = Org::new().await;
    let adam = org.world.member(ADMIN).await;
    let admin = org.world.trusted(adam);
    let (other, legal) = (org.world.served_with(FaultPlan::none()).await, org.legal);
    org.world.probe.before_commit(async move {
        other.assign_in(adam, legal, Some(VIEWER)).await.unwrap();
    });
    assert_eq!(code(org.add(&admin, ADMIN).await), "forbidden");
    // So is a role that the target gets meanwhile.
    let manager = org.viewer_who_may(&[Action::MemberManage]).await;
    let target = org.world.member(VIEWER).await;
    let other = org.world.served_with(FaultPlan::none()).await;
    org.world.probe.before_commit(async move {
        other.assign_in(target, legal, Some(ADMIN)).await.unwrap();
    });
    assert_eq!(code(org.remove(&manager, target).await), "forbidden");
    assert!(org.world.probe.has_happened());
}

/// More roles in workspaces than are prefetched count as well.
#[tokio::test]
async fn restriction_among_many_workspace_roles_is_respected() {
    let org = Org::new().await;
    let adam = org.world.member(ADMIN).await;
    for number in 0..70 {
        let workspace = org.world.workspace(&format!("w{number}")).await;
        let assigned = org.world.assign_in(adam, workspace, Some(ADMIN));
        assigned.await.unwrap();
    }
    let admin = org.world.trusted(adam);
    org.add(&admin, ADMIN).await.unwrap();
    org.restrict(adam, VIEWER).await;
    assert_eq!(code(org.add(&admin, ADMIN).await), "forbidden");
    let manager = org.viewer_who_may(&[Action::MemberManage]).await;
    org.world.assign(adam, VIEWER).await.unwrap();
    assert_eq!(code(org.remove(&manager, adam).await), "forbidden");
}

/// The whole vocabulary is granted by roles of which none exceeds its caller.
#[tokio::test]
async fn caller_covers_exactly_the_actions_it_holds() {
    let org = Org::new().await;
    let viewer = BaseRole::Viewer.actions();
    for held in [NONE, actions(&[Action::AuditRead, Action::ChatWrite])] {
        let held = held | viewer | actions(&[Action::RoleManage]);
        let manager = org.world.caller_who_may(held).await;
        for action in ActionSet::ALL.iter() {
            let created = org.create(&manager, false, &[action]).await;
            assert_eq!(created.is_ok(), held.contains(action), "{action}");
        }
    }
}
