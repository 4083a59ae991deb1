//! Bodies, filters and names in requests of the operator.

use std::time::Duration;

use crate::access::{ActionSet, CredentialKind};
#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::limits::{SCOPE_ITEMS_MAX, TEAMS_PER_MEMBER_MAX};
use crate::model::{AudienceLabel, MemberKind};
use crate::request::request;
use crate::request::rules::{
    Actions, Flag, Items, List, Name, Object, Parsed, Seconds, Slug, Text,
};

/// Defines names of records in the path: descriptions and examples.
macro_rules! names {
    ($($(#[$meta:meta])* $name:ident: $description:literal, $example:literal;)+) => {$(
        $(#[$meta])*
        pub(super) struct $name(String);

        impl Input for $name {
            type Arg<'a> = &'a str;

            fn read(request: &mut Reader<'_>, name: &'static str) -> Result<Self, Error> {
                Ok(Self(request.parameter(name).to_owned()))
            }

            fn arg(&self) -> &str {
                &self.0
            }

            #[cfg(feature = "openapi")]
            fn describe(operation: &mut Description<'_>, name: &'static str) {
                operation.slug_parameter(name, $description, $example);
            }
        }
    )+};
}

names! {
    /// Workspace of the path.
    WorkspaceName: "Slug or identifier of the workspace.", "research";
    /// Member of the path.
    MemberName: "Handle or identifier of the member.", "maya";
}

/// Defines filters: the query parameter of each, its type, and the function that reads it.
macro_rules! filters {
    ($(
        $(#[$meta:meta])*
        $name:ident { $(#[$field_meta:meta])* $field:ident: $type:ty, $read:ident }
    )+) => {$(
        $(#[$meta])*
        #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
        pub(super) struct $name {
            $(#[$field_meta])*
            $field: Option<$type>,
        }

        impl Input for $name {
            type Arg<'a> = Option<&'a $type>;

            fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
                let $field = request.query().$read(stringify!($field));
                Ok(Self { $field })
            }

            fn arg(&self) -> Option<&$type> {
                self.$field.as_ref()
            }

            #[cfg(feature = "openapi")]
            fn describe(operation: &mut Description<'_>, _name: &'static str) {
                operation.query::<Self>();
            }
        }
    )+};
}

filters! {
    /// Kind of the credentials that a request is about.
    KindFilter {
        /// Kind of the credentials; both if omitted.
        kind: CredentialKind, parsed
    }
    /// Workspace of the endpoints that a request is about.
    WorkspaceFilter {
        /// Slug or identifier of the workspace; all if omitted.
        workspace: String, text
    }
    /// Workspace in which a role ends. Its absence is reported by the operation.
    EndedRole {
        /// Slug or identifier of the workspace. A role in the organisation can only be replaced.
        #[cfg_attr(feature = "openapi", schemars(required))]
        workspace: String, text
    }
}

request! {
    /// A new member, its role by name.
    pub struct NewProvisionedMember {
        /// Kind; a user if omitted.
        kind: MemberKind as Parsed<MemberKind> = MemberKind::User,
        /// Handle, unique in the organisation.
        handle: String as Slug,
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Role: a built-in one, or the slug or identifier of a custom role.
        role: String as Text,
        /// Teams. Their names have the form of slugs.
        teams: Vec<String> as List<Slug, Items<0, TEAMS_PER_MEMBER_MAX>> = Vec::new(),
    }
}

request! {
    /// Assignment of a role to a member.
    pub struct RoleAssignment {
        /// Role: a built-in one, or the slug or identifier of a custom role.
        role: String as Text,
        /// Slug or identifier of the workspace; the organisation if omitted.
        workspace: Option<String> as Option<Text>,
    }
}

request! {
    /// A new token, session or login link.
    pub struct NewCredential {
        /// Handle or identifier of the member that it authenticates.
        member: String as Text,
        /// Kind: a bearer token, a session or a login link.
        kind: CredentialKind as Parsed<CredentialKind>,
        /// Purpose, 1 to 128 characters.
        name: String as Name,
        /// Lifetime in seconds, at most 400 days, or ten years for a long-lived credential; of a
        /// login link at most a day.
        lifetime ("expires_in_seconds"): Duration as Seconds,
        /// True to accept a lifetime of more than 400 days.
        is_long_lived ("long_lived"): bool as Flag = false,
        /// Scope; unrestricted if omitted. A session and a login link have none.
        scope ("narrowing"): Option<NewScope> as Option<Object<NewScope>>,
    }
}

request! {
    /// Scope of a new token. An omitted field does not restrict it.
    #[derive(Default)]
    pub struct NewScope {
        /// Workspaces that it is valid in, by slug or identifier.
        workspaces: Option<Vec<String>> as Option<List<Text, Items<0, SCOPE_ITEMS_MAX>>>,
        /// Actions that it may be used for, of those that its member has.
        actions: Option<ActionSet> as Option<Actions>,
        /// Audience labels that it covers, of those that cover its member.
        audience: Option<Vec<AudienceLabel>>
            as Option<List<Parsed<AudienceLabel>, Items<0, SCOPE_ITEMS_MAX>>>,
    }
}
