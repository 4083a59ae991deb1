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
use crate::api::operations::{erased, functions, invoke, run};
use crate::api::output::{Nothing, Output};
use crate::api::requests::{StatusFilter, WithCreated};
use crate::api::response::HandlerResult;
use crate::model::{
    CreatedResource, CredentialId, DashboardSummary, Delivery, DeliveryId, EndpointId,
    Organization, Source, Workspace,
};
use crate::operation::{OperatorOperation, operator_operations};
use crate::service::{
    EndpointSummary, IngestBatch, IngestResult, NewOrganization, NewRetention, NewSource,
    NewWorkspace, NewWorkspaceAccess, Page, PageRequest, RedeliveryReport, Retention,
};
use crate::store::MaybeSend;

operator_operations!(functions OperatorOperation Operator<'_>, operator);
