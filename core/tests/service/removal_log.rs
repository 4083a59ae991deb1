//! Tests of what the log says about the removal of an organisation.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use knowledge_core::api::AdminApi;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::make::ACME;
use crate::world::World;

/// A subscriber that keeps events of level info as text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

/// The text of an event.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0.trim_end().to_owned());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn removal_of_an_organization_is_logged() {
    let world = World::new().await;
    world.memories(1).await;
    let lines = Lines::default();
    let logged = tracing::subscriber::set_default(lines.clone());
    let admin = AdminApi::new(world.service.clone());
    let delete = async || {
        let path = format!("/admin/v1/orgs/{ACME}");
        let request = Request::builder().method(Method::DELETE).uri(path);
        let request = request.header("content-type", "application/json");
        admin.handle(request.body(Bytes::new()).unwrap()).await
    };
    let deleted = delete().await;
    assert_eq!(deleted.status(), 204);
    let request = deleted.headers()["request-id"].to_str().unwrap();
    let org = world.org.id;
    let began = format!(
        "message=removal of an organisation began slug={ACME} org={org} request_id={request}"
    );
    let only_began = std::slice::from_ref(&began);
    assert_eq!(*lines.0.lock().unwrap(), only_began);
    assert_eq!(delete().await.status(), 404);
    assert_eq!(*lines.0.lock().unwrap(), only_began, "nothing was removed");
    world.maintain().await;
    let complete = format!("message=removal of an organisation is complete org={org}");
    assert_eq!(*lines.0.lock().unwrap(), [began, complete]);
    drop(logged);
}
