//! Two organisations, identical for every input, and what their callers know.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::observed::ObservedStore;
use crate::requests::{
    ADMIN, HOUR, MEMBER, VIEWER, new_chat, new_connector, new_mcp_key, new_member, new_memory,
    new_organization, new_recall, new_role, new_token, new_workspace, review, with,
};
use crate::seed::{Seed, confirm};
use crate::simulation::{SimulatedTime, simulated_options};
use knowledge_core::Error;
use knowledge_core::access::CredentialKind;
use knowledge_core::model::{EventType, OrgId, ReviewStatus};
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::MemoryStore;

/// Slugs of the organisations.
pub(super) const SLUGS: [&str; 2] = ["acme", "globex"];
/// Text that is in all titles and contents of the second organisation.
pub(super) const FOREIGN_TEXT: &str = "globex-private";
const URL: &str = "https://hooks.invalid/hook";
/// Maximum number of identifiers of a collection.
const IDS_MAX: usize = 40;

/// An organisation as its callers know it.
#[derive(Clone, Debug)]
pub(super) struct KnownOrg {
    pub(super) id: OrgId,
    /// Bearer token and session of each caller, with the identifier of the member.
    pub(super) callers: BTreeMap<String, (String, String, String)>,
    /// Identifiers and other texts by collection, in the order in which they became known.
    pub(super) known: BTreeMap<String, Vec<String>>,
    /// Signing secrets by the paths in the collection `inbound`.
    pub(super) secrets: BTreeMap<String, String>,
}

/// The organisations and a copy of their store.
#[derive(Debug)]
pub(super) struct World {
    pub(super) orgs: [KnownOrg; 2],
    pub(super) time: SimulatedTime,
    pub(super) store: Arc<ObservedStore>,
    pub(super) service: KnowledgeService,
}

impl World {
    /// Copies the organisations, which are created once.
    pub(super) async fn new() -> Self {
        static TEMPLATE: OnceLock<(MemoryStore, [KnownOrg; 2])> = OnceLock::new();
        let (store, orgs) = match TEMPLATE.get() {
            Some(template) => template,
            None => {
                let created = create().await.expect("an empty store can be filled");
                TEMPLATE.get_or_init(|| created)
            }
        };
        let store = Arc::new(ObservedStore::new(store.snapshot()));
        let time = SimulatedTime::new();
        time.advance(HOUR);
        let opened = KnowledgeService::open(store.clone(), time.env(2), simulated_options());
        let service = opened.await.expect("the store can be opened");
        store.take_changed();
        Self {
            orgs: orgs.clone(),
            time,
            store,
            service,
        }
    }
}

async fn create() -> Result<(MemoryStore, [KnownOrg; 2]), Error> {
    let store = Arc::new(MemoryStore::new());
    let env = SimulatedTime::new().env(1);
    let opened = KnowledgeService::open(store.clone(), env, simulated_options());
    let service = opened.await.expect("an empty store opens");
    let first = create_org(&service, SLUGS[0], "acme-private").await?;
    let second = create_org(&service, SLUGS[1], FOREIGN_TEXT).await?;
    Ok((store.snapshot(), [first, second]))
}

async fn create_org(
    service: &KnowledgeService,
    slug: &str,
    private: &str,
) -> Result<KnownOrg, Error> {
    let seed = Seed::new(service, &new_organization(slug, "owner")).await?;
    let mut org = KnownOrg {
        id: seed.org.id,
        callers: BTreeMap::new(),
        known: BTreeMap::new(),
        secrets: BTreeMap::new(),
    };
    org.add("orgs", slug);
    org.add_members(&seed).await?;
    org.add_records(&seed, private).await?;
    Ok(org)
}

impl KnownOrg {
    /// Creates the members with their credentials.
    async fn add_members(&mut self, seed: &Seed) -> Result<(), Error> {
        let mut members = vec![("owner", seed.founder.id)];
        for (handle, role) in [("admin", ADMIN), ("member", MEMBER), ("viewer", VIEWER)] {
            members.push((handle, seed.member(&new_member(handle, role)).await?.id));
        }
        for (handle, id) in members {
            let token = seed.issue(&new_token(id, CredentialKind::Bearer)).await?;
            let session = seed.issue(&new_token(id, CredentialKind::Session)).await?;
            let [token, session] = [token, session].map(|issued| issued.secret.expose().to_owned());
            let caller = (token, session, id.to_string());
            self.callers.insert(handle.to_owned(), caller);
            self.add("members", &id.to_string());
        }
        Ok(())
    }

    /// Creates the workspaces and a record of each kind.
    async fn add_records(&mut self, seed: &Seed, private: &str) -> Result<(), Error> {
        let service = &seed.service;
        let workspace = seed.workspace(&new_workspace("main")).await?.id;
        let side = seed.workspace(&new_workspace("side")).await?.id;
        let source = seed.source(private, "wiki").await?;
        let named = |number| {
            with(new_memory(&format!("{private} {number}")), |new| {
                new.source_key = Some(format!("page-{number}"));
            })
        };
        let memories = [named(1), named(2), named(3)];
        let memories = seed.ingest(workspace, source, &memories).await?;
        let approved = review(ReviewStatus::Approved);
        seed.bulk_update("approve", &memories[..2], approved)
            .await?;
        let recall = seed.recall(workspace, &new_recall(&memories[..1])).await?;
        let role = seed.role(&new_role("editor")).await?.id;
        let connector = seed.connector(workspace, &new_connector(HOUR)).await?;
        let chat = seed.chat(workspace, &new_chat(private)).await?;
        let key = seed
            .mcp_key(workspace, &new_mcp_key("workspace:main"))
            .await?;
        let webhook = seed
            .webhook(workspace, EventType::MemoryUpdated, URL)
            .await?;
        confirm(service, webhook.id.into()).await?;
        let subscription = seed.subscription(recall, URL).await?;
        confirm(service, subscription.into()).await?;
        let inbound = seed.inbound_webhook(workspace, private).await?;
        self.learn("inbound-webhooks", &json!(inbound));
        self.learn("mcp-keys", &json!(key));
        for memory in &memories {
            self.add("memories", &memory.to_string());
        }
        for (collection, id) in [
            ("workspaces", workspace.0),
            ("workspaces", side.0),
            ("sources", source.0),
            ("recalls", recall.0),
            ("custom-roles", role.0),
            ("connectors", connector.0),
            ("chats", chat.0),
            ("webhooks", webhook.id.0),
            ("citation-subscriptions", subscription.0),
        ] {
            self.add(collection, &id.to_string());
        }
        Ok(())
    }

    fn add(&mut self, collection: &str, id: &str) {
        let known = self.known.entry(collection.to_owned()).or_default();
        if known.len() < IDS_MAX && !known.iter().any(|known| known == id) {
            known.push(id.to_owned());
        }
    }

    /// Returns the identifiers, without the texts of other kinds.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        const OTHERS: [&str; 4] = ["orgs", "inbound", "etags", "cursors"];
        let known = self.known.iter();
        let known = known.filter(|(collection, _)| !OTHERS.contains(&collection.as_str()));
        known.flat_map(|(_, ids)| ids).map(String::as_str)
    }

    /// Notes the entity tag of a response.
    pub(super) fn learn_etag(&mut self, etag: &str) {
        self.add("etags", etag);
    }

    /// Notes what a response contains: identifiers, keys, secrets of inbound webhooks and cursors.
    ///
    /// `collection` is the last segment of the path that is not a parameter.
    pub(super) fn learn(&mut self, collection: &str, body: &Value) {
        let (collection, items) = match collection {
            "ping" | "redeliver" => ("deliveries", &body["data"]),
            "rotate" => ("mcp-keys", &body["data"]),
            "ingest" => ("memories", &body["memories"]),
            other => (other, &body["data"]),
        };
        if let (Some(path), Some(secret)) = (body["url"].as_str(), body["signing_secret"].as_str())
            && collection == "inbound-webhooks"
        {
            self.add("inbound", path);
            self.secrets.insert(path.to_owned(), secret.to_owned());
        }
        if let Some(secret) = body["secret"].as_str() {
            let number = self
                .callers
                .keys()
                .filter(|name| name.starts_with("key"))
                .count();
            let id = body["id"].as_str().unwrap_or_default().to_owned();
            let caller = (secret.to_owned(), String::new(), id);
            self.callers.insert(format!("key.{number}"), caller);
        }
        let one = [&body["id"], &items["id"]];
        let listed = items.as_array().into_iter().flatten();
        let ids = one.into_iter().chain(listed.map(|item| &item["id"]));
        let ids: Vec<_> = ids.filter_map(Value::as_str).map(str::to_owned).collect();
        ids.iter().for_each(|id| self.add(collection, id));
        if let Some(cursor) = body["next_cursor"].as_str() {
            self.add("cursors", cursor);
        }
    }
}
