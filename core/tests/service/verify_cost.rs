//! Cost of a verification, in entries that it reads.

use knowledge_core::model::EventType;
use knowledge_store::faults::FaultPlan;

use crate::world::World;

/// Deliveries of one moment, whose purges are scheduled for one time.
const DELIVERIES: usize = 400;

#[tokio::test]
async fn tasks_of_one_time_are_read_once_for_each_page() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::MemoryUpdated).await;
    world.announce(&webhook, DELIVERIES).await;
    let served = world.served_with(FaultPlan::none()).await;
    served.probe.take_reads();
    let verified = served.service.verify().await.unwrap();
    assert_eq!(verified.differences, []);
    let (read, entries) = (served.probe.take_reads().count(), verified.entries);
    // Each entry, what it implies about others, and the tasks.
    assert!(
        read as u64 <= 5 * entries,
        "{read} reads of {entries} entries"
    );
}
