//! The reference: full-text search of PostgreSQL with row-level security, over the same memories.
//!
//! It has what makes PostgreSQL faster:
//!
//! - The operator of the search is marked as leakproof, which takes a superuser. Otherwise a policy
//!   keeps it from using the index of the words.
//! - The policy reads the settings of the caller once a search, because they are in subqueries, and
//!   a connection sets them once. A service with a pool sets them for each request.
//! - Plans are made for the words of each search: generic ones read the index of the labels whole.
//! - `ts_rank` takes less than `ts_rank_cd`.
//! - All is in memory before it is measured, and nothing else uses the server.

use std::error::Error;
use std::pin::pin;

use bytes::Bytes;
use futures::SinkExt;
use knowledge_core::model::MemoryId;
use knowledge_core::service::NewMemory;
use knowledge_storage_postgres::testing::{Server, ServerOptions, VARIABLE, installations};
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::clients::Side;
use crate::words::Question;

/// Settings other than those of a test server, which does not sync.
const SETTINGS: [(&str, &str); 8] = [
    ("shared_buffers", "2GB"),
    ("work_mem", "64MB"),
    ("maintenance_work_mem", "1GB"),
    ("jit", "off"),
    ("synchronous_commit", "off"),
    ("plan_cache_mode", "force_custom_plan"),
    // No checkpoint disturbs a measurement.
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "1h"),
];
/// Database of the memories.
const DATABASE: &str = "postgres";
/// User that searches. It owns nothing, so that the policy binds it.
const READER: &str = "reader";

/// Table before the load.
const SCHEMA: &str = "
    CREATE ROLE reader LOGIN;
    CREATE TABLE memories (
        id uuid PRIMARY KEY,
        audience_tag text NOT NULL,
        sensitivity text NOT NULL,
        review_state text NOT NULL,
        content text NOT NULL,
        tsv tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('simple', content)) STORED
    );
    ALTER TABLE memories ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY readable ON memories FOR SELECT TO reader USING (
        audience_tag = ANY ((SELECT current_setting('app.labels')::text[])::text[])
        AND sensitivity = ANY ((SELECT current_setting('app.sensitivities')::text[])::text[])
        AND review_state = 'approved'
    );
    GRANT SELECT ON memories TO reader;
    CREATE EXTENSION pg_prewarm;
";
/// Load of some memories, in the text format.
const COPY: &str =
    "COPY memories (id, audience_tag, sensitivity, review_state, content) FROM STDIN";
/// Statements after the load, each a transaction of its own.
const COMPLETION: [&str; 6] = [
    "CREATE INDEX memories_by_words ON memories USING gin (tsv)",
    "CREATE INDEX memories_by_labels ON memories (audience_tag, sensitivity, review_state)",
    "ALTER FUNCTION ts_match_vq(tsvector, tsquery) LEAKPROOF",
    "VACUUM (ANALYZE) memories",
    "CHECKPOINT",
    "SELECT pg_prewarm(relation) FROM unnest(ARRAY[
        'memories', 'memories_by_words', 'memories_by_labels'
    ]::regclass[]) AS relation",
];
/// Rights of the owner of the organisation.
const CALLER: &str = "
    SET app.labels = '{org:acme,workspace:w,user:owner}';
    SET app.sensitivities = '{public,internal,confidential,restricted}';
";
/// Search for the best memories.
const SEARCH: &str = "
    SELECT id, content, ts_rank(tsv, question) AS rank
    FROM memories, to_tsquery('simple', $1) AS question
    WHERE tsv @@ question
    ORDER BY rank DESC
    LIMIT $2
";

/// A PostgreSQL server with the memories.
pub(crate) struct Reference {
    server: Server,
    owner: Client,
}

/// Words that a memory must have to be found.
#[derive(Clone, Copy)]
pub(crate) enum Match {
    /// Any word of the question, as the service finds memories.
    Any,
    /// All words of the question.
    All,
}

/// Searches of the reference.
pub(crate) struct Queries<'r> {
    pub(crate) reference: &'r Reference,
    pub(crate) words: Match,
    /// Maximum number of memories to return.
    pub(crate) limit: i64,
}

/// Bits of a UUID.
struct Bits(u128);

impl Reference {
    /// Starts a server, unless the environment variable that names its programs is not set.
    pub(crate) async fn start() -> Option<Self> {
        if std::env::var_os(VARIABLE).is_none_or(|paths| paths.is_empty()) {
            eprintln!("PostgreSQL, the reference, is left out: {VARIABLE} is not set");
            return None;
        }
        let options = SETTINGS
            .iter()
            .fold(ServerOptions::default(), |options, (name, value)| {
                options.setting(name, value)
            });
        let newest = installations().pop().expect("there is one");
        let server = Server::start(&newest, &options);
        let owner = server.connect(DATABASE).await;
        let reference = Self { server, owner };
        reference.execute(SCHEMA).await;
        Some(reference)
    }

    /// Returns the version of PostgreSQL.
    pub(crate) fn version(&self) -> String {
        self.server.version()
    }

    /// Adds approved memories, of which the first are for a team.
    pub(crate) async fn add(&self, new: &[NewMemory], ids: &[MemoryId], hidden: usize, team: &str) {
        let mut rows = String::new();
        for (number, (memory, id)) in new.iter().zip(ids).enumerate() {
            let audience = memory.audience_tag.as_ref().expect("an audience");
            let audience = if number < hidden {
                team.to_owned()
            } else {
                audience.to_string()
            };
            let sensitivity = memory.sensitivity_label.expect("a sensitivity");
            // Nothing has to be escaped in the words.
            let content = &memory.content;
            rows += &format!("{id}\t{audience}\t{sensitivity}\tapproved\t{content}\n");
        }
        let sink = self.owner.copy_in(COPY).await.expect("a load begins");
        let mut sink = pin!(sink);
        let sent = sink.send(Bytes::from(rows)).await;
        sent.expect("the rows are sent");
        let added = sink.finish().await.expect("the rows are loaded");
        assert_eq!(added, ids.len() as u64);
    }

    /// Creates the indexes, and gets everything ready for searches.
    ///
    /// # Panics
    /// If the caller does not see this number of memories, or a search does not use the index.
    pub(crate) async fn complete(&self, readable: usize) {
        for statement in COMPLETION {
            self.execute(statement).await;
        }
        let reader = self.reader().await;
        let counted = reader.query_one("SELECT count(*) FROM memories", &[]).await;
        let counted: i64 = counted.expect("memories are counted").get(0);
        assert_eq!(usize::try_from(counted), Ok(readable));
        let search = SEARCH.replace("$1", "'w100 & w200'").replace("$2", "10");
        let plan = reader.query(&format!("EXPLAIN {search}"), &[]).await;
        let plan = plan.expect("a search is planned");
        let mut lines = plan.iter().map(|line| line.get::<_, &str>(0));
        assert!(lines.any(|line| line.contains("on memories_by_words")));
    }

    /// Takes back the mark of the search operator, as in a new PostgreSQL.
    pub(crate) async fn unmark(&self) {
        let unmark = "ALTER FUNCTION ts_match_vq(tsvector, tsquery) NOT LEAKPROOF";
        self.execute(unmark).await;
    }

    /// Connects the caller.
    async fn reader(&self) -> Client {
        let config: Result<Config, _> = self.server.socket(DATABASE).parse();
        let mut config = config.expect("a connection string");
        let connected = config.user(READER).connect(NoTls).await;
        let (client, connection) = connected.expect("the server accepts connections");
        tokio::spawn(connection);
        let set = client.batch_execute(CALLER).await;
        set.expect("the caller's rights are set");
        client
    }

    async fn execute(&self, statements: &str) {
        let executed = self.owner.batch_execute(statements).await;
        executed.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }
}

impl Side for Queries<'_> {
    type Connection = (Client, Statement);

    async fn connect(&self) -> Self::Connection {
        let client = self.reference.reader().await;
        let statement = client.prepare(SEARCH).await;
        (client, statement.expect("the search is prepared"))
    }

    async fn search(
        &self,
        (client, statement): &Self::Connection,
        question: &Question,
    ) -> Vec<u128> {
        let question = question.join(match self.words {
            Match::Any => " | ",
            Match::All => " & ",
        });
        let rows = client.query(statement, &[&question, &self.limit]).await;
        let rows = rows.expect("the search is answered");
        let ids = rows.iter().map(|row| row.get::<_, Bits>(0).0);
        ids.collect()
    }
}

impl<'a> FromSql<'a> for Bits {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::UUID
    }
}
