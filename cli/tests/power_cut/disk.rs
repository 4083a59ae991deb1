//! A file system in a file, with a power switch.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Size of the file system. The file is sparse, so it occupies only the written part.
const SIZE_BYTES: u64 = 512 * 1024 * 1024;
/// Time that an unmount may wait for a process that was just killed.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// Time between two attempts.
const BUSY_INTERVAL: Duration = Duration::from_millis(10);
/// The directories of programs that a search path may lack.
const SYSTEM_PROGRAMS: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// The program that cuts the power.
///
/// The request `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH` keeps all unsynced data off
/// the image. Every Debian has Perl, and this workspace forbids the `unsafe` that an ioctl is in
/// Rust.
const CUT: &str = r#"
    open(my $root, "<", $ARGV[0]) or die "cannot open $ARGV[0]: $!\n";
    $| = 1;
    print "ready\n";
    <STDIN>;
    my $no_log_flush = pack("L", 2);
    ioctl($root, 0x8004587D, $no_log_flush) or die "cannot shut down $ARGV[0]: $!\n";
    print "cut\n";
"#;

/// A new ext4 file system in an image file, mounted through a loop device until this is dropped.
pub(crate) struct Disk {
    directory: TempDir,
}

impl Disk {
    /// Creates and mounts the file system.
    ///
    /// # Errors
    /// Names the program that failed, and repeats its output.
    pub(crate) fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let disk = Self { directory };
        let image = std::fs::File::create(disk.image());
        let sized = image.and_then(|image| image.set_len(SIZE_BYTES));
        sized.map_err(|error| error.to_string())?;
        std::fs::create_dir(disk.root()).map_err(|error| error.to_string())?;
        let mut mkfs = program("mkfs.ext4");
        run(mkfs
            .args(["-q", "-F", "-O", "has_journal"])
            .arg(disk.image()))?;
        disk.mount()?;
        Ok(disk)
    }

    /// Returns the directory of the mount.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn mount(&self) -> Result<(), String> {
        let mut mount = program("mount");
        run(mount
            .args(["-t", "ext4", "-o", "loop"])
            .arg(self.image())
            .arg(self.root()))
    }

    fn unmount(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match run(program("umount").arg(self.root())) {
                Err(_) if began.elapsed() < BUSY_MAX => thread::sleep(BUSY_INTERVAL),
                unmounted => return unmounted,
            }
        }
    }

    /// Mounts the image again, as a machine does when its power returns: the journal is replayed.
    ///
    /// # Errors
    /// As [`Disk::new`].
    pub(crate) fn remount(&self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    /// Prepares a power cut, so that nothing delays it.
    ///
    /// # Errors
    /// The program that cuts cannot be started, or cannot open the file system.
    pub(crate) fn switch(&self) -> Result<Switch, String> {
        Switch::new(&self.root())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // After a failure the file system may still be in use; it is then unmounted once that ends.
        if self.is_mounted() && self.unmount().is_err() {
            let _ = run(program("umount").arg("--lazy").arg(self.root()));
        }
    }
}

impl Disk {
    fn is_mounted(&self) -> bool {
        let root = self.root();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        mounts
            .lines()
            .any(|mount| mount.split(' ').nth(1).map(Path::new) == Some(&root))
    }
}

/// The power switch of a mounted disk.
pub(crate) struct Switch {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Switch {
    fn new(root: &Path) -> Result<Self, String> {
        let mut process = program("perl")
            .args(["-e", CUT])
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start perl: {error}"))?;
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut switch = Self {
            process,
            input,
            output,
        };
        switch.expect("ready\n")?;
        Ok(switch)
    }

    /// Cuts the power: from here on the disk fails, and unsynced data is lost.
    ///
    /// # Errors
    /// The file system cannot be shut down.
    pub(crate) fn cut(mut self) -> Result<(), String> {
        self.input
            .write_all(b"\n")
            .map_err(|error| format!("cannot cut the power: {error}"))?;
        self.expect("cut\n")
    }

    fn expect(&mut self, expected: &str) -> Result<(), String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(_) if line == expected => Ok(()),
            _ => Err("the power cannot be cut; perl says why".to_owned()),
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a command that runs a system program.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:{SYSTEM_PROGRAMS}"));
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
///
/// # Errors
/// It cannot be started, or fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output = output.map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().replace('\n', " ");
    Err(format!("{name} failed with {}: {said}", output.status))
}
