//! The operator's interface over partitions.

use serde_json::{Value, json};

use super::*;

async fn call(site: &Site, method: &str, path: &str) -> (StatusCode, Value) {
    let api = OperatorApi::new(site.partitions.clone());
    let request = Request::builder().method(method).uri(path);
    let response = api.handle(request.body(Bytes::new()).unwrap()).await;
    let body = serde_json::from_slice(response.body()).unwrap_or_default();
    (response.status(), body)
}

/// Returns the place of the organisation that is moved, and checks that of the other one.
async fn listed(site: &Site) -> (Value, Value) {
    let mut orgs = Vec::new();
    let mut path = "/admin/v1/orgs".to_owned();
    loop {
        let (status, page) = call(site, "GET", &path).await;
        assert_eq!(status, 200, "{page}");
        orgs.extend(page["data"].as_array().expect("a list").clone());
        match page["next_cursor"].as_str() {
            Some(next) => path = format!("/admin/v1/orgs?cursor={next}"),
            None => break,
        }
    }
    assert_eq!(orgs.len(), 2, "{orgs:?}");
    let found = |slug: &str| orgs.iter().find(|org| org["slug"] == *slug).expect(slug);
    let stays = found(&site.stays.slug);
    assert_eq!(
        (&stays["partition"], &stays["moving"]),
        (&json!("home"), &Value::Null)
    );
    let moved = found(&site.moved.slug);
    (moved["partition"].clone(), moved["moving"].clone())
}

#[tokio::test]
async fn organisations_are_listed_with_their_places() {
    let site = Site::new().await;
    assert_eq!(listed(&site).await, (json!("home"), Value::Null));
    site.place(r#"{"slug":"SLUG","partition":"home","moving":{"copying":{"to":"eu"}}}"#)
        .await;
    let moving = json!({ "copying": { "to": "eu" } });
    assert_eq!(listed(&site).await, (json!("home"), moving));
    site.move_to("eu").await;
    assert_eq!(listed(&site).await, (json!("eu"), Value::Null));
}

#[tokio::test]
async fn organisation_is_not_deleted_during_its_move() {
    let site = Site::new().await;
    let path = format!("/admin/v1/orgs/{}", site.moved.slug);
    site.place(r#"{"slug":"SLUG","partition":"home","moving":{"copying":{"to":"eu"}}}"#)
        .await;
    let (status, body) = call(&site, "DELETE", &path).await;
    assert_eq!(status, 400, "{body}");
    let message = body["message"].as_str().expect("a message");
    assert!(message.contains("`knowledge org move`"), "{message}");
    site.move_to("eu").await;
    assert_eq!(call(&site, "DELETE", &path).await.0, 204);
    assert_eq!(call(&site, "DELETE", &path).await.0, 404);
}
