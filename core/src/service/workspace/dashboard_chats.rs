//! Chats of a dashboard.

use super::chats::RecentChat;
use super::retention::StoredRetention;
use crate::keys;
use crate::limits::PAGE_RECORDS_MAX;
use crate::model::{ChatSummary, OrgId, Timestamp, WorkspaceId};
use crate::service::access::principal::Principal;
use crate::store::{Direction, KeyEntry, RangeRead, StoreError, Transaction, decode_value};

/// Maximum number of chats on the dashboard.
const RECENT_CHATS: usize = 10;
/// Number of chats that are read with everything else.
const CHATS_PREFETCHED: usize = 32;
/// Number of chats that each further read returns, for callers that take part in few.
const CHATS_PER_READ: usize = 500;

/// The newest chats of a workspace that a member takes part in.
pub(super) struct RecentChats {
    /// True if the workspace has a chat that has not expired, whoever takes part in it.
    pub(super) has_any: bool,
    pub(super) shown: Vec<ChatSummary>,
    /// Time at which the first of the chats expires.
    pub(super) expires_at: Option<Timestamp>,
    /// True if no chats had to be read besides those that were prefetched.
    pub(super) is_prefetched: bool,
}

impl RecentChats {
    /// Finds the chats among the newest [`PAGE_RECORDS_MAX`] of the workspace, the first of which
    /// were prefetched.
    ///
    /// Only chats that other members take part in make it read more.
    pub(super) async fn take(
        transaction: &mut Transaction,
        (org, workspace): (OrgId, WorkspaceId),
        prefetched: &[KeyEntry],
        (caller, retention, now): (&Principal, &StoredRetention, Timestamp),
    ) -> Result<Self, StoreError> {
        let mut chats = Self {
            has_any: false,
            shown: Vec::new(),
            expires_at: None,
            is_prefetched: true,
        };
        let mut read = chats_read(org, workspace);
        let mut examined = 0;
        let mut further;
        let mut found = prefetched;
        loop {
            examined += found.len();
            for entry in found {
                let chat: RecentChat = decode_value(entry)?;
                if !retention.keeps_chat(chat.last_message_at, now) {
                    continue;
                }
                chats.has_any = true;
                let expires_at = retention.chat_expires_at(chat.last_message_at);
                chats.expires_at = chats.expires_at.into_iter().chain(expires_at).min();
                if chat.exists_for(caller) {
                    chats.shown.push(chat.into());
                }
            }
            let is_full = chats.shown.len() >= RECENT_CHATS || examined >= PAGE_RECORDS_MAX;
            match found.last() {
                Some(last) if !is_full && found.len() == read.limit => {
                    read.range = read.range.before(&last.key);
                    read.limit = CHATS_PER_READ.min(PAGE_RECORDS_MAX - examined);
                }
                _ => break,
            }
            chats.is_prefetched = false;
            further = transaction.scan(&read).await?;
            found = &further;
        }
        chats.shown.truncate(RECENT_CHATS);
        Ok(chats)
    }
}

/// Returns the read of the newest chats of a workspace.
pub(super) fn chats_read(org: OrgId, workspace: WorkspaceId) -> RangeRead {
    RangeRead {
        range: keys::recent_chats(org, workspace),
        limit: CHATS_PREFETCHED,
        direction: Direction::Reverse,
    }
}
