//! Messages to inbound webhooks of an organisation that is moved.

use knowledge_core::store::KeyRange;

use super::*;

/// Signed message for an inbound webhook, which ingests a memory.
struct Message {
    path: String,
    secret: String,
}

impl Message {
    fn request(&self, id: &str) -> Request<Bytes> {
        let body = r#"{"memories":[{"title":"Refunds","content":"Above 500 euros two approve."}]}"#;
        let now = Env::system().now().as_millis() / 1_000;
        let signer = standardwebhooks::Webhook::new(&self.secret).unwrap();
        let signature = signer.sign(id, now, body.as_bytes());
        let request = Request::post(&self.path)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", signature.unwrap());
        request.body(Bytes::from(body)).unwrap()
    }
}

impl Site {
    /// Creates an inbound webhook of the organisation that is moved.
    async fn inbound_webhook(&self) -> Message {
        let token = &self.moved.members.owner.token;
        let path = format!("/v1/workspaces/{}/inbound-webhooks", self.moved.main.id);
        let request = Request::post(path)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        let request = request.body(Bytes::from(r#"{"name":"Tickets"}"#)).unwrap();
        let response = self.responder.respond(request).await;
        let created: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        let text = |field: &str| created[field].as_str().unwrap().to_owned();
        Message {
            path: text("url"),
            secret: text("signing_secret"),
        }
    }

    async fn post(&self, responder: &ApiResponder, mut request: Request<Bytes>) -> StatusCode {
        responder.identify(&mut request).await;
        responder.respond(request).await.status()
    }

    /// Moves the organisation, and puts back at home what leaves it after the credentials and the
    /// places of the inbound webhooks.
    async fn move_without_removal(&self) {
        let before = self.stores[HOME].scan_all(&KeyRange::all()).await.unwrap();
        self.move_to("eu").await;
        for entry in before {
            let is_left = self.stores[HOME]
                .get(std::slice::from_ref(&entry.key))
                .await
                .unwrap()[0]
                .is_some();
            let key = entry.key.to_string();
            let leaves_first = ["credential", "inbound_webhook_id/"];
            let leaves_first = leaves_first.iter().any(|family| key.starts_with(family));
            if !is_left && !leaves_first {
                let commit = Commit::builder().put(entry.key, entry.entry.value);
                let put = self.stores[HOME].commit(commit.build().unwrap()).await;
                assert!(matches!(put, Ok(CommitOutcome::Committed(_))));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn signed_message_whose_webhook_has_left_goes_to_the_new_partition() {
    let site = Site::new().await;
    let message = site.inbound_webhook().await;
    let is_ok = |status: StatusCode| status.is_success();
    let sent = site.post(&site.responder, message.request("before"));
    assert!(is_ok(sent.await));
    let home = Partitions::from(service_over(&site.stores[HOME]).await);
    let alone = ApiResponder::over(home, |service| Api::new(service.clone()));
    site.move_without_removal().await;
    site.lookups();
    assert!(is_ok(
        site.post(&site.responder, message.request("after")).await
    ));
    assert_eq!(site.lookups(), 1);
    // The same message at a server that knows no partition.
    assert_eq!(site.post(&alone, message.request("alone")).await, 503);

    let moving = r#"{"slug":"SLUG","partition":"home","moving":{"switching":{"to":"eu"}}}"#;
    site.place(moving).await;
    let other = ApiResponder::over(
        Partitions::open(
            service_over(&site.stores[HOME]).await,
            vec![("eu".to_owned(), service_over(&site.stores["eu"]).await)],
        )
        .await
        .unwrap(),
        |service| Api::new(service.clone()),
    );
    assert_eq!(site.post(&other, message.request("held")).await, 503);
}
