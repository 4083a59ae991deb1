//! Operations as functions: dispatch to the service, and their descriptions.

use super::call::Call;
#[cfg(feature = "openapi")]
use super::descriptions::Descriptions;
#[cfg(feature = "openapi")]
use super::input::SignedHeaders;
use super::input::{Empty, Input, OrgSlug, SubscriptionEndpoint, WebhookEndpoint};
use super::output::{Data, Nothing, Output, Replayable, Revalidated, RevalidatedDashboard};
use super::requests::{
    AssignWorkspaceRoleRequest, NewChatMessage, RecallFilter, RotateMcpKeyRequest, StatusFilter,
    SyncReportRequest,
};
use super::{HandlerResult, erased};
use crate::access::Credential;
use crate::error::Error;
use crate::model::*;
use crate::operation::{Operation, operations};
use crate::service::*;
use crate::store::MaybeSend;

/// Reads the inputs of an operation and calls its function.
macro_rules! call {
    ($call:ident, $credential:ident, $receiver:expr, Signature, $($rest:tt)*) => {
        Err(Error::internal("the operation is not authenticated by a credential"))
    };
    (
        $call:ident, $credential:ident, $receiver:expr, $authentication:ident,
        $function:ident($($argument:ident: $input:ty),* $(; $checked:ty)?) -> $output:ty
    ) => {
        run!(
            $call, $receiver, [$credential],
            $function($($argument: $input),* $(; $checked)?) -> $output
        )
    };
}

/// Reads the inputs of an operation and calls its function with them, after other arguments.
macro_rules! run {
    (
        $call:ident, $receiver:expr, [$($first:expr)?],
        $function:ident($($argument:ident: $input:ty),* $(; $checked:ty)?) -> $output:ty
    ) => {{
        let mut reader = $call.reader();
        $(let $argument = <$input as Input>::read(&mut reader, stringify!($argument))?;)*
        $(<$checked as Input>::read(&mut reader, "")?;)?
        reader.finish()?;
        let result = $receiver.$function($($first,)? $(Input::arg(&$argument)),*).await?;
        Ok(<$output as Output>::respond(result.into(), $call))
    }};
}

pub(super) use run;

/// Returns the owner of an operation's function.
macro_rules! owner {
    ($call:ident) => {
        $call.service
    };
    ($call:ident handler) => {
        $call
    };
}

/// Defines the dispatch from operations to their functions.
macro_rules! dispatch {
    ($($capability:literal {$(
        $(#[doc = $text:literal])+
        $name:ident: $method:ident $path:literal,
            $authentication:ident, $style:ident, $origin:ident, $success:literal, $errors:tt,
            requires $requires:tt, audits $audits:tt, reads $reads:literal $(replays $replay:ident)?,
            $function:ident($($argument:ident: $input:ty),* $(; $checked:ty)?) -> $output:ty
            $(, by $by:ident)? $(, example $example:tt)? $(, links $links:tt)?;
    )+})+) => {
        impl Call<'_> {
            /// Calls the function of the operation.
            #[allow(non_snake_case, reason = "arguments are named like parameters of the path")]
            pub(super) fn dispatch<'c>(
                &'c self,
                operation: Operation,
                credential: &'c Credential,
            ) -> impl Future<Output = HandlerResult> + MaybeSend + 'c {
                erased(async move {
                    match operation {$($(
                        Operation::$name => call!(
                            self, credential, owner!(self $($by)?), $authentication,
                            $function($($argument: $input),* $(; $checked)?) -> $output
                        ),
                    )+)+}
                })
            }
        }

        /// Returns true if a successful response of the operation has an entity tag.
        pub(super) const fn has_etag(operation: Operation) -> bool {
            match operation {$($(
                Operation::$name => <$output as Output>::HAS_ETAG,
            )+)+}
        }
    };
}

operations!(dispatch);

/// Defines the descriptions of the operations.
#[cfg(feature = "openapi")]
macro_rules! describe {
    ($($capability:literal {$(
        #[doc = $summary:literal]
        $(#[doc = $text:literal])*
        $name:ident: $method:ident $path:literal,
            $authentication:ident, $style:ident, $origin:ident, $success:literal,
            [$($status:literal $($code:literal)?),*],
            requires $requires:tt, audits $audits:tt, reads $reads:literal $(replays $replay:ident)?,
            $function:ident($($argument:ident: $input:ty),* $(; $checked:ty)?) -> $output:ty
            $(, by $by:ident)? $(, example $example:tt)?
            $(, links [
                $($target:ident $({$($parameter:ident: $expression:literal),+})?),+ $(,)?
            ])?;
    )+})+) => {
        /// Describes all operations.
        pub(super) fn describe(all: &mut Descriptions) {$($(
            describe_one!(
                all, Operation::$name, [$($text)*], [$($($code)?)*],
                ($($argument: $input),* $(; $checked)?) -> $output
                $(, example $example)? $(, links [$($target $({$($parameter: $expression),+})?),+])?
            );
        )+)+}
    };
}

/// Describes an operation.
#[cfg(feature = "openapi")]
macro_rules! describe_one {
    (
        $all:ident, $operations:ident::$name:ident, [$($text:literal)*], [$($code:literal)*],
        ($($argument:ident: $input:ty),* $(; $checked:ty)?) -> $output:ty
        $(, example $example:tt)?
        $(, links [
            $($target:ident $({$($parameter:ident: $expression:literal),+})?),+ $(,)?
        ])?
    ) => {{
        let mut operation = $all.describe($operations::$name.spec(), &[$($text),*]);
        $(<$input as Input>::describe(&mut operation, stringify!($argument));)*
        $(<$checked as Input>::describe(&mut operation, "");)?
        <$output as Output>::describe(&mut operation);
        $(operation.fails_with($code);)*
        $(operation.example(serde_json::json!($example));)?
        $($(
            let parameters: &[(&str, &str)] = &[$($((stringify!($parameter), $expression)),+)?];
            operation.links_to($operations::$target.spec(), parameters);
        )+)?
    }};
}

#[cfg(feature = "openapi")]
pub(super) use describe_one;

#[cfg(feature = "openapi")]
operations!(describe);
