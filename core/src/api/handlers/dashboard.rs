//! The dashboard.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::headers;
use crate::api::response::ApiResponse;
use crate::service::WithEtag;

impl Call<'_> {
    pub(super) async fn dashboard_summary(&self, credential: &Credential) -> HandlerResult {
        let WithEtag { value, etag } = self
            .service
            .dashboard_summary(credential, self.workspace())
            .await?;
        let response = if headers::has_current(self.request.headers(), &etag) {
            ApiResponse::empty(StatusCode::NOT_MODIFIED)
        } else {
            ApiResponse::json(StatusCode::OK, &value)
        };
        Ok(response.etag(&etag).revalidated())
    }
}
