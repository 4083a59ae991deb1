//! The cases that every embedded engine has to pass, for the tests of an engine's crate.
//!
//! [`embedded_tests`](crate::embedded_tests) makes a test of each, and stands alone in a file of `tests/`:
//!
//! ```text
//! //! The cases that every embedded engine has to pass.
//!
//! knowledge_storage_embedded::embedded_tests!(my_crate::MyEngine);
//! ```
//!
//! | module | subject |
//! | --- | --- |
//! | [`conformance`] | every promise of the storage trait |
//! | [`properties`] | the whole service against the plain model |
//! | [`durable_path`] | nothing is answered or read before it is on the disk |
//! | [`killed_process`] | a process that is killed while it writes |
//! | [`opening`] | the owner of a directory, and what is found in it |
//! | [`locking`] | several names, processes and generations of a directory |
//! | [`checking`] | entries that do not add up |
//! | [`snapshots`] | states that stay readable while others write |
//! | [`damage`] | files that were changed, cut off or removed |

pub mod checking;
pub mod conformance;
pub mod damage;
pub mod durable_path;
pub mod killed_process;
pub mod locking;
pub mod opening;
pub mod properties;
pub mod snapshots;
pub mod support;

/// Makes a test of every case, for one engine. It is called at the root of a test file, once.
#[macro_export]
macro_rules! embedded_tests {
    ($engine:ty) => {
        $crate::embedded_cases! { $engine;
            conformance: [
                every_case_passes,
                every_case_passes_on_one_thread,
            ]
            properties: [
                service_matches_the_model,
                service_matches_the_model_over_a_failing_store,
                concurrent_callers_find_one_order,
            ]
            durable_path: [
                changes_are_hidden_until_their_sync_returns,
                waiting_commits_share_a_sync,
                failed_sync_closes_the_store,
                closed_store_opens_again,
                endless_write_closes_the_store,
                full_disk_refuses_only_commits,
                disk_with_room_again_takes_commits,
                commit_is_written_although_nobody_waits,
                snapshot_holds_only_synced_commits,
                large_and_small_groups_are_kept,
            ]
            killed_process: [
                child_that_commits_until_it_is_killed,
                acknowledged_commits_survive_kill_9,
            ]
            opening: [
                store_is_created_and_found_again,
                new_directory_is_its_owners_alone,
                other_files_are_left_alone,
                file_is_no_directory,
                root_of_a_file_system_is_empty_enough,
                unfinished_store_is_created_again,
                newer_format_is_named,
                store_of_another_engine_is_named,
            ]
            locking: [
                child_that_holds_a_store,
                second_process_is_refused_with_the_holder,
                second_store_of_the_process_is_refused,
                unnamed_lock_is_waited_for,
                two_names_are_one_store,
                renamed_store_stays_locked,
                replaced_directory_is_not_opened,
                retired_store_is_refused_under_any_name,
                closing_keeps_the_lock,
                failed_store_does_not_close_cleanly,
            ]
            checking: [
                unclean_end_is_checked_at_the_next_start,
                unchecked_store_is_checked_at_a_later_start,
                wrong_entries_are_found_by_a_check,
                wrong_entries_are_found_after_an_unclean_end,
                check_runs_beside_writers,
            ]
            snapshots: [
                later_commits_are_not_seen,
                commits_are_refused,
                revision_names_the_state,
                invariants_hold_in_every_snapshot,
            ]
            damage: [
                damaged_files_are_found_or_harmless,
                other_files_are_found_or_harmless,
                older_copy_is_refused,
                missing_engine_is_refused,
            ]
        }
    };
}

/// The tests behind [`embedded_tests`].
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
    /// A case that the macro does not list would never run.
    #[test]
    fn macro_lists_every_case() {
        let listed = include_str!("mod.rs");
        for source in [
            include_str!("checking.rs"),
            include_str!("conformance.rs"),
            include_str!("damage.rs"),
            include_str!("durable_path.rs"),
            include_str!("killed_process.rs"),
            include_str!("locking.rs"),
            include_str!("opening.rs"),
            include_str!("properties.rs"),
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
