//! Operations as functions: dispatch to the service, and their descriptions.

use super::call::Call;
#[cfg(feature = "openapi")]
use super::descriptions::Descriptions;
#[cfg(feature = "openapi")]
use super::input::SignedHeaders;
use super::input::{Empty, Input, OrgSlug, SubscriptionEndpoint, WebhookEndpoint};
use super::output::{
    Data, ErasureResponse, Nothing, Output, Replayable, Revalidated, RevalidatedDashboard,
};
use super::requests::{
    AssignWorkspaceRoleRequest, NewChatMessage, RecallFilter, RotateMcpKeyRequest, StatusFilter,
    SyncReportRequest, WithCreated,
};
use super::response::HandlerResult;
use crate::error::Error;
use crate::model::*;
use crate::operation::{Operation, operations};
use crate::service::*;
use crate::store::MaybeSend;

/// Erases the type of a running operation, so that this crate compiles the operations, and no crate
/// that awaits them does so again: that would be 40 MB of object code in a debug build of each.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn erased<'c>(
    running: impl Future<Output = HandlerResult> + Send + 'c,
) -> crate::store::BoxFuture<'c, HandlerResult> {
    Box::pin(running)
}

/// Keeps the type: a module has one crate that awaits operations, and is 23 kB smaller
/// without the box.
#[cfg(target_arch = "wasm32")]
pub(super) fn erased<'c>(
    running: impl Future<Output = HandlerResult> + 'c,
) -> impl Future<Output = HandlerResult> + 'c {
    running
}

/// Defines the dispatch from the operations of an interface to their functions, and their
/// descriptions.
///
/// `caller` is the type of what calls the functions, `callee` names the arm of [`invoke!`].
macro_rules! functions {
    (
        [$operation:ident $caller:ty, $callee:ident]
        $($capability:literal $defaults:tt {$(
            #[doc = $summary:expr]
            $(#[doc = $text:expr])*
            $name:ident: $method:ident $path:expr, $success:literal,
                [$($status:literal $($code:literal)*),*], $({ $($columns:tt)* },)?
                $($function:ident).+($($argument:ident: $input:ty),* $(; $checked:ty)?)
                -> $output:ty $(, by $by:ident)? $(, example $example:tt)?
                $(, links [
                    $($target:ident $({$($parameter:ident: $expression:literal),+})?),+ $(,)?
                ])?;
        )+})+
    ) => {
        /// Calls the function of the operation with the inputs in the request.
        #[allow(non_snake_case, reason = "arguments are named like parameters of the path")]
        pub(in crate::api) fn dispatch<'c>(
            call: &'c Call<'c>,
            operation: $operation,
            caller: &'c $caller,
        ) -> impl Future<Output = HandlerResult> + MaybeSend + 'c {
            erased(async move {
                match operation {$($(
                    $operation::$name => run!(
                        [$($by)? $callee] call caller
                        $($function).+($($argument: $input),* $(; $checked)?) -> $output
                    ),
                )+)+}
            })
        }

        /// Describes all operations.
        #[cfg(feature = "openapi")]
        pub(in crate::api) fn describe(all: &mut Descriptions) {$($(
            let mut operation = all.describe($operation::$name.spec(), &[$($text),*]);
            $(<$input as Input>::describe(&mut operation, stringify!($argument));)*
            $(<$checked as Input>::describe(&mut operation, "");)?
            <$output as Output>::describe(&mut operation);
            $($(operation.fails_with($code);)*)*
            $(operation.example(serde_json::json!($example));)?
            $($(
                let parameters: &[(&str, &str)] =
                    &[$($((stringify!($parameter), $expression)),+)?];
                operation.links_to($operation::$target.spec(), parameters);
            )+)?
        )+)+}
    };
}

/// Reads the inputs of an operation and calls its function.
macro_rules! run {
    ([signature $callee:ident] $($rest:tt)*) => {
        Err(Error::internal("the operation is not authenticated by a credential"))
    };
    (
        $callee:tt $call:ident $caller:ident
        $($function:ident).+($($argument:ident: $input:ty),* $(; $checked:ty)?) -> $output:ty
    ) => {{
        let mut reader = $call.reader();
        $(let $argument = <$input as Input>::read(&mut reader, stringify!($argument))?;)*
        $(<$checked as Input>::read(&mut reader, "")?;)?
        reader.finish()?;
        let result = invoke!($callee $call $caller $($function).+($($argument),*)).await?;
        Ok(<$output as Output>::respond(result.into(), $call))
    }};
}

/// Calls a function of a view of the service, of `handlers`, or of the operator.
macro_rules! invoke {
    ([service] $call:ident $caller:ident $view:ident.$function:ident($($argument:ident),*)) => {
        $call.service.$view().$function($caller, $(Input::arg(&$argument)),*)
    };
    ([handler service] $call:ident $caller:ident $function:ident($($argument:ident),*)) => {
        $call.$function($caller, $(Input::arg(&$argument)),*)
    };
    ([operator] $call:ident $caller:ident $function:ident($($argument:ident),*)) => {
        $caller.$function($(Input::arg(&$argument)),*)
    };
}

pub(super) use {functions, invoke, run};

operations!(functions Operation Caller, service);
