//! A service that is running already.

use std::fs;
use std::path::PathBuf;

use async_trait::async_trait;
use http::{Method, StatusCode};
use knowledge_core::service::AttemptOutcome;
use knowledge_testing::fixture::Fixture;
use serde_json::{Value, json};

use crate::client::Call;
use crate::target::{Deliveries, Service, Settings, Target};

/// A service at an address, as a file describes it.
///
/// The file is a [`Fixture`] in JSON with its `base_url`. A run uses up its organisations, so that
/// each run requires a new one.
///
/// It may have a `dispatch_path` besides. The service then makes deliveries only when
/// `{ "url", "status" }` is posted there: it fans out, and attempts all that are due. Those to this
/// URL get this status, or no response if it is null. Without it, the cases about deliveries fail.
#[derive(Clone, Debug)]
pub struct Address {
    fixture: PathBuf,
}

impl Address {
    /// Creates the target that a file describes; the file is read by the first case.
    pub fn of(fixture: impl Into<PathBuf>) -> Self {
        Self {
            fixture: fixture.into(),
        }
    }
}

#[async_trait(?Send)]
impl Target for Address {
    async fn start(&self, _: &Settings) -> Service {
        let path = self.fixture.display();
        let json = fs::read(&self.fixture).unwrap_or_else(|error| panic!("{path}: {error}"));
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        let dispatch_path = json["dispatch_path"].as_str().map(str::to_owned);
        let fixture: Fixture = serde_json::from_value(json).expect("a fixture");
        let base_url = fixture.base_url.clone();
        let base_url = base_url.expect("a base_url in the fixture");
        let deliveries =
            dispatch_path.map(|path| Box::new(Dispatch { base_url, path }) as Box<dyn Deliveries>);
        Service {
            fixture,
            deliveries,
            has_its_connections: false,
        }
    }
}

/// The path that controls the deliveries of a service.
struct Dispatch {
    base_url: String,
    path: String,
}

#[async_trait(?Send)]
impl Deliveries for Dispatch {
    async fn fan_out(&self) {
        // It fans out before each attempt.
    }

    async fn attempt(&self, url: &str, status: Option<u16>) -> Option<AttemptOutcome> {
        let outcome = json!({ "url": url, "status": status });
        let told = Call::new(Method::POST, &*self.path).json(&outcome);
        let answer = told.send_to(&self.base_url).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT);
        None
    }
}
