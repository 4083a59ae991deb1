//! The service under test: one that the environment names, or the real binary on a directory seeded for it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};

use knowledge_testing::fixture::{self, Fixture, OrgFixture};
use serde_json::Value;

use super::knowledge::{Knowledge, open};

/// Names a file with a [`Fixture`] that has a `base_url`. A suite uses a fixture up: seed anew for each run.
///
/// Beside it there may be a `dispatch_path`: the service attempts no delivery but when `{ "url", "status" }` is posted
/// there, and then all that are due. Those to this URL are answered with this status, or not at all where there is none.
const TARGET: &str = "KNOWLEDGE_TEST_TARGET";
/// Names a file that each test adds its name to when it asks the service: what is said of a service that is up already
/// holds for these tests alone.
const ASKED: &str = "KNOWLEDGE_TEST_ASKED";
/// Tells the ignored test that it was started on purpose.
const KEEPER: &str = "KNOWLEDGE_TEST_KEEPER";
/// What the keeper prints before the name of the file.
const SEEDED: &str = "fixture: ";
/// How many organisations stay as they were seeded.
const UNCHANGED_ORGS: usize = 2;

/// Where the service is, and what is in it.
pub(crate) struct Target {
    base_url: String,
    dispatch_path: Option<String>,
    fixture: Fixture,
    taken: AtomicUsize,
    keeper: Option<Child>,
}

/// The service that all tests of this process ask.
pub(crate) fn target() -> &'static Target {
    static TARGET_OF_THIS_PROCESS: OnceLock<Target> = OnceLock::new();
    TARGET_OF_THIS_PROCESS.get_or_init(|| match std::env::var_os(TARGET) {
        Some(path) => Target::read(Path::new(&path), None),
        None => Target::start(),
    })
}

/// An organisation that no test changes: for what is only read, and for what is refused.
pub(crate) fn quiet_org() -> &'static OrgFixture {
    &target().fixture.orgs[0]
}

/// Another one, for looking at from outside.
pub(crate) fn foreign_org() -> &'static OrgFixture {
    &target().fixture.orgs[1]
}

/// An organisation that no other test has seen, as it was seeded.
pub(crate) fn own_org() -> &'static OrgFixture {
    let target = target();
    let index = UNCHANGED_ORGS + target.taken.fetch_add(1, Ordering::Relaxed);
    target
        .fixture
        .orgs
        .get(index)
        .expect("the fixture has an organisation for each test")
}

impl Target {
    /// The address of the service; whoever takes it asks there.
    pub(crate) fn base_url(&self) -> &str {
        static NAMES: LazyLock<Option<Mutex<Names>>> = LazyLock::new(Names::open);
        if let Some(names) = &*NAMES {
            // The runner of the tests names the thread of each after it.
            let thread = std::thread::current();
            let test = thread.name().expect("the thread of a test has a name");
            names.lock().expect("no test panics here").note(test);
        }
        &self.base_url
    }

    /// Whether it is a service that was up already.
    pub(crate) fn is_foreign(&self) -> bool {
        self.keeper.is_none()
    }

    /// Where the service is told what comes of its deliveries, if it does not send by itself.
    pub(crate) fn dispatch_path(&self) -> Option<&str> {
        self.dispatch_path.as_deref()
    }

    fn read(path: &Path, keeper: Option<Child>) -> Self {
        let json = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        let dispatch_path = json["dispatch_path"].as_str().map(str::to_owned);
        let fixture: Fixture = serde_json::from_value(json).expect("a fixture");
        Self {
            dispatch_path,
            base_url: fixture.base_url.clone().expect("a base_url in the fixture"),
            fixture,
            taken: AtomicUsize::new(0),
            keeper,
        }
    }

    /// Starts a process that seeds a directory, runs the binary on it, and ends both when this process does, however
    /// it ends: statics are not dropped.
    fn start() -> Self {
        let mut keeper = Command::new(std::env::current_exe().expect("this binary"))
            .args([
                "--exact",
                "support::target::keeper",
                "--ignored",
                "--nocapture",
            ])
            .env(KEEPER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the keeper");
        let output = BufReader::new(keeper.stdout.take().expect("a pipe"));
        let path = output
            .lines()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once(SEEDED)?.1.to_owned()));
        Self::read(
            Path::new(&path.expect("the keeper seeds a directory")),
            Some(keeper),
        )
    }
}

/// The tests that have asked the service.
struct Names {
    file: File,
    noted: HashSet<String>,
}

impl Names {
    fn open() -> Option<Mutex<Self>> {
        let file = File::create(std::env::var_os(ASKED)?).expect("create the file of names");
        Some(Mutex::new(Self {
            file,
            noted: HashSet::new(),
        }))
    }

    fn note(&mut self, test: &str) {
        if self.noted.insert(test.to_owned()) {
            writeln!(self.file, "{test}").expect("write the name");
        }
    }
}

#[tokio::test]
#[ignore = "run as a process of its own by the others"]
async fn keeper() {
    if std::env::var_os(KEEPER).is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let service = open(&data_dir).await;
    let mut fixture = fixture::seed(&service).await.expect("seed the store");
    drop(service);
    let server = Knowledge::serve(&data_dir);
    fixture.base_url = Some(server.base_url.clone());
    let path = directory.path().join("fixture.json");
    fs::write(&path, serde_json::to_vec(&fixture).expect("JSON")).expect("write the fixture");
    println!("{SEEDED}{}", path.display());
    // Nothing comes: the pipe ends with the process at its other end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    server.kill();
}
