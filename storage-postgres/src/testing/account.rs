//! User that runs a server: PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

/// User other than root, for a test program that runs as root.
#[derive(Clone, Debug)]
pub(super) struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// Returns the user `postgres` or `nobody` if this process runs as root.
    ///
    /// # Panics
    /// If the system has neither.
    pub(super) fn needed() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = fs::read_to_string("/etc/passwd").expect("the list of users is readable");
        let find = |name: &str| {
            let user = users
                .lines()
                .find(|line| line.split(':').next() == Some(name))?;
            let mut numbers = user.split(':').skip(2).map(str::parse);
            Some(Self {
                user: numbers.next()?.ok()?,
                group: numbers.next()?.ok()?,
            })
        };
        let found = find("postgres").or_else(|| find("nobody"));
        Some(found.expect("PostgreSQL cannot run as root; create the user postgres"))
    }

    pub(super) fn own(&self, path: &Path) {
        chown(path, Some(self.user), Some(self.group)).expect("root may change the owner");
    }

    /// Returns true if this user may execute a program: may also enter its directory.
    pub(super) fn can_execute(&self, program: &Path) -> bool {
        let mut test = self.command(Path::new("test"));
        let status = test.arg("-x").arg(program).status();
        status.is_ok_and(|status| status.success())
    }

    /// Returns a command that executes a program as this user.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.user))
            .arg(format!("--regid={}", self.group))
            .arg("--clear-groups")
            .arg(program);
        command
    }
}
