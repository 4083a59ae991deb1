//! Retention of a workspace, as requests and responses have it.

use serde::{Deserialize, Serialize};

use crate::request::request;
use crate::request::rules::{Flag, Object, RetentionDays};

/// Days after which a recall without a subscription is erased by default.
const RECALL_DAYS_DEFAULT: u64 = 30;

request! {
    /// Days without a change of its title or text after which a memory is deleted, by its
    /// sensitivity label. Memories with a label that is not named are kept.
    #[derive(Default)]
    pub struct MemoryDays {
        /// Days for public memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        public: Option<u64> as Option<RetentionDays>,
        /// Days for internal memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        internal: Option<u64> as Option<RetentionDays>,
        /// Days for confidential memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        confidential: Option<u64> as Option<RetentionDays>,
        /// Days for restricted memories, 1 to 36,500.
        #[schemars(skip_serializing_if = "Option::is_none")]
        restricted: Option<u64> as Option<RetentionDays>,
    }
}

request! {
    /// New retention of a workspace. Chats and memories that it does not name are kept.
    #[derive(Default)]
    pub struct NewRetention {
        /// Days without a new message after which a chat is erased, 1 to 36,500.
        chat_days: Option<u64> as Option<RetentionDays>,
        /// Days without a change after which a memory is deleted, by its sensitivity label.
        memory_days: Option<MemoryDays> as Option<Object<MemoryDays>>,
        /// Days after which a recall without a citation subscription is erased, 1 to 36,500; 30 by
        /// default.
        recall_days: Option<u64> as Option<RetentionDays>,
        /// False if searches register no recall; `true` by default.
        record_recalls: Option<bool> as Option<Flag>,
    }
}

/// Retention of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Retention {
    /// Days without a new message after which a chat is erased; `null` if chats are kept.
    pub chat_days: Option<u64>,
    /// Days without a change after which a memory is deleted, by its sensitivity label.
    pub memory_days: MemoryDays,
    /// Days after which a recall without a citation subscription is erased.
    pub recall_days: u64,
    /// False if searches register no recall.
    pub record_recalls: bool,
}

impl Default for Retention {
    fn default() -> Self {
        Self::from(&NewRetention::default())
    }
}

impl From<&NewRetention> for Retention {
    fn from(new: &NewRetention) -> Self {
        Self {
            chat_days: new.chat_days,
            memory_days: new.memory_days.clone().unwrap_or_default(),
            recall_days: new.recall_days.unwrap_or(RECALL_DAYS_DEFAULT),
            record_recalls: new.record_recalls.unwrap_or(true),
        }
    }
}
