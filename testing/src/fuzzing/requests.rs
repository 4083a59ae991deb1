//! Scripts of requests to the HTTP interface, with invariants after each request and at the end.
//!
//! - A response has a documented form and is no server error.
//! - Nothing of the other organisation is in a response, and nothing of it changes.
//! - A rejected request changes nothing, except that a refusal is audited.
//! - A change is audited if the table of operations says so.
//! - A removed member and a revoked key are no longer known.
//! - A repeated message to an inbound webhook has no effect.
//! - At the end, before and after the maintenance, every counter and index agrees with a recount.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, ETAG};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use serde_json::Value;

use super::script::{self, RequestText, Step};
use super::world::{FOREIGN_TEXT, KnownOrg, SLUGS, World};
use crate::requests::{DAY, answered};
use knowledge_core::api::{
    Api, Authentication, MatchedRoute, OPERATIONS, Operation, OperationSpec,
};
use knowledge_core::internals::keys;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{InFlight, SigningSecret};
use knowledge_core::store::Key;

/// Maximum number of steps of a script.
const STEPS_MAX: usize = 24;
/// Maximum number of calls until the maintenance or the fan-out is complete.
const CALLS_MAX: usize = 60;
/// Number of deliveries that one step attempts.
const CLAIMED_MAX: usize = 10;
/// Time for which a message to an inbound webhook is remembered.
const MESSAGE_RETENTION: Duration = DAY.saturating_mul(7);
/// Families of keys that change without an audit entry: they note that a credential was used, and
/// that a message arrived, though it may change nothing.
const UNAUDITED: [&str; 4] = ["credential_use", "due", "inbound_message", "mcp_key_use"];

/// A handled request of a script.
#[derive(Clone, Copy, Debug)]
pub struct Handled {
    /// Operation at its path, if there is one.
    pub operation: Option<Operation>,
    /// Status of the response.
    pub status: StatusCode,
}

/// Runs a script over two small organisations; returns what it requested.
///
/// # Panics
/// If an invariant does not hold.
pub async fn check_requests(script: &[u8]) -> Vec<Handled> {
    let mut run = Run::new(World::new().await);
    let mut handled = Vec::new();
    for step in script::parse(script).into_iter().take(STEPS_MAX) {
        match step {
            Step::Advance(by) => run.world.time.advance(by),
            Step::Maintain => {
                run.maintain().await;
            }
            Step::Deliver(status) => run.deliver(status).await,
            Step::Request(text) => handled.extend(run.request(&text).await),
        }
    }
    run.finish().await;
    handled
}

/// A script in progress.
struct Run {
    world: World,
    api: Api,
    /// Callers that are no longer known, by organisation.
    revoked: BTreeSet<(usize, String)>,
    /// Times at which messages to inbound webhooks were accepted, by path and identifier.
    accepted: BTreeMap<(String, Vec<u8>), Timestamp>,
    /// Text of the requests of the first organisation, which responses may repeat.
    said: String,
}

/// A request to send, and who sends it.
struct Outgoing<'t> {
    org: usize,
    caller: &'t str,
    request: Request<Bytes>,
}

impl Run {
    fn new(world: World) -> Self {
        Self {
            api: Api::new(world.service.clone()),
            world,
            revoked: BTreeSet::new(),
            accepted: BTreeMap::new(),
            said: String::new(),
        }
    }

    async fn request(&mut self, text: &RequestText<'_>) -> Option<Handled> {
        let outgoing = self.outgoing(text)?;
        let (org, caller) = (outgoing.org, outgoing.caller);
        let request = outgoing.request;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if org == 0 {
            self.say(&request);
        }
        let message = request.headers().get("webhook-id").cloned();
        self.world.store.take_changed();
        let response = self.api.handle(request).await;
        let changed = self.world.store.take_changed();
        let status = response.status();
        check_form(&method, &response);
        let spec = spec_of(&method, &response);
        self.check_effects(org, caller, spec, status, &changed);
        if org == 0 {
            self.check_secrecy(&response);
        }
        if let (Some(spec), Some(message)) = (spec, message)
            && spec.authentication == Authentication::Signature
            && status.is_success()
        {
            self.accept(path.clone(), message.as_bytes(), &changed);
        }
        if let Some(spec) = spec.filter(|_| status.is_success()) {
            self.learn(org, spec, &path, &response);
        }
        let operation = spec.map(|spec| spec.operation);
        Some(Handled { operation, status })
    }

    /// Replaces the references of a request, and adds what its caller sends with every request.
    fn outgoing<'t>(&self, text: &RequestText<'t>) -> Option<Outgoing<'t>> {
        let (org, caller) = match text.caller.strip_prefix(SLUGS[1]) {
            Some(caller) => (1, caller.strip_prefix('.')?),
            None => (0, text.caller),
        };
        let (own, other) = (&self.world.orgs[org], &self.world.orgs[1 - org]);
        let resolve = |text: &[u8]| resolve(text, own, other);
        let target = String::from_utf8(resolve(text.target.as_bytes())).ok()?;
        let body = Bytes::from(resolve(text.body));
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some((token, session, _)) = own.callers.get(caller) {
            headers.insert(AUTHORIZATION, value(format!("Bearer {token}").as_bytes())?);
            let cookie = format!("service_session={session}");
            headers.insert(COOKIE, value(cookie.as_bytes())?);
        }
        if caller == "sender" {
            self.sign(&mut headers, own, &target, &body, text)?;
        }
        for (name, text) in &text.headers {
            headers.insert(name.clone(), value(&resolve(text))?);
        }
        let mut request = Request::new(body);
        *request.method_mut() = text.method.clone();
        *request.uri_mut() = target.parse().ok()?;
        *request.headers_mut() = headers;
        Some(Outgoing {
            org,
            caller,
            request,
        })
    }

    /// Signs a message to an inbound webhook, with the identifier of its header.
    fn sign(
        &self,
        headers: &mut HeaderMap,
        own: &KnownOrg,
        target: &str,
        body: &[u8],
        text: &RequestText<'_>,
    ) -> Option<()> {
        let id = text.headers.iter().find(|(name, _)| *name == "webhook-id");
        let id = std::str::from_utf8(id.map_or(&b"msg"[..], |(_, id)| id)).ok()?;
        let now = self.world.time.now();
        let mut secrets = own.secrets.values();
        let secret = own.secrets.get(target).or_else(|| secrets.next())?;
        let secret: SigningSecret = secret.parse().expect("a signing secret");
        let signature = secret.sign(id, now, body);
        headers.insert("webhook-id", value(id.as_bytes())?);
        headers.insert("webhook-timestamp", HeaderValue::from(now.as_seconds()));
        headers.insert("webhook-signature", value(signature.as_bytes())?);
        Some(())
    }

    /// Notes what a caller of the first organisation has said.
    fn say(&mut self, request: &Request<Bytes>) {
        let headers = request.headers().values().map(HeaderValue::as_bytes);
        for part in headers.chain([&**request.body()]) {
            self.said.push_str(&String::from_utf8_lossy(part));
        }
        self.said.push_str(&request.uri().to_string());
    }

    /// Checks that a response has no text of the second organisation that was not said before.
    fn check_secrecy(&self, response: &Response<Bytes>) {
        // What was said in another spelling is not recognised.
        if self.said.contains(['\\', '%']) {
            return;
        }
        let foreign = &self.world.orgs[1];
        let org = foreign.id.to_string();
        let told = String::from_utf8_lossy(response.body());
        for text in foreign.ids().chain([org.as_str(), FOREIGN_TEXT]) {
            let is_secret = || !self.said.contains(text);
            assert!(!(told.contains(text) && is_secret()), "{text} is in {told}");
        }
    }

    fn check_effects(
        &self,
        org: usize,
        caller: &str,
        spec: Option<&OperationSpec>,
        status: StatusCode,
        changed: &[Key],
    ) {
        let other = self.world.orgs[1 - org].id.0.simple().to_string();
        let changed: Vec<String> = changed.iter().map(Key::to_string).collect();
        let foreign = changed.iter().find(|key| key.contains(&other));
        assert_eq!(foreign, None, "another organisation was changed");
        let is_signed = spec.is_some_and(|spec| spec.authentication == Authentication::Signature);
        if status.is_client_error() && status != StatusCode::FORBIDDEN && !is_signed {
            assert!(changed.is_empty(), "{status}, but changed {changed:?}");
        }
        let is_known = self.world.orgs[org].callers.contains_key(caller);
        let is_revoked = self.revoked.contains(&(org, caller.to_owned()));
        if let Some(spec) = spec.filter(|_| (is_revoked || !is_known) && !is_signed) {
            assert_eq!(
                status,
                StatusCode::UNAUTHORIZED,
                "{caller}: {:?}",
                spec.operation
            );
            assert!(changed.is_empty(), "{caller} changed {changed:?}");
        }
        let mut families = changed.iter().map(|key| keys::family_name(key));
        let is_audited = spec.is_some_and(|spec| !spec.audit_actions.is_empty());
        if is_audited
            && status.is_success()
            && families.clone().any(|family| !UNAUDITED.contains(&family))
        {
            assert!(
                families.any(|family| family == "audit"),
                "not audited: {changed:?}"
            );
        }
    }

    /// Notes that a message was accepted, which has no effect if it was before.
    fn accept(&mut self, path: String, message: &[u8], changed: &[Key]) {
        let (now, message) = (self.world.time.now(), (path, message.to_owned()));
        let before = self.accepted.get(&message);
        if before.is_some_and(|before| now < before.plus(MESSAGE_RETENTION)) {
            assert!(
                changed.is_empty(),
                "the repetition of {message:?} had an effect"
            );
        } else {
            self.accepted.insert(message, now);
        }
    }

    /// Notes what a successful response tells, and who is no longer known.
    fn learn(&mut self, org: usize, spec: &OperationSpec, path: &str, response: &Response<Bytes>) {
        let last = |offset| path.rsplit('/').nth(offset).unwrap_or_default();
        let gone = match spec.operation {
            Operation::RemoveMember | Operation::RevokeMcpKey | Operation::EndToken => {
                Some(last(0))
            }
            Operation::RotateMcpKey => Some(last(1)),
            _ => None,
        };
        let own = &mut self.world.orgs[org];
        let callers = own.callers.iter();
        let callers = callers.filter(|(_, (_, _, id))| Some(id.as_str()) == gone);
        self.revoked
            .extend(callers.map(|(caller, _)| (org, caller.clone())));
        if let Some(etag) = response.headers().get(ETAG) {
            own.learn_etag(etag.to_str().unwrap_or_default());
        }
        let mut segments = spec.path.rsplit('/');
        let collection = segments.find(|segment| !segment.starts_with('{'));
        let body = serde_json::from_slice::<Value>(response.body());
        if let (Some(collection), Ok(body)) = (collection, body) {
            own.learn(collection, &body);
        }
    }

    /// Calls the maintenance once; returns true if there is more to do.
    async fn maintain(&self) -> bool {
        let done = self.world.service.maintain(self.world.time.now()).await;
        done.expect("the store works").has_more
    }

    /// Fans out the events, and answers what is due with a status.
    async fn deliver(&self, status: u16) {
        let (service, now) = (&self.world.service, self.world.time.now());
        let nothing = InFlight::default();
        let fanned_out = service.dispatcher().fan_out(now).await;
        fanned_out.expect("the store works");
        let claimed = service.dispatcher().claim(now, CLAIMED_MAX, &nothing).await;
        for delivery in claimed.expect("the store works").deliveries {
            let (lease, attempt) = (&delivery.lease, answered(status));
            let finished = service.dispatcher().finish(now, lease, &attempt).await;
            finished.expect("the store works");
        }
    }

    async fn finish(self) {
        self.verify().await;
        let mut calls = 0;
        while self.maintain().await {
            calls += 1;
            assert!(calls < CALLS_MAX, "the maintenance does not complete");
        }
        let (service, now) = (&self.world.service, self.world.time.now());
        let fan_out = async || service.dispatcher().fan_out(now).await;
        while fan_out().await.expect("the store works").has_more {
            calls += 1;
            assert!(calls < CALLS_MAX, "the fan-out does not complete");
        }
        self.verify().await;
    }

    async fn verify(&self) {
        let verified = self.world.service.verify().await.expect("the store works");
        let differences: Vec<_> = verified
            .differences
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// Replaces references: `@memories.0` is the first known memory, `@other.memories.0` the first one
/// of the other organisation.
fn resolve(text: &[u8], own: &KnownOrg, other: &KnownOrg) -> Vec<u8> {
    let mut parts = text.split(|byte| *byte == b'@');
    let mut resolved = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let is_of_reference =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let end = part.iter().position(|byte| !is_of_reference(byte));
        let (reference, rest) = part.split_at(end.unwrap_or(part.len()));
        let found = std::str::from_utf8(reference).ok().and_then(|reference| {
            let (org, reference) = match reference.strip_prefix("other.") {
                Some(reference) => (other, reference),
                None => (own, reference),
            };
            let (collection, number) = reference.split_once('.')?;
            org.known
                .get(collection)?
                .get(number.parse::<usize>().ok()?)
        });
        match found {
            Some(id) => resolved.extend_from_slice(id.as_bytes()),
            None => resolved.extend([b"@", reference].concat()),
        }
        resolved.extend_from_slice(rest);
    }
    resolved
}

fn value(bytes: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(bytes).ok()
}

/// Returns the operation that a response belongs to.
fn spec_of(method: &Method, response: &Response<Bytes>) -> Option<&'static OperationSpec> {
    let MatchedRoute(path) = response.extensions().get()?;
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    OPERATIONS
        .iter()
        .find(|spec| spec.path == *path && spec.method == *method)
}

/// Checks that a response has a documented form and is no server error.
pub(super) fn check_form(method: &Method, response: &Response<Bytes>) {
    let status = response.status();
    assert!(!status.is_server_error(), "{status}: {:?}", response.body());
    assert!(response.headers().contains_key("request-id"));
    let is_empty = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    if method == Method::HEAD || is_empty {
        assert!(response.body().is_empty());
        return;
    }
    if response.body().is_empty() {
        let is_set = |name| {
            response
                .headers()
                .get(name)
                .is_some_and(|value| !value.is_empty())
        };
        assert!(
            is_set("error-code") && is_set("error-message"),
            "{response:?}"
        );
        return;
    }
    let body: Value = serde_json::from_slice(response.body()).expect("a body is JSON");
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    if status.is_success() {
        assert!(body.is_object());
        return;
    }
    assert!(
        body["error"].is_string() && body["message"].is_string() && body["details"].is_object()
    );
}
