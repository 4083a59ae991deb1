//! An application with the service embedded: no HTTP, no server, one directory.
//!
//! `cargo run -p knowledge-storage-sled --example application`

use std::error::Error;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use knowledge_core::access::{BuiltInRole, Credential, RoleRef};
use knowledge_core::env::Env;
use knowledge_core::model::{BulkUpdate, MemberKind, MemoryChange, ReviewStatus, Timestamp};
use knowledge_core::service::{
    KnowledgeService, NewMember, NewMemory, NewSource, NewWorkspace, Options, SealingKey,
};
use knowledge_storage_sled::{SledOptions, SledStore};

/// The clock and the randomness, which core takes from the application.
fn env() -> Env {
    let clock = || {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    };
    Env::new(clock, |buffer: &mut [u8]| {
        getrandom::fill(buffer).expect("the operating system has randomness");
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let store = SledStore::open(directory.path().join("data"), SledOptions::default())?;
    let env = env();
    // A real application keeps this key: the signing secrets in the store are sealed with it.
    let options = Options::new(SealingKey::generate(&env));
    let service = KnowledgeService::open(Arc::new(store), env, options).await?;

    // Provisioning by the operator: an organisation, its owner, a workspace.
    let ada = NewMember {
        kind: MemberKind::User,
        handle: "ada".to_owned(),
        name: "Ada".to_owned(),
        role: RoleRef::BuiltIn(BuiltInRole::Owner),
        teams: vec!["platform".to_owned()],
    };
    let (org, ada) = service
        .provisioning()
        .create_organization("Acme", "acme", &ada)
        .await?;
    let workspace = NewWorkspace {
        name: "Support".to_owned(),
        slug: "support".to_owned(),
        audience: None,
    };
    let workspace = service
        .provisioning()
        .create_workspace(org.id, &workspace)
        .await?;

    // API calls. The application has authenticated Ada itself and vouches for her.
    let ada = Credential::Trusted {
        org: org.id,
        member: ada.id,
    };
    let source = NewSource {
        name: "Wiki".to_owned(),
        kind: "confluence".to_owned(),
    };
    let source = service.create_source(&ada, &source).await?;
    let memory = |number: usize| NewMemory {
        title: format!("Runbook {number}"),
        content: "When the queue grows, add a worker first and ask why second.".to_owned(),
        source_key: Some(format!("runbook-{number}")),
        audience_tag: None,
        sensitivity_label: None,
    };
    let memories: Vec<_> = (1..=3).map(memory).collect();
    let memories = service
        .ingest(&ada, workspace.id, source.id, &memories)
        .await?;

    // Approves all of them for one team, exactly once however often the call is retried.
    let update = BulkUpdate {
        memory_ids: memories.iter().map(|memory| memory.id).collect(),
        change: MemoryChange {
            audience_tag: Some("team:platform".parse()?),
            review_status: Some(ReviewStatus::Approved),
            ..MemoryChange::default()
        },
    };
    let key = "approve-runbooks-2026-11".parse()?;
    let first = service.bulk_update(&ada, &key, &update).await?;
    let again = service.bulk_update(&ada, &key, &update).await?;
    assert!(!first.replayed && again.replayed);
    assert_eq!(first.results, again.results);

    let dashboard = service.dashboard_summary(&ada, workspace.id).await?.value;
    assert_eq!(dashboard.review_backlog_count, 0);
    println!(
        "{} memories approved, {} wait for review",
        first.summary.succeeded, dashboard.review_backlog_count
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn example_runs() {
        super::main().unwrap();
    }
}
