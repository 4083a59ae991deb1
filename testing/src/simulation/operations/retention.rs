//! Retention of what workspaces keep.

use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Weighted, create_in, in_workspace, of, requests};
use crate::model::{AuditFacts, ErrorResponse, Expected, Model, Moment, RequestErrors, Response};
use crate::simulation::call::Request;
use crate::strategies::actor;
use knowledge_core::ProblemCode;
use knowledge_core::model::WorkspaceId;
use knowledge_core::service::{AuditAction, MemoryDays, NewRetention};

requests! {
    GetRetention by workspaces.get_retention { workspace: WorkspaceId }
    SetRetention by workspaces.set_retention { workspace: WorkspaceId, new: NewRetention }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let days = || {
        prop_oneof![
            2 => Just(None),
            8 => (1_u64..3).prop_map(Some),
            2 => Just(Some(9)),
            1 => prop_oneof![Just(0), Just(36_500), Just(36_501)].prop_map(Some),
        ]
    };
    let memory_days = (days(), days(), option::of(Just(1)));
    let memory_days = option::of(memory_days.prop_map(|(public, internal, restricted)| {
        let days = MemoryDays::builder().maybe_public(public);
        let days = days.maybe_internal(internal);
        days.maybe_restricted(restricted).build()
    }));
    let new = (days(), memory_days, days(), option::of(any::<bool>()));
    let new = new.prop_map(|(days, memory_days, recall_days, record_recalls)| {
        let new = NewRetention::builder().maybe_chat_days(days);
        let new = new.maybe_memory_days(memory_days);
        let new = new.maybe_recall_days(recall_days);
        new.maybe_record_recalls(record_recalls).build()
    });
    vec![
        of(1, in_workspace(actor(), GetRetention::new)),
        of(2, create_in(actor(), new, SetRetention::new)),
    ]
}

impl Request for GetRetention {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        Ok(Response::of(&model.org(who.org).retention(self.workspace)))
    }
}

impl Request for SetRetention {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        let mut check = |days: Option<u64>, path: &str| {
            let is_wrong = days.is_some_and(|days| !(1..=36_500).contains(&days));
            errors.when(is_wrong, path, ProblemCode::InvalidValue);
        };
        check(self.new.chat_days, "chat_days");
        let days = self.new.memory_days.clone().unwrap_or_default();
        check(days.public, "memory_days.public");
        check(days.internal, "memory_days.internal");
        check(days.confidential, "memory_days.confidential");
        check(days.restricted, "memory_days.restricted");
        check(self.new.recall_days, "recall_days");
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        if who.scope.audience.is_some() {
            return Err(ErrorResponse::Forbidden.into());
        }
        let org = model.org_mut(who.org);
        let before: Value = org.retention(self.workspace);
        let after = json!({
            "chat_days": self.new.chat_days,
            "memory_days": days,
            "recall_days": self.new.recall_days.unwrap_or(30),
            "record_recalls": self.new.record_recalls.unwrap_or(true),
        });
        if before != after {
            org.set_retention(self.workspace, &self.new, at.now);
            let entry = AuditFacts::ok(self.workspace, before, org.retention(self.workspace));
            org.audit(&who, AuditAction::RetentionUpdate, entry, at.now);
        }
        Ok(Response::of(&org.retention(self.workspace)))
    }
}
