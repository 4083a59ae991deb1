//! A small organisation, identical for every input.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use knowledge_core::access::{
    BaseRole, BuiltInRole, Credential, CredentialKind, RoleRef, TokenScope,
};
use knowledge_core::api::Api;
use knowledge_core::env::Env;
use knowledge_core::model::{MemberKind, NewCustomRole, RoleActions, Timestamp};
use knowledge_core::service::{
    KnowledgeService, NewMember, NewMemory, NewRecall, NewSource, NewToken, NewWorkspace, Options,
    SealingKey,
};
use knowledge_core::store::MemoryStore;
use uuid::Uuid;

/// A service, with the credentials and ids of its organisation.
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) token: String,
    pub(crate) session: String,
    pub(crate) org_slug: &'static str,
    /// Ids of a workspace, a role, a source, a recall and some memories.
    pub(crate) ids: Vec<Uuid>,
}

impl World {
    pub(crate) async fn new() -> Result<Self, Box<dyn std::error::Error>> {
        // Pseudorandom bytes: distinct, and the same in every run.
        let state = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
        let fill = move |buffer: &mut [u8]| {
            for byte in buffer {
                let next = state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
                *byte = ((next ^ (next >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56) as u8;
            }
        };
        let env = Env::new(|| Timestamp::from_millis(1_700_000_000_000), fill);
        let options = Options::new(SealingKey::new([7; 32]));
        let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
        let owner = NewMember {
            kind: MemberKind::User,
            handle: "owner".to_owned(),
            name: "Owner".to_owned(),
            role: RoleRef::BuiltIn(BuiltInRole::Owner),
            teams: Vec::new(),
        };
        let provisioning = service.provisioning();
        let (org, owner) = provisioning
            .create_organization("Acme", "acme", &owner)
            .await?;
        let workspace = NewWorkspace {
            name: "W".to_owned(),
            slug: "w".to_owned(),
            audience: None,
        };
        let workspace = provisioning.create_workspace(org.id, &workspace).await?.id;
        let mut secrets = Vec::new();
        for kind in [CredentialKind::Bearer, CredentialKind::Session] {
            let lifetime = Duration::from_secs(3_600);
            let (name, scope) = ("fuzz".to_owned(), TokenScope::default());
            let token = NewToken {
                member: owner.id,
                kind,
                name,
                scope,
                lifetime,
            };
            secrets.push(
                provisioning
                    .issue(org.id, &token)
                    .await?
                    .secret
                    .expose()
                    .to_owned(),
            );
        }
        let owner = Credential::Trusted {
            org: org.id,
            member: owner.id,
        };
        let source = NewSource {
            name: "Wiki".to_owned(),
            kind: "wiki".to_owned(),
        };
        let source = service.create_source(&owner, &source).await?.id;
        let memory = NewMemory {
            title: "Title".to_owned(),
            content: "Content".to_owned(),
            source_key: None,
            audience_tag: None,
            sensitivity_label: None,
        };
        let memories = service
            .ingest(&owner, workspace, source, &[memory.clone(), memory])
            .await?;
        let memory_ids: Vec<_> = memories.iter().map(|memory| memory.id).collect();
        let recall = NewRecall {
            query: "why".to_owned(),
            memory_ids: memory_ids.clone(),
        };
        let recall = service.create_recall(&owner, workspace, &recall).await?.id;
        let role = NewCustomRole {
            name: "Role".to_owned(),
            slug: "role".to_owned(),
            base_role: BaseRole::Viewer,
            description: String::new(),
            workspace_id: None,
            actions: RoleActions::default(),
        };
        let role = service.create_custom_role(&owner, "acme", &role).await?.id;
        let mut ids = vec![workspace.0, role.0, source.0, recall.0];
        ids.extend(memory_ids.iter().map(|id| id.0));
        let [token, session] =
            <[String; 2]>::try_from(secrets).map_err(|_| "two secrets were issued")?;
        Ok(Self {
            api: Api::new(service),
            token,
            session,
            org_slug: "acme",
            ids,
        })
    }
}
