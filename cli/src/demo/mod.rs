//! The data of `knowledge demo`: an organisation with two weeks of history.
//!
//! Everything is created by operations of the service, with a clock that starts two weeks ago: a
//! stale connector is stale because time has passed. Texts are derived from a seed; identifiers and
//! secrets are always random.

mod clock;
mod data;
mod history;
mod screen;
mod seed;
mod stage;
mod state;
mod text;

pub(crate) use self::data::org_slug;
pub(crate) use self::screen::Screen;
pub(crate) use self::seed::{Plan, seed};
pub(crate) use self::state::{Demo, DemoState, StateError, read_state, state_path, write_state};

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::{Credential, CredentialKind, Secret, TokenScope};
use knowledge_core::model::{CustomRole, MemoryFilter, MemoryId, ReviewStatus};
use knowledge_core::service::{
    Caller, KnowledgeService, NewToken, PageRequest, SyncOutcome, SyncReport,
};

/// Lifetime of the demo's tokens, longer than a demo is kept.
const TOKEN_LIFETIME: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Lifetime of the demo's login link.
const LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Issues a link with which the demo's owner signs in, once, within 15 minutes.
pub(crate) async fn login_link(service: &KnowledgeService, demo: &Demo) -> Result<Secret, Error> {
    let link = NewToken::builder()
        .member(demo.session_member)
        .kind(CredentialKind::Link)
        .name("Demo login link")
        .lifetime(LINK_LIFETIME)
        .build();
    let issued = service.provisioning().issue(demo.org_id, &link).await?;
    Ok(issued.secret)
}

/// Replaces the demo's tokens if they are no longer valid. Returns true if a token changed.
pub(crate) async fn renew_credentials(
    service: &KnowledgeService,
    demo: &mut Demo,
) -> Result<bool, Error> {
    let mut is_changed = false;
    let (bearer, session) = (&mut demo.bearer_token, &mut demo.session_token);
    for (kind, name, member, secret) in [
        (
            CredentialKind::Bearer,
            "Demo token",
            demo.bearer_member,
            bearer,
        ),
        (
            CredentialKind::Session,
            "Demo session",
            demo.session_member,
            session,
        ),
    ] {
        if is_valid(service, secret, kind).await? {
            continue;
        }
        let token = NewToken::builder()
            .member(member)
            .kind(kind)
            .name(name)
            .scope(TokenScope::default())
            .lifetime(TOKEN_LIFETIME)
            .build();
        let issued = service.provisioning().issue(demo.org_id, &token).await?;
        issued.secret.expose().clone_into(secret);
        is_changed = true;
    }
    Ok(is_changed)
}

async fn is_valid(
    service: &KnowledgeService,
    secret: &str,
    kind: CredentialKind,
) -> Result<bool, Error> {
    let Ok(secret) = secret.parse::<Secret>() else {
        return Ok(false);
    };
    match service.authenticate(&secret.into(), kind).await {
        Ok(_) => Ok(true),
        Err(Error::Unauthenticated { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reports syncs for the working connectors, as if they had continued since the last start.
///
/// The degraded connector fails first.
pub(crate) async fn report_syncs(service: &KnowledgeService, demo: &Demo) -> Result<(), Error> {
    let operator = demo.administrator();
    let report = SyncReport::new;
    let success = report(SyncOutcome::Success);
    let failure = report(SyncOutcome::Failure {
        error: data::HISTORY.degraded_error().to_owned(),
        is_authentication: false,
    });
    for (connector, reports) in [
        (demo.degraded_connector, [&failure, &success].as_slice()),
        (demo.healthy_connector, &[&success]),
    ] {
        for report in reports {
            let reported = service
                .connectors()
                .report_sync(&operator, demo.workspace_id, connector, report)
                .await;
            match reported {
                // The user may have deleted the connector.
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Returns the current custom roles, in the order of their list.
pub(crate) async fn custom_roles(
    service: &KnowledgeService,
    demo: &Demo,
) -> Result<Vec<CustomRole>, Error> {
    let owner = Caller::new(Credential::Trusted {
        org: demo.org_id,
        member: demo.session_member,
    });
    service.roles().list(&owner, org_slug()).await
}

/// Returns the first memory of the first workspace that awaits review; `None` if none does.
pub(crate) async fn pending_memory(
    service: &KnowledgeService,
    demo: &Demo,
) -> Result<Option<MemoryId>, Error> {
    let filter = MemoryFilter::builder()
        .review_status(ReviewStatus::Pending)
        .build();
    let page = PageRequest::builder().limit(1).build();
    let (reader, memories) = (demo.administrator(), service.memories());
    let pending = memories
        .list(&reader, demo.workspace_id, &filter, &page)
        .await?;
    Ok(pending.data.first().map(|memory| memory.id))
}
