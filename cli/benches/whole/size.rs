//! Rows about size: stores with few and with millions of memories, roles with few and with a
//! million holders, and imported files.
//!
//! The service fills the stores, so that every index, counter and audit entry is there.

use futures::{StreamExt, stream};
use http::{Method, StatusCode};
use knowledge_core::access::{Action, ActionSet, CredentialKind, RoleRef};
use knowledge_core::model::{MemberId, RoleId};
use knowledge_testing::requests::{new_member, new_role, new_token, with};
use serde_json::json;

use crate::Options;
use crate::bare::Reference;
use crate::load::{Call, Target};
use crate::machine::Others;
use crate::report::{self, Row, Sample};
use crate::scale::Size;
use crate::site::{BATCH, Tenant, copy, memory, record_batches, with_store};
use crate::spec::{Engine, Recorded, Spec};
use crate::stored::{FILLERS, Stored, import, new_tenant, serve, verify};

/// Names of the rows.
pub(crate) const ROWS: [&str; 4] = ["scale", "start", "roles", "import"];

/// Measures the chosen rows on an engine.
pub(crate) async fn measure(options: &Options, engine: Engine) -> Vec<Row> {
    let size = options.size().of(engine);
    let bench = Bench {
        options,
        engine,
        size,
    };
    let includes = |row: &str| options.includes(row);
    let mut rows = Vec::new();
    if includes("scale") || includes("start") {
        let few = Stored::with_memories(engine, size.few).await;
        let counts = match engine {
            Engine::Sled => vec![size.memories],
            Engine::Fjall => vec![size.memories / 10, size.memories],
        };
        for count in counts {
            let many = Stored::with_memories(engine, count).await;
            if includes("start") {
                rows.extend(bench.start(&few, &many).await);
            }
            if includes("scale") {
                rows.extend(bench.scale(&few, &many).await);
            }
            many.verify(count);
        }
    }
    if includes("roles") {
        rows.extend(bench.roles().await);
    }
    if includes("import") {
        rows.extend(bench.import().await);
    }
    rows
}

/// Measurements on one engine.
struct Bench<'o> {
    options: &'o Options,
    engine: Engine,
    size: Size,
}

impl Bench<'_> {
    fn name(&self, what: &str) -> String {
        format!("{what}, {}", self.engine.name())
    }

    async fn start(&self, few: &Stored, many: &Stored) -> Vec<Row> {
        let is_idle = self.options.wait_until_idle().await;
        let mut samples = [const { Vec::new() }; 3];
        for _ in 0..self.size.rounds {
            let many = many.start(self.size.summaries).await;
            let few = few.start(self.size.summaries).await;
            samples[0].push(Sample {
                cpu_us: many.cpu_us,
                reference_cpu_us: few.cpu_us,
                ..Sample::of(many.ms, few.ms)
            });
            for (number, (value, reference)) in many.mib.into_iter().zip(few.mib).enumerate() {
                samples[1 + number].push(Sample::of(value, reference));
            }
        }
        // As the documentation says: docs/operations.md and the help of the command line.
        let (ms, mib) = match self.engine {
            Engine::Sled => (20_000.0, 512.0),
            Engine::Fjall => (1_000.0, 256.0),
        };
        let (memories, summaries) = (many.memories, self.size.summaries);
        let resident = format!("resident memory after a start with {memories} memories");
        let then = format!("{resident} and {summaries} dashboard summaries");
        let start = format!("start with {memories} memories");
        let rows = [
            (start, "ms", ms),
            (resident, "MiB", mib),
            (then, "MiB", mib),
        ];
        let rows = rows.into_iter().zip(&samples);
        let rows = rows.map(|((what, unit, bound), samples)| {
            let target = report::Target::ValueAtMost(bound);
            let row = Row::new("start", self.name(&what), unit, target, samples);
            row.against(&format!("the same with {} memories", few.memories))
        });
        self.options.finish(rows.collect(), is_idle, None)
    }

    async fn scale(&self, few: &Stored, many: &Stored) -> Vec<Row> {
        let ((few_server, _), (many_server, _)) = (few.serve().await, many.serve().await);
        let (few_target, many_target) = (&few_server.target, &many_server.target);
        let few_job = few.summaries(few_target).await;
        let many_job = many.summaries(many_target).await;
        let is_idle = self.options.wait_until_idle().await;
        let others = Others::watch(vec![few_target.id, many_target.id]);
        let (mut latency, mut cpu) = (Vec::new(), Vec::new());
        for _ in 0..self.size.rounds {
            let many = many_target.load(1, self.size.small, &many_job).await;
            let few = few_target.load(1, self.size.small, &few_job).await;
            let (value, reference) = (1e3 * many.median_ms(), 1e3 * few.median_ms());
            latency.push(many.sample(value, reference, few.cpu_us));
            cpu.push(many.sample(many.cpu_us, few.cpu_us, few.cpu_us));
        }
        let others = others.used();
        few_server.stop();
        many_server.stop();
        let what = format!(
            "dashboard summary among {} memories, 1 connection",
            many.memories
        );
        let row = |what: &str, unit, samples: &[Sample]| {
            let target = report::Target::RatioAtMost(1.1);
            let row = Row::new("scale", self.name(what), unit, target, samples);
            row.against(&format!("the same summary among {} memories", few.memories))
        };
        let rows = vec![
            row(&what, "µs", &latency),
            row(&format!("{what}, CPU"), "µs of CPU", &cpu),
        ];
        self.options.finish(rows, is_idle, others)
    }

    async fn roles(&self) -> Vec<Row> {
        let directory = tempfile::tempdir().expect("a directory can be created");
        let path = directory.path().join("data");
        let (few, many) = (self.size.few, self.size.holders);
        let deletions = self.size.deletions;
        let (owner, few, many) = with_store(self.engine, &path, async |data| {
            let tenant = new_tenant(data).await;
            let owner = session(&tenant, tenant.seed.founder.id).await;
            let few = Roles::create(&tenant, "few", few, deletions).await;
            let many = Roles::create(&tenant, "many", many, deletions).await;
            (owner, few, many)
        })
        .await;
        let (server, _) = serve(&path).await;
        let target = &server.target;
        let is_idle = self.options.wait_until_idle().await;
        let others = Others::watch(vec![target.id]);
        let mut samples = Vec::new();
        for number in 0..deletions {
            let value = many.delete(target, &owner, number).await;
            let reference = few.delete(target, &owner, number).await;
            samples.push(Sample::of(value, reference));
        }
        let others = others.used();
        server.stop();
        verify(&path, many.holders);
        let name = self.name(&format!("deletion of a role with {} holders", many.holders));
        let target = report::Target::RatioAtMost(2.0);
        let row = Row::new("roles", name, "ms", target, &samples);
        let row = row.against(&format!("of a role with {} holders", few.holders));
        self.options.finish(vec![row], is_idle, others)
    }

    async fn import(&self) -> Vec<Row> {
        let count = self.size.imported.next_multiple_of(BATCH);
        let directory = tempfile::tempdir().expect("a directory can be created");
        let (file, spec) = ("memories.jsonl", "spec.json");
        let (file, spec) = (directory.path().join(file), directory.path().join(spec));
        let lines = (0..count).map(|number| json!(memory(number)).to_string() + "\n");
        std::fs::write(&file, lines.collect::<String>()).expect("the file can be written");
        let nothing = || Recorded {
            status: StatusCode::NO_CONTENT.as_u16(),
            ..Recorded::default()
        };
        let batches = Spec {
            engine: self.engine,
            dashboard_keys: Vec::new(),
            bulk: Vec::new(),
            updates: Vec::new(),
            batches: record_batches(count / BATCH).await,
            dashboard: nothing(),
            not_modified: nothing(),
            update: nothing(),
            replay: nothing(),
        };
        batches.write(&spec);
        drop(batches);
        let is_idle = self.options.wait_until_idle().await;
        let mut samples = Vec::new();
        for _ in 0..self.size.rounds {
            let stored = Stored::with_memories(self.engine, 0).await;
            let raw_dir = stored.raw_dir();
            copy(&stored.data_dir(), &raw_dir);
            let (seconds, cpu_ms) = import(&stored.data_dir(), &file, count);
            let reference = Reference::start(&spec, &raw_dir);
            let raw = reference.load_batches(0, count / BATCH).await;
            let memories = count as f64;
            samples.push(Sample {
                value: memories / seconds,
                reference: raw.per_second * BATCH as f64,
                per_second: memories / seconds,
                cpu_us: 1e3 * cpu_ms / memories,
                reference_cpu_us: raw.cpu_us / BATCH as f64,
            });
            stored.verify(count);
        }
        let name = self.name(&format!("import of a file with {count} memories"));
        let target = report::Target::RatioAtLeast(0.5);
        let row = Row::new("import", name, "/s", target, &samples);
        let row = row.against("bare engine, the same bytes in batches of 100, one sync");
        self.options.finish(vec![row], is_idle, None)
    }
}

/// Custom roles, the first of which has holders, to be deleted one after the other.
struct Roles {
    ids: Vec<RoleId>,
    holders: usize,
    /// Session of one of the holders.
    session: String,
}

impl Roles {
    async fn create(tenant: &Tenant, name: &str, holders: usize, deletions: usize) -> Self {
        let mut ids = Vec::new();
        for number in 0..=deletions {
            let new = with(new_role(&format!("{name}-{number}")), |new| {
                if !Self::reads_roles(number) {
                    new.actions.deny = ActionSet::of(&[Action::RoleRead]);
                }
            });
            ids.push(tenant.seed.role(&new).await.expect("a role").id);
        }
        let role = RoleRef::Custom(ids[0]);
        let member = async |number: usize| {
            let new = new_member(&format!("{name}-{number}"), role);
            tenant.seed.member(&new).await.expect("a member").id
        };
        let holder = member(0).await;
        let others = stream::iter(1..holders);
        let others = others.for_each_concurrent(FILLERS, async |number| {
            member(number).await;
        });
        others.await;
        Self {
            ids,
            holders,
            session: session(tenant, holder).await,
        }
    }

    /// Returns true if the role with this number lets its holders list the roles.
    fn reads_roles(number: usize) -> bool {
        number.is_multiple_of(2)
    }

    /// Deletes a role in favour of the next one, under which its holders act from then on.
    ///
    /// Returns the latency in milliseconds.
    async fn delete(&self, target: &Target, owner: &str, number: usize) -> f64 {
        self.assert_role(target, number).await;
        let path = format!("/v1/orgs/acme/custom-roles/{}", self.ids[number]);
        let body = json!({ "reassign_to": self.ids[number + 1] });
        let deletion = in_session(owner, Method::DELETE, path).json(&body);
        let deleted = target.send(deletion).await;
        let body = String::from_utf8_lossy(&deleted.body);
        assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{body}");
        self.assert_role(target, number + 1).await;
        1e3 * deleted.latency.as_secs_f64()
    }

    async fn assert_role(&self, target: &Target, number: usize) {
        let path = "/v1/orgs/acme/custom-roles".to_owned();
        let listed = target.send(in_session(&self.session, Method::GET, path));
        let expected = if Self::reads_roles(number) {
            StatusCode::OK
        } else {
            StatusCode::FORBIDDEN
        };
        assert_eq!(listed.await.status, expected, "a holder of role {number}");
    }
}

async fn session(tenant: &Tenant, member: MemberId) -> String {
    let new = new_token(member, CredentialKind::Session);
    let issued = tenant.seed.issue(&new).await.expect("a session");
    issued.secret.expose().to_owned()
}

/// Returns a request without a body in a session.
fn in_session(session: &str, method: Method, path: String) -> Call {
    Call::new(method, path).with("cookie", format!("service_session={session}"))
}
