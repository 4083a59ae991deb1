//! From the parts of a request to a typed call, and from its result to an answer.

use bytes::Bytes;
use http::{Request, StatusCode};
use serde::Serialize;

use super::Handled;
use super::body::Body;
use super::headers;
use super::response::Answer;
use super::route::{Operation, OperationSpec, Parameters};
use crate::access::{Credential, CredentialKind};
use crate::error::Error;
use crate::model::{
    BulkUpdate, CustomRoleUpdate, MemoryChange, NewCitationSubscription, NewInboundWebhook,
    NewWebhook, RoleActionsUpdate, RoleId, WebhookUrl, WorkspaceId,
};
use crate::service::{CHANGE_RULE, DeleteRole, KnowledgeService, Tagged, check_memory_ids};

/// The envelope of custom roles.
#[derive(Serialize)]
struct Data<T> {
    data: T,
}

/// Whether an error says what is wrong with a request, which can be found before its caller is recognised.
fn is_of_the_request(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidRequest { .. } | Error::IdempotencyKeyRequired | Error::UnsupportedMediaType
    )
}

/// One request on its way.
pub(super) struct Call<'c> {
    pub(super) service: &'c KnowledgeService,
    pub(super) spec: &'static OperationSpec,
    pub(super) parameters: &'c Parameters,
    pub(super) request: &'c Request<Bytes>,
}

impl Call<'_> {
    pub(super) async fn answer(&self) -> Handled {
        let bytes_max = self.service.limits().body_bytes_max;
        if self.request.body().len() > bytes_max {
            return Err(Error::PayloadTooLarge { bytes_max });
        }
        let credential = headers::credential(self.request.headers(), self.spec.credential)?;
        if self.spec.credential == CredentialKind::Session {
            headers::refuse_cross_site(self.request.headers(), self.request.method())?;
        }
        match self.carry_out(&credential).await {
            Err(error) if is_of_the_request(&error) => {
                // Who calls comes before what is wrong with the call.
                self.service
                    .authenticate(&credential, self.spec.credential)
                    .await?;
                Err(error)
            }
            Err(Error::Conflict) if !self.spec.has_conflict => {
                Err(Error::unavailable("contention"))
            }
            handled => handled,
        }
    }

    async fn carry_out(&self, credential: &Credential) -> Handled {
        headers::require_json(self.request.headers(), !self.request.body().is_empty())?;
        match self.spec.operation {
            Operation::BulkUpdateMemories => self.bulk_update(credential).await,
            Operation::GetDashboardSummary => self.dashboard_summary(credential).await,
            Operation::DeleteCustomRole => self.delete_custom_role(credential).await,
            Operation::UpdateCustomRole => self.update_custom_role(credential).await,
            Operation::ListCustomRoles => self.list_custom_roles(credential).await,
            Operation::CreateCitationSubscription => {
                self.create_citation_subscription(credential).await
            }
            Operation::CreateWebhook => self.create_webhook(credential).await,
            Operation::CreateInboundWebhook => self.create_inbound_webhook(credential).await,
        }
    }

    async fn bulk_update(&self, credential: &Credential) -> Handled {
        let key = headers::idempotency_key(self.request.headers())?;
        let mut body = Body::parse(self.request.body())?;
        body.require("memoryIds");
        let memory_ids = body.ids("memoryIds");
        if let Some(ids) = &memory_ids {
            check_memory_ids(body.problems(), ids, self.service.limits());
        }
        let change = MemoryChange {
            audience_tag: body.parsed("audienceTag"),
            sensitivity_label: body.parsed("sensitivityLabel"),
            source_id: body.id("sourceId"),
            review_status: body.parsed("reviewStatus"),
        };
        let attributes = [
            "audienceTag",
            "sensitivityLabel",
            "sourceId",
            "reviewStatus",
        ];
        body.require_any(&attributes, CHANGE_RULE);
        let update = body.finish(memory_ids.map(|memory_ids| BulkUpdate { memory_ids, change }))?;
        let result = self.service.bulk_update(credential, &key, &update).await?;
        let answer = Answer::json(StatusCode::OK, &result);
        Ok(if result.replayed {
            answer.replayed()
        } else {
            answer
        })
    }

    async fn dashboard_summary(&self, credential: &Credential) -> Handled {
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

    async fn delete_custom_role(&self, credential: &Credential) -> Handled {
        let mut body = Body::parse_optional(self.request.body())?;
        let request = DeleteRole {
            reassign_to: body.parsed("reassign_to"),
        };
        let request = body.finish(Some(request))?;
        self.service
            .delete_custom_role(credential, self.org_slug(), self.role(), &request)
            .await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    async fn update_custom_role(&self, credential: &Credential) -> Handled {
        let mut body = Body::parse_optional(self.request.body())?;
        let update = CustomRoleUpdate {
            name: body.text("name"),
            slug: body.text("slug"),
            description: body.text("description"),
            base_role: body.parsed("base_role"),
            is_active: body.boolean("is_active"),
            actions: body.object("actions", |actions| RoleActionsUpdate {
                allow: actions.actions("allow"),
                deny: actions.actions("deny"),
            }),
        };
        body.problems().note(update.validate())?;
        let update = body.finish(Some(update))?;
        let if_match = headers::if_match(self.request.headers());
        let (org, role) = (self.org_slug(), self.role());
        let Tagged { value, etag } = self
            .service
            .update_custom_role(credential, org, role, &update, if_match.as_ref())
            .await?;
        Ok(Answer::json(StatusCode::OK, &Data { data: value }).etag(&etag))
    }

    async fn list_custom_roles(&self, credential: &Credential) -> Handled {
        let roles = self
            .service
            .list_custom_roles(credential, self.org_slug())
            .await?;
        Ok(Answer::json(StatusCode::OK, &Data { data: roles }))
    }

    async fn create_citation_subscription(&self, credential: &Credential) -> Handled {
        let mut body = Body::parse(self.request.body())?;
        body.require("recall_id");
        body.require("webhook_url");
        let (recall_id, webhook_url) = (body.id("recall_id"), body.parsed("webhook_url"));
        self.check_url(&mut body, "webhook_url", webhook_url.as_ref())?;
        let request = recall_id.zip(webhook_url);
        let (recall_id, webhook_url) = body.finish(request)?;
        let request = NewCitationSubscription {
            recall_id,
            webhook_url,
        };
        let created = self
            .service
            .create_citation_subscription(credential, &request)
            .await?;
        Ok(Answer::json(StatusCode::CREATED, &created))
    }

    async fn create_webhook(&self, credential: &Credential) -> Handled {
        let mut body = Body::parse(self.request.body())?;
        body.require("event_type");
        body.require("url");
        let (event_type, url) = (body.parsed("event_type"), body.parsed("url"));
        self.check_url(&mut body, "url", url.as_ref())?;
        let (event_type, url) = body.finish(event_type.zip(url))?;
        let request = NewWebhook { event_type, url };
        let created = self
            .service
            .create_webhook(credential, self.workspace(), &request)
            .await?;
        Ok(Answer::json(StatusCode::CREATED, &created))
    }

    async fn create_inbound_webhook(&self, credential: &Credential) -> Handled {
        let mut body = Body::parse(self.request.body())?;
        body.require("name");
        let name = body.text("name");
        if let Some(name) = &name {
            body.problems().name("name", name);
        }
        let request = NewInboundWebhook {
            name: body.finish(name)?,
        };
        let created = self
            .service
            .create_inbound_webhook(credential, self.workspace(), &request)
            .await?;
        Ok(Answer::json(StatusCode::CREATED, &created))
    }

    fn check_url(
        &self,
        body: &mut Body,
        name: &'static str,
        url: Option<&WebhookUrl>,
    ) -> Result<(), Error> {
        match url {
            Some(url) => body
                .problems()
                .note(self.service.check_webhook_url(name, url)),
            None => Ok(()),
        }
    }

    /// The workspace of the path. One that is no UUID is the nil UUID, which no workspace has: it is refused where an
    /// unknown one is, and not before.
    fn workspace(&self) -> WorkspaceId {
        self.parameter("id")
            .parse()
            .unwrap_or(WorkspaceId(uuid::Uuid::nil()))
    }

    /// The role of the path; see [`Call::workspace`].
    fn role(&self) -> RoleId {
        self.parameter("roleId")
            .parse()
            .unwrap_or(RoleId(uuid::Uuid::nil()))
    }

    fn org_slug(&self) -> &str {
        self.parameter("orgSlug")
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }
}
