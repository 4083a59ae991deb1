//! The tables of the documentation.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Actions, Names, Role};

const REFERENCE: &str = include_str!("../../../docs/reference.md");

/// Row of the table of the actions that each operation requires.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub(super) action: &'static str,
    pub(super) scope: &'static str,
    pub(super) condition: &'static str,
}

/// The tables of `docs/reference.md` that state who may do what.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Actions of each built-in role.
    pub(super) built_in: BTreeMap<&'static str, Actions>,
    /// Actions that a service account may take for another member.
    pub(super) for_members: Actions,
    /// What each operation requires, by its name; no entry for one that requires nothing.
    pub(super) needs: BTreeMap<&'static str, Vec<Need>>,
    /// Sensitivity labels in ascending order.
    pub(super) sensitivities: Vec<&'static str>,
    /// All actions.
    all: Actions,
}

static READ: LazyLock<Reference> = LazyLock::new(Reference::parse);

/// Returns the cells of the rows of a generated table, the first of which is its header.
fn table(name: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = REFERENCE
        .split_once(&format!("<!-- table {name} -->"))
        .expect("the documentation has the table");
    let (table, _) = rest.split_once("<!-- end -->").expect("a table ends");
    let rows = table.lines().filter(|line| line.starts_with('|'));
    let rows = rows.filter(|line| !line.starts_with("| ---"));
    let cells = |row: &'static str| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().trim_matches('`')).collect()
    };
    rows.map(cells).collect()
}

impl Reference {
    /// Returns the tables, which are read once.
    ///
    /// # Panics
    /// If the documentation does not have one of them.
    #[must_use]
    pub fn read() -> &'static Self {
        &READ
    }

    fn parse() -> Self {
        let mut roles = table("built-in roles");
        let header = roles.remove(0);
        let mut built_in = BTreeMap::new();
        for (column, role) in header.into_iter().enumerate().skip(1) {
            let rows = roles.iter().filter(|row| row[column] == "yes");
            let actions: Actions = rows.map(|row| row[0]).collect();
            built_in.insert(role, actions);
        }
        let mut needs = BTreeMap::<_, Vec<_>>::new();
        for row in table("needs").into_iter().skip(1) {
            let [operation, action, scope, condition] =
                <[&str; 4]>::try_from(row).expect("the table has four columns");
            let need = Need {
                action,
                scope,
                condition,
            };
            needs.entry(operation).or_default().push(need);
        }
        let enumerations = table("enumerations");
        let mut rows = enumerations.iter();
        let sensitivities = rows.find(|row| row[0].starts_with("sensitivity label"));
        let sensitivities =
            sensitivities.expect("the documentation lists the labels")[1].split('`');
        Self {
            all: roles.iter().map(|row| row[0]).collect(),
            built_in,
            for_members: table("for members")
                .into_iter()
                .skip(1)
                .map(|row| row[0])
                .collect(),
            needs,
            sensitivities: sensitivities
                .filter(|text| !text.starts_with(','))
                .collect(),
        }
    }

    /// Returns the names of all actions.
    #[must_use]
    pub fn actions(&self) -> Names {
        super::names(self.all.iter().copied())
    }

    /// Returns the names of the operations that require an action.
    pub fn operations(&self) -> impl Iterator<Item = &'static str> {
        self.needs.keys().copied()
    }

    /// Returns the actions of a built-in role.
    ///
    /// # Panics
    /// If there is no such role.
    #[must_use]
    pub fn built_in_actions(&self, role: &str) -> &Actions {
        &self.built_in[role]
    }

    /// Returns the actions of a custom role: (base ∪ allow) − deny; without `allow` if it is
    /// inactive.
    ///
    /// # Panics
    /// If there is no such base role.
    #[must_use]
    pub fn custom_actions(&self, role: &Role) -> Actions {
        let base = self.built_in_actions(&role.base);
        let is_added = |action: &str| role.is_active && role.allow.contains(action);
        let actions = self.all.iter().copied();
        actions
            .filter(|action| base.contains(action) || is_added(action))
            .filter(|action| !role.deny.contains(*action))
            .collect()
    }

    /// Returns the action that an operation requires under a condition.
    ///
    /// # Panics
    /// If the table has no such row.
    pub(super) fn action(&self, operation: &str, condition: &str) -> &'static str {
        let mut rows = self.rows(operation).iter();
        let found = rows.find(|row| row.condition == condition);
        found
            .unwrap_or_else(|| panic!("{operation} has no row “{condition}”"))
            .action
    }

    pub(super) fn rows(&self, operation: &str) -> &[Need] {
        self.needs.get(operation).map_or(&[], Vec::as_slice)
    }
}
