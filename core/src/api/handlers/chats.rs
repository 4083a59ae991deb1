//! Chats and their messages.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::model::ChatId;

impl Call<'_> {
    pub(super) async fn create_chat(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        let title = body.name("title", self.service.limits());
        let title = body.finish(title)?;
        let made = self
            .service
            .create_chat(credential, self.workspace(), &title)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &made))
    }

    pub(super) async fn list_chats(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_chats(credential, self.workspace(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn chat(&self, credential: &Credential) -> HandlerResult {
        let found = self
            .service
            .chat(credential, self.workspace(), self.chat_id())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn post_chat_message(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("content");
        let content = body.text("content");
        if let Some(content) = &content {
            let bytes_max = self.service.limits().content_bytes_max;
            body.problems().content("content", content, bytes_max);
        }
        let content = body.finish(content)?;
        let written = self
            .service
            .post_chat_message(credential, self.workspace(), self.chat_id(), &content)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &written))
    }

    pub(super) async fn list_chat_messages(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_chat_messages(credential, self.workspace(), self.chat_id(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    fn chat_id(&self) -> ChatId {
        self.id("sessionId")
    }
}
