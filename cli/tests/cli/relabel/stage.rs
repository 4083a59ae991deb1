//! A server for the tests of `knowledge relabel`, and the command with its arguments.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use knowledge_core::access::{BuiltInRole, Credential, RoleRef};
use knowledge_core::env::Env;
use knowledge_core::internals::{audited_memories, keys};
use knowledge_core::model::AuditLogId;
use knowledge_core::service::{AuditAction, Caller};
use knowledge_core::store::StoreExt;
use knowledge_server::data::DataConfig;
use serde_json::Value;
use uuid::Uuid;

use crate::support::{Finished, Scratch, Server, get, knowledge, start};

pub(super) const RELABEL: [&str; 3] = [
    "relabel",
    "--workspace=support",
    "--where=sensitivity=internal",
];

/// A server with memories, and the arguments to relabel them.
pub(super) struct Stage {
    pub(super) scratch: Scratch,
    server: Option<Server>,
    pub(super) url: String,
    pub(super) token: String,
}

impl Stage {
    pub(super) fn with_memories(count: usize) -> Self {
        Self::served(count, "")
    }

    /// Starts a server with this configuration.
    pub(super) fn served(count: usize, config: &str) -> Self {
        let scratch = Scratch::with_org();
        let lines: String = (0..count)
            .map(|number| {
                format!("{{\"title\": \"Note {number}\", \"content\": \"It says {number}.\"}}\n")
            })
            .collect();
        let file = scratch.write("memories.jsonl", &lines);
        let data_dir = scratch.data_dir();
        let import = [
            "import",
            &file,
            "--workspace=support",
            "--source=Wiki",
            &data_dir,
        ];
        knowledge(&import).ok();
        let config = format!("--config={}", scratch.write("knowledge.toml", config));
        let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0", &config]);
        let url = server.base_url();
        let token = knowledge(&["token", "create", "--member=maya", &data_dir])
            .ok()
            .stdout;
        let mut stage = Self {
            scratch,
            server: Some(server),
            url,
            token: String::new(),
        };
        stage.use_token(&token);
        stage
    }

    pub(super) fn use_token(&mut self, token: &str) {
        self.token = token.trim().to_owned();
        let file = self.scratch.write("token", token);
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("permissions");
    }

    pub(super) fn options(&self, server: &str) -> Vec<String> {
        vec![
            format!("--server={server}"),
            format!("--token-file={}", self.scratch.arg("token")),
            format!("--plan={}", self.scratch.arg("plan.jsonl")),
        ]
    }

    pub(super) fn relabel(&self, server: &str, more: &[&str]) -> Finished {
        let options = self.options(server);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        knowledge(&[&RELABEL, &options[..], more].concat())
    }

    pub(super) fn start_relabelling(&self, server: &str, more: &[&str]) -> Server {
        let options = self.options(server);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        start(&[&RELABEL, &options[..], more].concat())
    }

    fn get(&self, path: &str) -> Value {
        let header = format!("Authorization: Bearer {}", self.token);
        let answer = get(format!("{}{path}", self.url), header);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Returns the number of memories with this sensitivity.
    pub(super) fn count(&self, sensitivity: &str) -> usize {
        let workspaces = self.get("/v1/workspaces");
        let mut all = workspaces["data"].as_array().expect("a list").iter();
        let support = all
            .find(|found| found["slug"] == "support")
            .expect("support");
        let id = support["id"].as_str().expect("an id");
        let mut count = 0;
        let mut cursor = String::new();
        loop {
            let list =
                format!("/v1/workspaces/{id}/memories?limit=200&sensitivityLabel={sensitivity}");
            let page = self.get(&format!("{list}{cursor}"));
            count += page["data"].as_array().expect("a list").len();
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return count,
            }
        }
    }

    pub(super) fn stop(&mut self) {
        let server = self.server.take().expect("a server");
        assert_eq!(server.terminate(), 0);
    }

    pub(super) fn has_plan(&self) -> bool {
        self.scratch.path("plan.jsonl").exists()
    }

    /// Ends the server; returns the number of audit entries about relabelling, by memory.
    pub(super) fn audited(mut self) -> BTreeMap<Uuid, usize> {
        self.stop();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let data = DataConfig::at(self.scratch.path("data")).open().await;
            let data = data.expect("the data");
            let options = data.options(Default::default());
            let service = data
                .service(Env::system(), options)
                .await
                .expect("the service");
            let provisioning = service.provisioning();
            let orgs = provisioning
                .organizations()
                .await
                .expect("the organisation");
            let org = orgs[0].id;
            let members = provisioning.members(org).await.expect("the members");
            let owner = RoleRef::BuiltIn(BuiltInRole::Owner);
            let owner = members.iter().find(|member| member.role == owner);
            let caller = Caller::new(Credential::Trusted {
                org,
                member: owner.expect("an owner").id,
            });
            let mut audited = BTreeMap::new();
            for page in service
                .store()
                .scan_all(&keys::audits(org))
                .await
                .expect("the log")
            {
                let first = keys::last_id(&page.key).expect("an id").as_u128();
                let body: Value = serde_json::from_slice(&page.entry.value).expect("a page");
                for offset in 0..entry_count(&body) as u128 {
                    let id = AuditLogId(Uuid::from_u128(first + offset));
                    let entry = service
                        .audit_log()
                        .get(&caller, id)
                        .await
                        .expect("an entry");
                    if entry.action == AuditAction::MemoryBulkUpdate {
                        *audited.entry(entry.resource.id).or_default() += 1;
                    }
                }
            }
            audited
        })
    }
}

/// Returns the number of entries on a page of the audit log.
fn entry_count(page: &Value) -> usize {
    audited_memories(page).len().max(1)
}
