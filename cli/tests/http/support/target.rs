//! The service under test: a named one, or the real binary on a directory seeded for it.

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

/// Variable with the path of a [`Fixture`] that has a `base_url`.
///
/// A run uses up its fixture, so each run requires a new one.
///
/// The file may have a `dispatch_path`. The service then only makes deliveries when
/// `{ "url", "status" }` is posted there, and attempts all that are due. Those to this URL get this
/// status, or no response if it is absent.
const TARGET: &str = "KNOWLEDGE_TEST_TARGET";
/// Variable with the path of a file to which each test that calls the service adds its name.
///
/// A result about a running service is valid for these tests only.
const ASKED: &str = "KNOWLEDGE_TEST_ASKED";
/// Variable that marks a deliberate run of the ignored test.
const KEEPER: &str = "KNOWLEDGE_TEST_KEEPER";
/// Prefix of the keeper's line that names the file.
const SEEDED: &str = "fixture: ";
/// Number of organisations that no test changes.
const UNCHANGED_ORGS: usize = 2;

/// The address of the service, and its data.
pub(crate) struct Target {
    base_url: String,
    dispatch_path: Option<String>,
    fixture: Fixture,
    taken: AtomicUsize,
    keeper: Option<Child>,
}

/// Returns the service that all tests of this process use.
pub(crate) fn target() -> &'static Target {
    static TARGET_OF_THIS_PROCESS: OnceLock<Target> = OnceLock::new();
    TARGET_OF_THIS_PROCESS.get_or_init(|| match std::env::var_os(TARGET) {
        Some(path) => Target::read(Path::new(&path), None),
        None => Target::start(),
    })
}

/// Returns an organisation that no test changes, for reads and for rejected requests.
pub(crate) fn quiet_org() -> &'static OrgFixture {
    &target().fixture.orgs[0]
}

/// Returns another one, as a foreign organisation.
pub(crate) fn foreign_org() -> &'static OrgFixture {
    &target().fixture.orgs[1]
}

/// Returns a freshly seeded organisation that no other test uses.
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
    /// Returns the address of the service, and records the test as its user.
    pub(crate) fn base_url(&self) -> &str {
        static NAMES: LazyLock<Option<Mutex<Names>>> = LazyLock::new(Names::open);
        if let Some(names) = &*NAMES {
            // The test runner names the thread of each test after it.
            let thread = std::thread::current();
            let test = thread.name().expect("the thread of a test has a name");
            names.lock().expect("no test panics here").note(test);
        }
        &self.base_url
    }

    /// Returns true if the service was running already.
    pub(crate) fn is_foreign(&self) -> bool {
        self.keeper.is_none()
    }

    /// Returns the path that controls deliveries, if the service makes none by itself.
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

    /// Starts a keeper process, which seeds a directory and runs the binary on it.
    ///
    /// It ends both when this process ends in any way, since statics are not dropped.
    fn start() -> Self {
        let mut keeper = Command::new(std::env::current_exe().expect("this binary"))
            .args([
                "--exact",
                "support::target::keeper_seeds_and_serves_until_its_parent_ends",
                "--ignored",
                "--nocapture",
            ])
            .env(KEEPER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the keeper");
        let output = BufReader::new(keeper.stdout.take().expect("a pipe"));
        let mut lines = output.lines().map_while(Result::ok);
        let path = lines.find_map(|line| Some(line.split_once(SEEDED)?.1.to_owned()));
        // After a minute, the test runner says that the keeper is still running, and ends if it cannot.
        std::thread::spawn(move || lines.for_each(drop));
        Self::read(
            Path::new(&path.expect("the keeper seeds a directory")),
            Some(keeper),
        )
    }
}

/// The names of the tests that have called the service.
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
async fn keeper_seeds_and_serves_until_its_parent_ends() {
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
    // Nothing is sent: the pipe ends with the process at its other end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    server.kill();
}
