//! Tests of `knowledge org move` between stores in directories.

use crate::support::{AssertText, Finished, Scratch, Server, knowledge_in, start_in};

/// A home store with the organisation `acme`, and names of further stores.
struct Site {
    scratch: Scratch,
}

impl Site {
    fn new() -> Self {
        Self {
            scratch: Scratch::with_org(),
        }
    }

    /// Returns the setting by which the partition `eu` is in this directory.
    fn partitions(&self, eu: &str) -> String {
        format!("eu=sled:{}", self.scratch.arg(eu))
    }

    /// Runs a command with the store `home` and the partition `eu` in these directories.
    fn run_in(&self, home: &str, eu: &str, args: &[&str]) -> Finished {
        let partitions = self.partitions(eu);
        let data_dir = format!("--data-dir={}", self.scratch.arg(home));
        let key = self.scratch.arg("data.key");
        let variables = [
            ("KNOWLEDGE_STORAGE__PARTITIONS", &*partitions),
            ("KNOWLEDGE_STORAGE__SEALING_KEY_FILE", &*key),
        ];
        knowledge_in(&variables, &[args, &[&data_dir]].concat())
    }

    /// Starts a server of the home store and the partition.
    fn serve(&self) -> Server {
        let partitions = self.partitions("eu");
        let variables = [("KNOWLEDGE_STORAGE__PARTITIONS", &*partitions)];
        let data_dir = self.scratch.data_dir();
        let server = start_in(&variables, &["serve", &data_dir, "--listen=127.0.0.1:0"]);
        server.base_url();
        server
    }

    /// Dumps a partition, checks the dump, and returns it.
    fn dump(&self, partition: &str) -> String {
        let file = self.scratch.arg("dump.jsonl");
        self.run(&["dump", &file, "--force", "--partition", partition])
            .ok();
        let verified = self.run(&["verify", "--dump", &file]).ok().stdout;
        verified.assert_has(", 0 differences");
        std::fs::read_to_string(file).expect("the dump")
    }

    fn run(&self, args: &[&str]) -> Finished {
        self.run_in("data", "eu", args)
    }

    /// Opens the partitions, which gives the stores their names.
    fn open(&self) {
        let listed = self.run(&["org", "list"]).ok().stdout;
        listed.assert_has("acme");
    }
}

#[test]
fn organisation_moves_to_a_partition_and_back() {
    let site = Site::new();
    site.open();
    let moved = site.run(&["org", "move", "acme", "--to=eu"]).ok().stdout;
    moved.assert_begins("acme was moved from home to eu: ");
    let again = site.run(&["org", "move", "acme", "--to=eu"]).ok().stdout;
    assert_eq!(again, "acme is in eu\n");
    let listed = site.run(&["org", "list"]).ok().stdout;
    let [header, acme] = &*listed.lines().collect::<Vec<_>>() else {
        panic!("{listed}")
    };
    assert!(header.contains("PARTITION"), "{listed}");
    assert!(acme.contains(" eu "), "{listed}");
    for partition in ["home", "eu"] {
        let verified = site.run(&["verify", "--partition", partition]).ok().stdout;
        verified.assert_has(", 0 differences");
    }

    // What would lose it is refused.
    let alone = ["org", "list", &*site.scratch.data_dir()];
    let alone = knowledge_in(&[], &alone).failed();
    alone.assert_has("name its store in storage.partitions");
    let rekeyed = knowledge_in(&[], &["rekey", &site.scratch.data_dir()]).failed();
    rekeyed.assert_has("several partitions");
    let partition = site.scratch.arg("eu");
    let key = site.scratch.arg("data.key");
    let flags = [
        format!("--data-dir={partition}"),
        format!("--sealing-key-file={key}"),
    ];
    let partition = knowledge_in(&[], &["org", "list", &flags[0], &flags[1]]).failed();
    partition.assert_has("is the partition \"eu\"");

    let back = site.run(&["org", "move", "acme", "--to=home"]).ok().stdout;
    back.assert_begins("acme was moved from eu to home: ");
    knowledge_in(&[], &["org", "list", &site.scratch.data_dir()]).ok();
}

#[test]
fn move_to_a_store_that_is_not_the_partition_changes_nothing() {
    let site = Site::new();
    let unknown = site.run(&["org", "move", "acme", "--to=us"]).failed();
    unknown.assert_has("known partitions: home, eu");
    site.open();
    let mistyped = site.run_in("data", "ue", &["org", "move", "acme", "--to=eu"]);
    let mistyped = mistyped.failed();
    mistyped.assert_has("there is no store in");
    assert!(!site.scratch.path("ue").exists());
    let moved = site.run(&["org", "move", "acme", "--to=home"]).ok().stdout;
    assert_eq!(moved, "acme is in home\n");
    // Nothing takes the place of a partition, even of one without organisations.
    let missing = site.run_in("data", "ue", &["org", "list"]).failed();
    missing.assert_has("check its address");
    assert!(!site.scratch.path("ue").exists());
    let exchanged = site.run_in("eu", "data", &["org", "list"]).failed();
    exchanged.assert_has("the store of the partition");
}

#[test]
fn partition_is_dumped_by_its_name() {
    let site = Site::new();
    site.open();
    site.run(&["org", "move", "acme", "--to=eu"]).ok();
    let has_members = |dump: &str| dump.contains(r#"{"key":"member/"#);
    let server = site.serve();
    let served = ["eu", "home"].map(|name| site.dump(name));
    let unknown = ["dump", &*site.scratch.arg("us.jsonl"), "--partition=us"];
    let expected = "known partitions: home, eu";
    let refused = site.run(&unknown).failed();
    refused.assert_has(expected);
    let verified = site.run(&["verify", "--partition=eu"]).refused();
    verified.assert_has("run `knowledge backup FILE --partition eu`");
    assert_eq!(server.terminate(), 0);

    let [eu, home] = &served;
    assert!(has_members(eu) && !has_members(home), "{eu}\n{home}");
    let closed = ["eu", "home"].map(|name| site.dump(name));
    assert_eq!(closed, served);
    // The store of a partition is not also the one of the command.
    let store = format!("--store=sled:{}", site.scratch.arg("eu"));
    let partitions = site.partitions("eu");
    let variables = [("KNOWLEDGE_STORAGE__PARTITIONS", &*partitions)];
    let file = site.scratch.arg("again.jsonl");
    let refused = knowledge_in(&variables, &["dump", &file, &store]).refused();
    refused.assert_has("--partition NAME");
}
