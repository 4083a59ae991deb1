//! The dashboard.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::Handled;
use crate::api::headers;
use crate::api::response::Answer;
use crate::service::Tagged;

impl Call<'_> {
    pub(super) async fn dashboard_summary(&self, credential: &Credential) -> Handled {
        let Tagged { value, etag } = self
            .service
            .dashboard_summary(credential, self.workspace())
            .await?;
        let answer = if headers::has_current(self.request.headers(), &etag) {
            Answer::empty(StatusCode::NOT_MODIFIED)
        } else {
            Answer::json(StatusCode::OK, &value)
        };
        Ok(answer.etag(&etag).revalidated())
    }
}
