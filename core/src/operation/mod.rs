//! Operations of the interface, from one table.

mod operator;
mod table;

use http::Method;

pub(crate) use self::operator::operator_operations;
pub use self::operator::{
    OPERATOR_ERROR_STATUSES, OPERATOR_OPERATIONS, OperatorOperation, OperatorSpec,
};
pub(crate) use self::table::{operations, with_deliveries};

use crate::access::{Action, CredentialKind, PermissionScope, RequiredPermission};
use crate::model::{AuditAction, Quota, ResourceKind};

/// Form of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStyle {
    /// A JSON body with `error`, `message` and `details`.
    Body,
    /// An empty body, with the headers `Error-Code` and `Error-Message`.
    Headers,
}

/// Authentication scheme of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// Access token: `Authorization: Bearer wkt_…`.
    Bearer,
    /// Session: the cookie `service_session=wks_…`.
    Session,
    /// Signature over the body (Standard Webhooks 1.0.0).
    Signature,
}

impl Authentication {
    /// Returns the kind of credential that the scheme uses, if any.
    #[must_use]
    pub const fn credential(self) -> Option<CredentialKind> {
        match self {
            Self::Bearer => Some(CredentialKind::Bearer),
            Self::Session => Some(CredentialKind::Session),
            Self::Signature => None,
        }
    }
}

impl std::fmt::Display for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bearer => "bearer",
            Self::Session => "session",
            Self::Signature => "signature",
        })
    }
}

/// One operation of the interface.
#[derive(Clone, Debug)]
pub struct OperationSpec {
    /// Identifier of the operation.
    pub operation: Operation,
    /// Summary in one sentence.
    pub summary: &'static str,
    /// Capability that the operation belongs to.
    pub capability: &'static str,
    /// HTTP method.
    pub method: Method,
    /// Path template, parameters in braces.
    pub path: &'static str,
    /// Authentication scheme.
    pub authentication: Authentication,
    /// Form of its error responses.
    pub error_style: ErrorStyle,
    /// Status of a successful response.
    pub success: u16,
    /// Statuses of its error responses, besides [`COMMON_ERROR_STATUSES`].
    pub error_statuses: &'static [u16],
    /// Permissions that it requires.
    pub permissions: &'static [RequiredPermission],
    /// Actions under which the audit log records it; empty if it changes nothing that is audited.
    pub audit_actions: &'static [AuditAction],
    /// Maximum number of store reads of a call, for a caller with custom roles and a first page.
    ///
    /// It is the number for a credential that the service has not read before. For another, a read
    /// contains the credential and what it leads to, which saves one or two.
    ///
    /// Not counted are commits, another read for a filter of memories, for labels of other
    /// members, for the custom roles of others on whose behalf something acts, or for the login link
    /// of a person whose role or teams change, further reads for records that do not exist for the
    /// caller, the clean-up after the removal of a member, the steps of an erasure, and two reads
    /// for the first use of a token in an hour.
    pub reads: u8,
    /// Operation that reads what a request with an `Idempotency-Key` created, for the response to its
    /// repetition; `None` for an operation that takes no key, or requires one.
    ///
    /// It requires the permissions of the creating operation then. Its response is the one to the
    /// repetition, except that a new message is read alone, in place of
    /// [`Operation::ListChatMessages`], and a new MCP key or token has a `secret`, which is `null`.
    /// If it is the operation itself, the response to the first request was stored, and is returned
    /// again.
    pub replay: Option<Operation>,
    /// Quotas of the organisation that it uses, besides that of the audit log.
    pub quotas: &'static [Quota],
    /// True if it stores a secret that it seals.
    pub seals_secret: bool,
    /// Kinds of what the parameters of its path identify, in their order, up to the resource that
    /// an entry about its refusal names.
    pub identifies: &'static [ResourceKind],
}

/// Statuses of error responses that every operation has.
pub const COMMON_ERROR_STATUSES: &[u16] = &[401, 403, 413, 415, 429, 500, 503];

/// Statuses of error responses of the operations with a [`replay`](OperationSpec::replay).
const REPLAY_ERROR_STATUSES: &[u16] = &[400, 410, 422];

impl Operation {
    /// Returns true if the operation stores a secret that it seals.
    pub(crate) fn seals_secret(self) -> bool {
        self.spec().seals_secret
    }
}

impl OperationSpec {
    /// Returns true if a successful response has this status: [`success`](Self::success), or `200`
    /// for the dry run of an erasure.
    #[must_use]
    pub fn succeeds_with(&self, status: u16) -> bool {
        let is_dry_run = status == 200 && self.operation == Operation::CreateErasure;
        status == self.success || is_dry_run
    }

    /// Returns true if the operation documents an error response with this status.
    #[must_use]
    pub fn documents(&self, status: u16) -> bool {
        self.all_error_statuses().any(|own| own == status)
    }

    /// Returns the statuses of all its error responses; some may be there twice.
    pub(crate) fn all_error_statuses(&self) -> impl Iterator<Item = u16> {
        let of_replays: &[u16] = match self.replay {
            Some(_) => REPLAY_ERROR_STATUSES,
            None => &[],
        };
        let all = self.error_statuses.iter().chain(of_replays);
        all.chain(COMMON_ERROR_STATUSES).copied()
    }

    /// Returns true if a quota of the organisation limits the operation.
    #[must_use]
    pub fn has_quota(&self) -> bool {
        let mut audited = self.audit_actions.iter();
        !self.quotas.is_empty() || audited.any(|action| action.is_metered())
    }
}

/// Returns a name in Pascal case in camel case.
fn camel_case(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_ascii_lowercase().to_string() + chars.as_str()
    })
}

/// Returns the value of a column, or the default of a row without it.
const fn or<T: Copy>(column: &[T], default: T) -> T {
    match column {
        [value, ..] => *value,
        [] => default,
    }
}

/// Returns the error statuses of a row, without the codes.
macro_rules! statuses {
    ([$($status:literal $($code:literal)*),*]) => {
        &[$($status),*]
    };
}

/// Lists the errors that the statuses of a row stand for, in Markdown.
macro_rules! error_docs {
    ([]) => { "" };
    ([, $($rest:tt)*]) => { error_docs!([$($rest)*]) };
    ([400 $($rest:tt)*]) => { error_docs!("400" InvalidRequest [$($rest)*]) };
    ([403 $($rest:tt)*]) => { error_docs!("403" Forbidden [$($rest)*]) };
    ([404 $($rest:tt)*]) => { error_docs!("404" NotFound [$($rest)*]) };
    ([409 $($rest:tt)*]) => { error_docs!("409" Conflict [$($rest)*]) };
    ([412 $($rest:tt)*]) => { error_docs!("412" PreconditionFailed [$($rest)*]) };
    ([422 $($rest:tt)*]) => { error_docs!("422" IdempotencyKeyReused [$($rest)*]) };
    ([429 "quota_exceeded" $($rest:tt)*]) => { error_docs!([$($rest)*]) };
    ([429 $($rest:tt)*]) => { error_docs!("429" RateLimited [$($rest)*]) };
    (["endpoint_off" $($rest:tt)*]) => { error_docs!("409" EndpointInactive [$($rest)*]) };
    (["forbidden" $($rest:tt)*]) => { error_docs!([$($rest)*]) };
    (["quota_exceeded" $($rest:tt)*]) => { error_docs!("403 or 429" QuotaExceeded [$($rest)*]) };
    (["role_in_use" $($rest:tt)*]) => { error_docs!("409" RoleInUse [$($rest)*]) };
    (["slug_taken" $($rest:tt)*]) => { error_docs!("409" SlugTaken [$($rest)*]) };
    ($status:literal $error:ident $rest:tt) => {
        concat!(
            "\n- [`Error::", stringify!($error), "`](crate::error::Error::", stringify!($error),
            ") ", $status, error_docs!($rest)
        )
    };
}

/// Lists the errors that follow from the columns of a row, in Markdown.
macro_rules! column_errors {
    ({}) => { "" };
    ({ uses $quotas:tt $($columns:tt)* }) => {
        concat!(
            "\n- [`Error::QuotaExceeded`](crate::error::Error::QuotaExceeded) 403",
            column_errors!({ $($columns)* })
        )
    };
    ({ replays $operation:ident $($columns:tt)* }) => {
        concat!(
            "\n- [`Error::IdempotencyKeyReused`](crate::error::Error::IdempotencyKeyReused) 422 ",
            "and [`Error::CreatedResourceGone`](crate::error::Error::CreatedResourceGone) 410, ",
            "of a request with an idempotency key",
            column_errors!({ $($columns)* })
        )
    };
    ({ $column:tt $($columns:tt)* }) => { column_errors!({ $($columns)* }) };
}

/// Defines the enumeration of an interface's operations, and their rows.
///
/// `row` is the macro that completes a row, `permissions` the one that documents its permissions.
macro_rules! declare {
    (
        [$interface:literal $operation:ident $spec:ident $all:ident, $row:ident, $permissions:ident]
        $($capability:literal $defaults:tt {$(
            #[doc = $summary:expr]
            $(#[doc = $text:expr])*
            $name:ident: $method:ident $path:expr, $success:literal,
                $errors:tt, $({ $($columns:tt)* },)?
                $($function:ident).+($($arguments:tt)*) -> $output:ty $(, $marker:ident $value:tt)*;
        )+})+
    ) => {
        #[doc = concat!("An operation of the ", $interface, " interface.")]
        ///
        /// Every operation has further errors, whatever it does: see the statuses that all have.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $operation {$($(
            #[doc = $summary]
            #[doc = ""]
            #[doc = concat!(
                "`", stringify!($method), " ", $path, "`: status ", $success, "."
            )]
            #[doc = $permissions!({ $($($columns)*)? })]
            #[doc = concat!(
                "\nErrors:\n", error_docs!($errors), column_errors!({ $($($columns)*)? }), "\n"
            )]
            $(#[doc = $text])*
            $name,
        )+)+}

        impl $operation {
            /// Returns the row of the operation in the table.
            #[must_use]
            pub fn spec(self) -> &'static $spec {
                &$all[self as usize]
            }

            /// Returns the operation's identifier in the OpenAPI document, such as
            /// `createWebhook`.
            #[must_use]
            pub fn id(self) -> String {
                $crate::operation::camel_case(match self {
                    $($(Self::$name => stringify!($name),)+)+
                })
            }
        }

        #[doc = concat!("All operations of the ", $interface, " interface.")]
        pub const $all: &[$spec] = &[$($($row! {
            $defaults { $($($columns)*)? }
            operation: $operation::$name,
            summary: $summary.trim_ascii(),
            capability: $capability,
            method: Method::$method,
            path: $path,
            success: $success,
            error_statuses: statuses!($errors),
        },)+)+];
    };
}

/// Completes a row of the public interface: adds its columns, or the defaults of its capability.
macro_rules! public_row {
    (
        (
            $authentication:ident, identifies [$($identified:ident),*]
            $(, reads $reads:literal)?
        )
        {
            $(requires [$($scope:ident $action:ident $($when:literal)?),* $(,)?] $(,)?)?
            $(audits [$($audited:ident),*] $(,)?)?
            $(uses [$($quota:ident),*] $(,)?)?
            $(reads $own_reads:literal $(,)?)?
            $(replays $replay:ident $(,)?)?
            $(seals $sealed:ident $(,)?)?
            $(authentication $own_authentication:ident $(,)?)?
            $(errors in $style:ident $(,)?)?
            $(identifies [$($own_identified:ident),*] $(,)?)?
        }
        $($common:tt)*
    ) => { OperationSpec {
        $($common)*
        authentication: or(
            &[$(Authentication::$own_authentication)?],
            Authentication::$authentication,
        ),
        error_style: or(&[$(ErrorStyle::$style)?], ErrorStyle::Body),
        permissions: &[$($(RequiredPermission {
            action: Action::$action,
            scope: PermissionScope::$scope,
            when: concat!($($when)?),
        }),*)?],
        audit_actions: &[$($(AuditAction::$audited),*)?],
        quotas: &[$($(Quota::$quota),*)?],
        reads: or(&[$($own_reads,)? $($reads,)?], 3),
        replay: or(&[$(Some(Operation::$replay))?], None),
        seals_secret: !or(&[$(stringify!($sealed))?], "").is_empty(),
        identifies: or::<&[ResourceKind]>(
            &[$(&[$(ResourceKind::$own_identified),*])?],
            &[$(ResourceKind::$identified),*],
        ),
    } };
}

/// Lists the permissions that a row requires, in Markdown.
macro_rules! public_permissions {
    ({
        requires [$($scope:ident $action:ident $($when:literal)?),* $(,)?] $($columns:tt)*
    }) => {
        concat!("\nRequires:\n" $(,
            "\n- [`Action::", stringify!($action), "`](crate::access::Action::",
            stringify!($action), ") in the scope `", stringify!($scope), "`", $(", ", $when,)? "\n"
        )*)
    };
    ({ $($columns:tt)* }) => {
        "\nRequires no permission."
    };
}

use {column_errors, declare, error_docs, statuses};

operations!(declare "public" Operation OperationSpec OPERATIONS, public_row, public_permissions);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_one_path_share_their_authentication() {
        for a in OPERATIONS {
            for b in OPERATIONS.iter().filter(|b| b.path == a.path) {
                assert_eq!(a.authentication, b.authentication, "{}", a.path);
            }
        }
    }

    #[test]
    fn operation_finds_its_own_row() {
        for spec in OPERATIONS {
            assert_eq!(spec.operation.spec().operation, spec.operation);
        }
    }

    #[test]
    fn row_names_the_kinds_of_its_path() {
        let by_credential =
            |spec: &&OperationSpec| spec.authentication != Authentication::Signature;
        for spec in OPERATIONS.iter().filter(by_credential) {
            let segments: Vec<&str> = spec.path.split('/').collect();
            let mut kinds = spec.identifies.iter();
            for named in segments.windows(2).filter(|pair| pair[1].starts_with('{')) {
                let expected = match kinds.next() {
                    Some(ResourceKind::Memory) => "memories",
                    Some(ResourceKind::Source) => "sources",
                    Some(ResourceKind::Role) => "custom-roles",
                    Some(ResourceKind::Member) => "members",
                    Some(ResourceKind::Subscription) => "citation-subscriptions",
                    Some(ResourceKind::Webhook) => "webhooks",
                    Some(ResourceKind::InboundWebhook) => "inbound-webhooks",
                    Some(ResourceKind::Connector) => "connectors",
                    Some(ResourceKind::Credential) if spec.path.contains("/tokens/") => "tokens",
                    Some(ResourceKind::Credential) => "mcp-keys",
                    Some(ResourceKind::Chat) => "chats",
                    Some(ResourceKind::Recall) => "recalls",
                    Some(ResourceKind::Erasure) => "erasures",
                    Some(ResourceKind::Organization) => "orgs",
                    Some(ResourceKind::Workspace) => "workspaces",
                    None => match named[0] {
                        "audit-log" | "deliveries" | "workspace-roles" => continue,
                        other => panic!("{}: {other}", spec.path),
                    },
                };
                assert_eq!(named[0], expected, "{}", spec.path);
            }
        }
    }

    #[test]
    fn errors_of_a_row_are_documented() {
        let listed = concat!(
            error_docs!([400, 409 "slug_taken"]),
            column_errors!({ requires [Organization RoleManage], uses [Members], reads 2 })
        );
        let errors: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.strip_prefix("- [`Error::")?.split('`').next())
            .collect();
        assert_eq!(
            errors,
            ["InvalidRequest", "Conflict", "SlugTaken", "QuotaExceeded"]
        );
    }

    #[test]
    fn operation_id_is_camel_case() {
        assert_eq!(Operation::BulkUpdateMemories.id(), "bulkUpdateMemories");
        assert_eq!(
            OPERATIONS[0].summary,
            "Changes attributes of many memories."
        );
    }
}
