//! Members, the roles that they hold, and custom roles.

pub(crate) mod assign;
pub(crate) mod change;
pub(crate) mod invitation;
pub(crate) mod inviter;
pub(crate) mod remove;
pub(crate) mod role_deletion;
pub(crate) mod roles;

use crate::keys;
use crate::model::OrgId;
use crate::service::access::roles::REDIRECTS_MAX;
use crate::service::operation::Prefetch;
use crate::store::RangeRead;

/// Number of custom roles of an organisation that are prefetched.
const ROLES_PREFETCHED: usize = 128;

/// Adds the custom roles of an organisation, and the redirects of deleted ones.
///
/// Operations on members resolve roles that only the records of these members name, and those that
/// change roles or members compare them with the roles of the caller.
pub(crate) fn with_roles(prefetch: Prefetch, org: OrgId) -> Prefetch {
    prefetch
        .and_range(RangeRead::first(keys::roles(org), ROLES_PREFETCHED))
        .and_range(RangeRead::first(keys::role_redirects(org), REDIRECTS_MAX))
}
