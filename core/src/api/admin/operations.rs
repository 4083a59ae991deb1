//! Operations as functions: dispatch to them, and their descriptions.

use super::Operator;
use super::credentials::{CredentialView, IssuedCredential};
use super::members::MemberView;
use super::organizations::CreatedOrganization;
use super::requests::{
    EndedRole, KindFilter, MemberName, NewCredential, NewProvisionedMember, RoleAssignment,
    WorkspaceFilter, WorkspaceName,
};
use crate::api::call::Call;
#[cfg(feature = "openapi")]
use crate::api::descriptions::Descriptions;
use crate::api::input::{Empty, Input, OrgSlug};
#[cfg(feature = "openapi")]
use crate::api::operations::describe_one;
use crate::api::operations::run;
use crate::api::output::{Nothing, Output};
use crate::api::requests::StatusFilter;
use crate::api::{HandlerResult, erased};
use crate::model::{
    CredentialId, DashboardSummary, Delivery, DeliveryId, EndpointId, Organization, Source,
    Workspace,
};
use crate::operation::{OperatorOperation, operator_operations};
use crate::service::{
    EndpointSummary, IngestBatch, IngestResult, NewOrganization, NewRetention, NewSource,
    NewWorkspace, Page, PageRequest, RedeliveryReport, Retention,
};
use crate::store::MaybeSend;

/// Defines the dispatch from operations to their functions.
macro_rules! dispatch {
    ($($capability:literal {$(
        $(#[doc = $text:literal])+
        $name:ident: $method:ident $path:literal, $success:literal, $statuses:tt,
            $function:ident($($argument:ident: $input:ty),* $(; $checked:ty)?) -> $output:ty
            $(, example $example:tt)? $(, links $links:tt)?;
    )+})+) => {
        /// Calls the function of the operation.
        pub(super) fn dispatch<'c>(
            call: &'c Call<'c>,
            operation: OperatorOperation,
        ) -> impl Future<Output = HandlerResult> + MaybeSend + 'c {
            let operator = Operator(call.service);
            erased(async move {
                match operation {$($(
                    OperatorOperation::$name => run!(
                        call, operator, [],
                        $function($($argument: $input),* $(; $checked)?) -> $output
                    ),
                )+)+}
            })
        }
    };
}

operator_operations!(dispatch);

/// Defines the descriptions of the operations.
#[cfg(feature = "openapi")]
macro_rules! describe {
    ($($capability:literal {$(
        #[doc = $summary:literal]
        $(#[doc = $text:literal])*
        $name:ident: $method:ident $path:literal, $success:literal,
            [$($status:literal $($code:literal)*),*],
            $function:ident $arguments:tt -> $output:ty
            $(, example $example:tt)? $(, links $links:tt)?;
    )+})+) => {
        /// Describes all operations.
        pub(in crate::api) fn describe(all: &mut Descriptions) {$($(
            describe_one!(
                all, OperatorOperation::$name, [$($text)*], [$($($code)*)*],
                $arguments -> $output $(, example $example)? $(, links $links)?
            );
        )+)+}
    };
}

#[cfg(feature = "openapi")]
operator_operations!(describe);
