//! Readers of the entries of each family, from the declarations of the families.

use serde_json::Value;
use uuid::Uuid;

use super::parts::{Parts, agree, value};
use super::{deliveries, memories, operations, tenants, workspaces};
use crate::access::{CredentialRecord, RoleRef, SecretHash};
use crate::keys::{self, Sha256, families, written};
use crate::model::*;
use crate::partition::identity::Identity;
use crate::partition::{Hold, Placement};
use crate::service::Event;
use crate::service::access::created::CreatedRecord;
use crate::service::access::principal::EndedCredential;
use crate::service::audit::pages::AuditPage;
use crate::service::audit::written_in_hour::MemberRefusals;
use crate::service::connectors::types::Connector;
use crate::service::deliveries::{
    DeliveryRef, EndpointState, FanOutCursor, HostPings, RetainedEvent, StoredDelivery,
    UrlConfirmation,
};
use crate::service::erasures::StoredErasure;
use crate::service::inbound::post::ProcessedMessage;
use crate::service::memories::change_log::LoggedChange;
use crate::service::meta::Schema;
use crate::service::operation::idempotency::IdempotencyRecord;
use crate::service::secrets::sealing::SealedRecord;
use crate::service::tasks::ScheduledTask;
use crate::service::tokens::types::ApiToken;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::problem::Expectations;
use crate::service::verify::verifier::Verifier;
use crate::service::workspace::chats::{Chat, ChatMessage};
use crate::service::workspace::mcp_key_types::McpKey;
use crate::service::workspace::retention::{RetentionSweep, StoredRetention};
use crate::store::KeyEntry;

/// Reader of the entries of a family: returns their expectations and counts them in the verifier.
type ReadFamily = fn(&mut Verifier, &KeyEntry, Parts<'_>) -> Expectations;

/// Value of a counter.
type Count = i64;

/// Defines the reader of each family, and the table of them.
macro_rules! define_readers {
    ($(
        $(#[doc = $about:literal])+
        $name:ident $parts:tt => $value:ty
        $(, range $range:ident $leading:tt)*
        $(, parser $parser:ident $last:tt)?
        $(, with $other:ident $of:tt)*
        $(, counted by $counter:ident $counted:tt)*
        $(, checked by $module:ident::$check:ident $given:tt)?;
    )+) => {
        $(reader! {
            $name $parts $value,
            [$($other $of)*] [$($counter $counted)*] [$($module::$check $given)?]
        })+

        /// Readers in the order of [`keys::FAMILIES`].
        pub(super) const READERS: &[ReadFamily] = &[$($name),+];
    };
}

/// Defines the function that reads an entry and returns its expectations.
macro_rules! reader {
    (
        $name:ident($($part:ident: $kind:ty $(as $form:ident)? $(= $($field:ident).+)?),*)
        $value:ty,
        [$($other:ident $of:tt)*]
        [$($counter:ident $counted:tt)*]
        [$($module:ident::$check:ident($($given:ident),*))?]
    ) => {
        #[allow(
            unused_mut,
            unused_variables,
            reason = "not every family uses all parts of its key"
        )]
        fn $name(verifier: &mut Verifier, entry: &KeyEntry, mut parts: Parts<'_>) -> Expectations {
            $(let $part = parts.next::<written!($kind $(as $form)?)>()?;)*
            let value: $value = value(entry)?;
            $($(agree(&$part, &value.$($field).+)?;)?)*
            $(verifier.count(keys::$counter $counted, 1);)*
            let mut expectations = vec![$(Expectation::Exists(keys::$other $of)),*];
            $(expectations.extend($module::$check(verifier, entry, value $(, $given)*)?);)?
            Ok(expectations)
        }
    };
}

families!(define_readers);
