//! Waiting for deliveries that may be due.

use crate::service::Dispatcher;

/// # Signal for the dispatcher
impl Dispatcher<'_> {
    /// Waits for a commit of this service that may have made a delivery due.
    ///
    /// Returns immediately if there was one since the last call returned. A dispatcher that awaits
    /// this between two calls of [`claim`](Self::claim) or [`dispatch`](Self::dispatch) delivers
    /// without delay. It polls in addition: retries become due by time, and commits of other
    /// services over the same store give no signal. If several tasks wait, one of them continues.
    pub async fn deliveries_pending(self) {
        self.service.inner.pending.wait().await;
    }

    /// Returns the number of commits of this service so far that may have added an event to the
    /// outbox.
    ///
    /// If it is the same as before a [`fan_out`](Self::fan_out) that found nothing to do, another
    /// one would do nothing either. Like [`deliveries_pending`](Self::deliveries_pending), it does
    /// not notice commits of other services over the same store.
    #[must_use]
    pub fn outbox_additions(self) -> u64 {
        self.service.inner.pending.outbox_additions()
    }
}
