//! What `knowledge demo` shows: an organisation with two weeks behind it.
//!
//! Everything is made by the operations of the service, with a clock that begins two weeks ago: connectors are stale
//! because time has passed, not because a field says so. Texts follow from a seed; identifiers and secrets never do.

mod cast;
mod chats;
mod clock;
mod history;
mod screen;
mod seed;
mod state;
mod text;

pub use self::screen::{Screen, Walkthrough};
pub use self::seed::{Plan, seed};
pub use self::state::{Demo, DemoState, StateError, read_state, state_path, write_state};

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::{Credential, CredentialKind, Narrowing, Secret};
use knowledge_core::model::{CustomRole, MemberId, OrgId};
use knowledge_core::service::{KnowledgeService, NewToken, SyncOutcome, SyncReport};

/// How long the tokens of the demo are taken: longer than a demo is kept.
const TOKEN_LIFETIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Whether the store holds anything but a demo: organisations that the demo did not make.
///
/// # Errors
/// Those of the store.
pub async fn holds_other_data(service: &KnowledgeService) -> Result<bool, Error> {
    let organizations = service.provisioning().organizations().await?;
    Ok(organizations.iter().any(|org| org.slug != cast::ORG_SLUG))
}

/// Whether the store holds nothing yet.
///
/// # Errors
/// Those of the store.
pub async fn is_empty(service: &KnowledgeService) -> Result<bool, Error> {
    Ok(service.provisioning().organizations().await?.is_empty())
}

/// Gives the demo tokens that work: those it has, or new ones. Returns whether it has other ones than before.
///
/// # Errors
/// Those of the service.
pub async fn log_in(service: &KnowledgeService, demo: &mut Demo) -> Result<bool, Error> {
    let bearer = Login {
        member: demo.bearer_member,
        kind: CredentialKind::Bearer,
        name: "Demo token",
    };
    let session = Login {
        member: demo.session_member,
        kind: CredentialKind::Session,
        name: "Demo session",
    };
    let mut is_changed = bearer
        .renew(service, demo.org_id, &mut demo.bearer_token)
        .await?;
    is_changed |= session
        .renew(service, demo.org_id, &mut demo.session_token)
        .await?;
    Ok(is_changed)
}

/// Who presents a secret.
struct Login {
    member: MemberId,
    kind: CredentialKind,
    name: &'static str,
}

impl Login {
    /// Keeps a secret that works and replaces one that does not.
    async fn renew(
        &self,
        service: &KnowledgeService,
        org: OrgId,
        secret: &mut String,
    ) -> Result<bool, Error> {
        if let Ok(known) = secret.parse::<Secret>() {
            match service.authenticate(&known.into(), self.kind).await {
                Ok(_) => return Ok(false),
                Err(Error::Unauthenticated { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let token = NewToken {
            member: self.member,
            kind: self.kind,
            name: self.name.to_owned(),
            narrowing: Narrowing::default(),
            lifetime: TOKEN_LIFETIME,
        };
        let issued = service.provisioning().issue(org, &token).await?;
        issued.secret.expose().clone_into(secret);
        Ok(true)
    }
}

/// The connectors that work report a sync, as they would have done since the demo was last served; the degraded one
/// fails first.
///
/// # Errors
/// Those of the service.
pub async fn report_syncs(service: &KnowledgeService, demo: &Demo) -> Result<(), Error> {
    let operator = Credential::Trusted {
        org: demo.org_id,
        member: demo.bearer_member,
    };
    let report = |outcome| SyncReport {
        outcome,
        next_sync_at: None,
    };
    let success = report(SyncOutcome::Success);
    let failure = report(SyncOutcome::Failure {
        error: history::DEGRADED_ERROR.to_owned(),
        is_authentication: false,
    });
    for (connector, reports) in [
        (demo.degraded_connector, [&failure, &success].as_slice()),
        (demo.healthy_connector, &[&success]),
    ] {
        for report in reports {
            let reported = service
                .report_sync(&operator, demo.workspace_id, connector, report)
                .await;
            match reported {
                // Whoever removed it while playing with the demo wanted it so.
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The custom roles as they are now, in the order of their list.
///
/// # Errors
/// Those of the service.
pub async fn custom_roles(
    service: &KnowledgeService,
    demo: &Demo,
) -> Result<Vec<CustomRole>, Error> {
    let operator = Credential::Trusted {
        org: demo.org_id,
        member: demo.session_member,
    };
    service.list_custom_roles(&operator, &demo.org_slug).await
}
