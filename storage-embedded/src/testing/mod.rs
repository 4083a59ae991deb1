//! Test cases that every embedded engine must pass, for the tests of an engine's crate.
//!
//! [`embedded_tests`](crate::embedded_tests) turns each case into a test. Call it in a file of its
//! own in `tests/`:
//!
//! ```text
//! //! Test cases that every embedded engine must pass.
//!
//! knowledge_storage_embedded::embedded_tests!(my_crate::MyEngine);
//! ```
//!
//! | module | subject |
//! | --- | --- |
//! | [`conformance`] | all guarantees of the storage trait |
//! | [`durable_path`] | durability before acknowledgement and visibility |
//! | [`entry_cache`] | reads that need no engine |
//! | [`killed_process`] | processes killed while they write |
//! | [`opening`] | directories with all kinds of content |
//! | [`locking`] | directories with several names, processes and generations |
//! | [`checking`] | inconsistent entries |
//! | [`snapshots`] | states that remain readable while others write |
//! | [`corruption`] | files that were changed, truncated or removed |

pub mod checking;
pub mod conformance;
pub mod corruption;
pub mod durable_path;
pub mod entry_cache;
pub mod killed_process;
pub mod locking;
pub mod opening;
pub mod snapshots;
pub mod support;

/// Turns each case into a test of one engine. Call it once, at the root of a test file.
#[macro_export]
macro_rules! embedded_tests {
    ($engine:ty) => {
        $crate::embedded_cases! { $engine;
            conformance: [
                suite_passes,
                suite_passes_on_one_thread,
            ]
            durable_path: [
                changes_are_hidden_until_their_sync_returns,
                waiting_commits_share_a_sync,
                failed_sync_closes_the_store,
                closed_store_opens_again,
                hung_write_closes_the_store,
                full_disk_rejects_only_commits,
                freed_disk_accepts_commits,
                commit_is_written_if_its_future_is_dropped,
                snapshot_holds_only_synced_commits,
                large_and_small_groups_are_durable,
            ]
            entry_cache: [
                repeated_reads_need_no_engine,
                replaced_entries_are_read_from_the_cache,
                cached_entries_take_their_part_of_the_caches,
            ]
            killed_process: [
                child_that_commits_until_it_is_killed,
                acknowledged_commits_survive_kill_9,
            ]
            opening: [
                store_is_created_and_reopened,
                new_directory_is_private_to_its_owner,
                foreign_directory_is_not_changed,
                file_at_the_path_is_rejected,
                file_system_root_counts_as_empty,
                unfinished_store_is_created_again,
                other_format_is_rejected_with_both_numbers,
                store_of_another_engine_is_rejected,
            ]
            locking: [
                child_that_holds_a_store,
                second_process_is_rejected_with_the_holder,
                second_store_of_the_process_is_rejected,
                lock_without_a_holder_is_retried,
                symlink_opens_the_same_store,
                renamed_store_stays_locked,
                replaced_directory_is_not_opened,
                retired_store_is_rejected_under_any_name,
                close_keeps_the_lock,
                failed_store_cannot_be_closed_cleanly,
            ]
            checking: [
                unclean_store_is_checked_at_the_next_start,
                unchecked_store_is_checked_at_a_later_start,
                inconsistent_entries_fail_a_check,
                inconsistent_entries_fail_the_background_check,
                check_runs_during_writes,
            ]
            snapshots: [
                snapshot_hides_later_commits,
                snapshot_rejects_commits,
                revision_changes_with_the_state,
                invariants_hold_in_every_snapshot,
            ]
            corruption: [
                corrupt_files_are_detected_or_harmless,
                corruption_of_each_file_is_detected_or_harmless,
                older_copy_is_rejected,
                missing_engine_files_are_rejected,
            ]
        }
    };
}

/// Implementation of [`embedded_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! embedded_cases {
    ($engine:ty; $($module:ident: [$($case:ident),* $(,)?])*) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $case() {
                        $crate::testing::support::run(
                            $crate::testing::$module::$case::<$engine>(),
                        );
                    }
                )*
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    /// A case that is missing from the macro would never run.
    #[test]
    fn macro_lists_every_case() {
        let listed = include_str!("mod.rs");
        for source in [
            include_str!("checking.rs"),
            include_str!("conformance.rs"),
            include_str!("corruption.rs"),
            include_str!("durable_path.rs"),
            include_str!("entry_cache.rs"),
            include_str!("killed_process.rs"),
            include_str!("locking.rs"),
            include_str!("opening.rs"),
            include_str!("snapshots.rs"),
        ] {
            let cases: Vec<_> = source
                .split("\npub async fn ")
                .filter_map(|rest| rest.split_once("<E: Engine>() {"))
                .map(|(case, _)| case)
                .filter(|case| !case.contains(char::is_whitespace))
                .collect();
            assert!(!cases.is_empty());
            for case in cases {
                assert!(listed.contains(&format!("    {case},")), "{case}");
            }
        }
    }
}
