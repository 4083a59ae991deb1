//! Members that service accounts act for, as a process remembers them.

use crate::access::MemberRef;
use crate::model::{MemberId, OrgId};
use crate::service::generations::GenerationCache;

/// Maximum number of pairs that a process remembers. One takes some 150 bytes.
const ACTED_FOR_MAX: usize = 16_384;

/// Members that a service account has acted for in this process, for rate limits. A member that is
/// only named must not be counted.
///
/// `None` for one that it may not act for any more.
pub(crate) type ActedFor =
    GenerationCache<(OrgId, MemberId, MemberRef), Option<MemberId>, ACTED_FOR_MAX>;
