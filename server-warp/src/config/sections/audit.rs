//! `[audit]`: the audit log.

use crate::config::kind::{Text, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "audit",
    about: "Audit log",
    settings: &[Setting::new(
        "audit.reads",
        &Text(field!(audit_reads)),
        "Reads that the audit log records: none, or confidential for those that return the title or \
         the content of a confidential or restricted memory; their answers wait for a commit",
    )],
    check: nothing,
    inspect: nothing,
};
