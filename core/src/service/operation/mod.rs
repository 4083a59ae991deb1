//! Shell of every operation: authenticates the caller, authorises it, and audits what it changes.
//!
//! An operation starts [`Unauthenticated`]; its caller becomes [`Authenticated`] and then
//! [`Authorized`], and only an authorised operation ends in a commit. What the operation is known
//! to read (its [`Prefetch`]) is read together with what the authorisation reads, so that most
//! operations take one read of the store. The first one of a credential takes two, because its
//! record leads to the member, and one more if the member has a custom role or the credential
//! depends on another.
//!
//! This file has the authorised operation: its permissions, its audit entries and its end.
//! `unauthenticated` has the way to it, `login` the authentication, and `prefetch` the reads that
//! operations announce. `once` and `creation` make operations that create something happen
//! once per idempotency key.

mod authorized;
mod created;
mod creation;
pub(crate) mod idempotency;
pub(crate) mod login;
mod once;
mod prefetch;
mod recognition;
mod unauthenticated;

pub(crate) use self::authorized::Authorized;
pub(crate) use self::login::KnownLogins;
pub(crate) use self::prefetch::Prefetch;
pub(crate) use self::unauthenticated::{Authenticated, Unauthenticated};
