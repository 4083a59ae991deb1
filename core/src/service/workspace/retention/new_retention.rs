//! Retention of a workspace, as requests and responses have it.

use serde::{Deserialize, Serialize};

use crate::request::request;
use crate::request::rules::{Object, RetentionDays};

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
    /// New retention of a workspace. What it does not name is kept.
    #[derive(Default)]
    pub struct NewRetention {
        /// Days without a new message after which a chat is erased, 1 to 36,500.
        chat_days: Option<u64> as Option<RetentionDays>,
        /// Days without a change after which a memory is deleted, by its sensitivity label.
        memory_days: Option<MemoryDays> as Option<Object<MemoryDays>>,
    }
}

/// Retention of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Retention {
    /// Days without a new message after which a chat is erased; `null` if chats are kept.
    pub chat_days: Option<u64>,
    /// Days without a change after which a memory is deleted, by its sensitivity label.
    #[serde(default)]
    pub memory_days: MemoryDays,
}

impl From<&NewRetention> for Retention {
    fn from(new: &NewRetention) -> Self {
        Self {
            chat_days: new.chat_days,
            memory_days: new.memory_days.clone().unwrap_or_default(),
        }
    }
}
