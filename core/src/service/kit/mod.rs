//! Shared parts of the operations.
//!
//! They are the shell around every operation, the reference monitor of memories, the audit log,
//! pages, idempotency, holds, the outbox, sealing, signing, the turns of calls that conflict and results
//! that have not changed.
