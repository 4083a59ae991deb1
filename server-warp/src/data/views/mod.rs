//! Views in SQL on the records of the service, for stores in a database.
//!
//! They are for people and their tools: `knowledge_organization`, `knowledge_workspace`,
//! `knowledge_member`, `knowledge_custom_role`, `knowledge_source`, `knowledge_memory` and
//! `knowledge_audit`. The service itself does not use them.

/// Number of the views; a later release that changes them has a higher one.
pub(super) const NUMBER: u32 = 2;

/// Statements that create the views, or replace those of a lower [`NUMBER`].
///
/// They are for PostgreSQL, over a table `knowledge_entry` with the columns `key` and `value` of the
/// type `bytea`. Secrets are in no view: credentials have hashes only, and what the service has to
/// know is sealed.
pub(super) const SQL: &str = include_str!("views.sql");

#[cfg(test)]
mod tests {
    use knowledge_core::internals::keys::FAMILIES;

    use super::SQL;

    #[test]
    fn views_read_whole_families() {
        let mut read = 0;
        for condition in SQL.split("key >= '").skip(1) {
            let family = condition.split('/').next().unwrap();
            let end = format!("key < '{family}0'");
            assert!(condition.contains(&end), "{family}");
            assert!(
                FAMILIES.iter().any(|known| known.name == family),
                "{family}"
            );
            read += 1;
        }
        assert_eq!(read, 7);
    }
}
