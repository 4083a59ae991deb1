//! Outputs of operations: the results of their functions, made into responses.

use std::marker::PhantomData;
use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;

use super::call::Call;
#[cfg(feature = "openapi")]
use super::descriptions::Description;
use super::headers;
use super::requests::Schema;
use super::response::ApiResponse;
use crate::model::{BulkResult, CustomRole, ErasurePreview};
#[cfg(feature = "openapi")]
use crate::model::{DashboardSummary, Erasure};
use crate::service::{Dashboard, ErasureResult, WithEtag};

/// A response of an operation.
///
/// Every record that can be serialised is the response to itself.
pub(super) trait Output {
    /// Result of the function, or what it converts to.
    type Result;

    /// Creates the response.
    fn respond(result: Self::Result, call: &Call<'_>) -> ApiResponse;

    /// Describes the response.
    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>);
}

impl<T: Serialize + Schema> Output for T {
    type Result = Self;

    fn respond(result: Self, call: &Call<'_>) -> ApiResponse {
        ApiResponse::json(call.success(), &result)
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        operation.answers::<Self>();
    }
}

/// Response without a body.
pub(super) struct Nothing;

impl Output for Nothing {
    type Result = ();

    fn respond((): (), call: &Call<'_>) -> ApiResponse {
        ApiResponse::empty(call.success())
    }

    #[cfg(feature = "openapi")]
    fn describe(_operation: &mut Description<'_>) {}
}

impl<T: Serialize + Schema> Output for WithEtag<T> {
    type Result = Self;

    fn respond(result: Self, call: &Call<'_>) -> ApiResponse {
        ApiResponse::json(call.success(), &result.value).etag(&result.etag)
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        operation.answers::<T>();
        operation.header("ETag");
    }
}

/// Record that the caller may store and revalidate: `304` if it already has this version.
pub(super) struct Revalidated<T>(PhantomData<T>);

impl<T: Serialize + Schema> Output for Revalidated<T> {
    type Result = WithEtag<T>;

    fn respond(result: WithEtag<T>, call: &Call<'_>) -> ApiResponse {
        let response = || ApiResponse::json(call.success(), &result.value);
        revalidated(call, &result.etag, response)
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        operation.if_none_match();
        <WithEtag<T> as Output>::describe(operation);
    }
}

/// Returns a response with an entity tag, or `304` if the caller has its version.
fn revalidated(call: &Call<'_>, etag: &str, response: impl FnOnce() -> ApiResponse) -> ApiResponse {
    let response = if headers::has_current(call.request.headers(), etag) {
        ApiResponse::empty(StatusCode::NOT_MODIFIED)
    } else {
        response()
    };
    response.etag(etag).revalidated()
}

/// Dashboard summary as [`Revalidated`], whose JSON is written once for many responses.
pub(super) struct RevalidatedDashboard;

impl Output for RevalidatedDashboard {
    type Result = Arc<Dashboard>;

    fn respond(dashboard: Arc<Dashboard>, call: &Call<'_>) -> ApiResponse {
        let response = || ApiResponse::of_json(call.success(), dashboard.json());
        revalidated(call, &dashboard.etag, response)
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        <Revalidated<DashboardSummary> as Output>::describe(operation);
    }
}

/// Envelope of single resources under `/v1/orgs`, and of the list of custom roles.
#[derive(Serialize)]
struct Envelope<T> {
    data: T,
}

/// Record in the field `data`.
pub(super) struct Data<T>(PhantomData<T>);

impl<T: Serialize + Schema> Output for Data<T> {
    type Result = T;

    fn respond(data: T, call: &Call<'_>) -> ApiResponse {
        ApiResponse::json(call.success(), &Envelope { data })
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        operation.answers_data::<T>();
    }
}

impl<T: Serialize + Schema> Output for Data<WithEtag<T>> {
    type Result = WithEtag<T>;

    fn respond(result: WithEtag<T>, call: &Call<'_>) -> ApiResponse {
        <Data<T> as Output>::respond(result.value, call).etag(&result.etag)
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        operation.answers_data::<T>();
        operation.header("ETag");
    }
}

/// Record that an earlier request with the same idempotency key may have created.
pub(super) struct Replayable<T>(PhantomData<T>);

impl Output for Replayable<BulkResult> {
    type Result = BulkResult;

    fn respond(result: BulkResult, call: &Call<'_>) -> ApiResponse {
        let response = ApiResponse::of_json(call.success(), result.to_json());
        if result.replayed {
            response.replayed()
        } else {
            response
        }
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        operation.answers::<BulkResult>();
        operation.header("Idempotent-Replayed");
    }
}

/// Receipt of an erasure that an earlier request may have made, or the preview of a dry run.
pub(super) enum ErasureResponse {
    Receipt(ErasureResult),
    Preview(ErasurePreview),
}

impl Output for ErasureResponse {
    type Result = Self;

    fn respond(result: Self, call: &Call<'_>) -> ApiResponse {
        match result {
            Self::Preview(preview) => ApiResponse::json(StatusCode::OK, &preview),
            Self::Receipt(ErasureResult { erasure, replayed }) => {
                let response = ApiResponse::json(call.success(), &erasure);
                if replayed {
                    response.replayed()
                } else {
                    response
                }
            }
        }
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>) {
        operation.answers::<Erasure>();
        operation.answers_dry_run::<ErasurePreview>();
        operation.header("Idempotent-Replayed");
    }
}

impl From<CustomRole> for WithEtag<CustomRole> {
    fn from(role: CustomRole) -> Self {
        Self::strong(role)
    }
}
