//! Removal of workspaces and organisations by the operator.
//!
//! One commit deletes the record, after which nobody can use anything of it: a workspace is among
//! those that the organisation is `removing`, which every decision reads, and an organisation is
//! unknown. Everything else is deleted by maintenance, in steps, each of which is a commit.

mod organization;
mod workspace;
