//! The rules of access a second time: naive, slow, and read from the documentation.
//!
//! [`Reference`] is parsed from the tables of `docs/reference.md`: the actions of each built-in
//! role, and the actions that each operation requires, found by the words of their condition.
//! [`Access`] applies the rules of its sections *Authorisation* and *Visibility* to sets of names.
//! Nothing here comes from the code that enforces the rules, so that a defect there cannot hide a
//! defect here. `core/tests/authorization` compares the two, and so does the fuzz target
//! `authorization`; the model of the simulation asks here who may do what.
//!
//! ```
//! use knowledge_testing::authorization::{Caller, Directory, Labels, Reference, Use, Verdict};
//!
//! let reference = Reference::read();
//! let directory = Directory::new("acme", &["main"]);
//! let access = reference.access(&directory, Caller::new("vera", "viewer"));
//! let memory = Labels::new("main", "org:acme", "internal", "approved", "olga");
//! assert_eq!(access.verdict(&memory, &Use::Read), Verdict::Everything);
//! assert_eq!(access.verdict(&memory, &Use::Delete), Verdict::Forbidden);
//! let pending = Labels::new("main", "org:acme", "internal", "pending", "olga");
//! assert_eq!(access.verdict(&pending, &Use::Read), Verdict::Unknown);
//! ```

mod compare;
mod facts;
mod probes;
mod reference;
mod rules;
mod site;

pub use self::compare::Extent;
pub use self::facts::{
    Account, Actions, Caller, Change, Directory, Labels, Names, Role, Scope, Use, Verdict, names,
};
pub use self::probes::operations_left_out;
pub use self::reference::Reference;
pub use self::rules::Access;
pub use self::site::{AUDIENCES, Acting, Case, HeldRole, Place, Site};
