//! The tables of the documentation.

use std::collections::BTreeMap;

use super::{Access, Caller, Directory, Names};

const REFERENCE: &str = include_str!("../../../docs/reference.md");

/// Row of the table of the actions that each operation requires.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub(super) operation: String,
    pub(super) action: String,
    pub(super) scope: String,
    pub(super) condition: String,
}

/// The tables of `docs/reference.md` that state who may do what.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Actions of each built-in role.
    pub(super) built_in: BTreeMap<String, Names>,
    pub(super) needs: Vec<Need>,
    /// Sensitivity labels in ascending order.
    pub(super) sensitivities: Vec<String>,
}

/// Returns the cells of the rows of a generated table, the first of which is its header.
fn table(name: &str) -> Vec<Vec<String>> {
    let (_, rest) = REFERENCE
        .split_once(&format!("<!-- table {name} -->"))
        .expect("the documentation has the table");
    let (table, _) = rest.split_once("<!-- end -->").expect("a table ends");
    let rows = table.lines().filter(|line| line.starts_with('|'));
    let rows = rows.filter(|line| !line.starts_with("| ---"));
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

impl Reference {
    /// Reads the tables.
    ///
    /// # Panics
    /// If the documentation does not have one of them.
    #[must_use]
    pub fn read() -> Self {
        let mut roles = table("built-in roles");
        let header = roles.remove(0);
        let mut built_in = BTreeMap::new();
        for (column, role) in header.iter().enumerate().skip(1) {
            let rows = roles.iter().filter(|row| row[column] == "yes");
            let actions: Names = rows.map(|row| row[0].clone()).collect();
            built_in.insert(role.clone(), actions);
        }
        let needs = table("needs").into_iter().skip(1).map(|row| {
            let [operation, action, scope, condition] =
                <[String; 4]>::try_from(row).expect("the table has four columns");
            Need {
                operation,
                action,
                scope,
                condition,
            }
        });
        let enumerations = table("enumerations");
        let mut rows = enumerations.iter();
        let sensitivities = rows.find(|row| row[0].starts_with("sensitivity label"));
        let sensitivities =
            sensitivities.expect("the documentation lists the labels")[1].split('`');
        Self {
            built_in,
            needs: needs.collect(),
            sensitivities: sensitivities
                .filter(|text| !text.starts_with(','))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Returns the names of all actions.
    #[must_use]
    pub fn actions(&self) -> Names {
        self.built_in.values().flatten().cloned().collect()
    }

    /// Returns the rules for a caller in an organisation.
    #[must_use]
    pub fn access<'r>(&'r self, directory: &'r Directory, caller: Caller) -> Access<'r> {
        Access {
            reference: self,
            directory,
            caller,
        }
    }

    /// Returns the action that an operation requires under a condition.
    ///
    /// # Panics
    /// If the table has no such row.
    pub(super) fn action(&self, operation: &str, condition: &str) -> &str {
        let mut rows = self.needs.iter();
        let found = rows.find(|row| row.operation == operation && row.condition == condition);
        let found = found.unwrap_or_else(|| panic!("{operation} has no row “{condition}”"));
        &found.action
    }
}
