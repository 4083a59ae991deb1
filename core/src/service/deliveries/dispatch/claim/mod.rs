//! Claims: leases of deliveries that are due, in three steps.
//!
//! 1. A [`ClaimPass`] walks through the ready queue and plans claims from endpoints, so that
//!    organisations have their share.
//! 2. An [`EndpointClaim`](endpoint_claim::EndpointClaim) is one transaction: it reads the state of
//!    the endpoint, and postpones an endpoint whose data are corrupt.
//! 3. A [`QueueClaim`](queue_claim::QueueClaim) decides about the entries of the queue.

mod checked_record;
mod claim_batch;
mod claim_pass;
mod claimed_delivery;
mod endpoint_claim;
mod endpoint_transaction;
mod queue_claim;

pub use self::claim_batch::ClaimBatch;
pub(super) use self::claim_pass::{ClaimPass, ClaimTerms};
pub use self::claimed_delivery::ClaimedDelivery;
