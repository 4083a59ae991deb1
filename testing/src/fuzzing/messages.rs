//! Signed messages: whether they are accepted, compared with a second computation of the signature.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue, Method, Request};
use sha2::Sha256;

use super::script::headers_and_body;
use super::world::World;
use crate::requests::HOUR;
use crate::simulation::SimulatedTime;
use knowledge_core::Error;
use knowledge_core::access::Credential;
use knowledge_core::api::Api;
use knowledge_core::model::{NewInboundWebhook, WorkspaceId};
use knowledge_core::service::{Caller, SignedMessage};

/// Maximum difference between the time of a message and its arrival, in milliseconds.
const TOLERANCE_MS: i128 = 5 * 60 * 1_000;
/// Maximum length of an identifier, in characters.
const ID_CHARS_MAX: usize = 255;
/// Header that flips one bit of the signed bytes, by its number.
const FLIP: &str = "flip";

/// Secrets that are valid, newest first.
const VALID: [&str; 2] = ["new", "old"];

/// An inbound webhook, whose secret was rotated twice.
struct Site {
    api: Api,
    time: SimulatedTime,
    path: String,
    /// Secrets by the placeholder of a signature with them.
    secrets: [(&'static str, String); 4],
}

async fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    if let Some(site) = SITE.get() {
        return site;
    }
    let created = create().await.expect("the requests are valid");
    SITE.get_or_init(|| created)
}

async fn create() -> Result<Site, Error> {
    let world = World::new().await;
    let (service, org) = (&world.service, &world.orgs[0]);
    let member = org.callers["owner"].2.parse().expect("an identifier");
    let owner = &Caller::new(Credential::Trusted {
        org: org.id,
        member,
    });
    let workspace: WorkspaceId = org.known["workspaces"][0].parse().expect("an identifier");
    let new = NewInboundWebhook::builder().name("Signed").build();
    let own = service
        .inbound_webhooks()
        .create(owner, workspace, &new)
        .await?;
    let old = service
        .inbound_webhooks()
        .rotate_secret(owner, workspace, own.id)
        .await?;
    // The first secret is not valid afterwards.
    world.time.advance(25 * HOUR);
    let new = service
        .inbound_webhooks()
        .rotate_secret(owner, workspace, own.id)
        .await?;
    let other = org.secrets.values().next().expect("a webhook of the world");
    Ok(Site {
        api: Api::new(world.service.clone()),
        time: world.time,
        path: own.url,
        secrets: [
            ("new", new.signing_secret),
            ("old", old.signing_secret),
            ("ended", own.signing_secret.expect("a new webhook")),
            ("other", other.clone()),
        ],
    })
}

/// A message as it arrives.
#[derive(Default)]
struct Arrived {
    ids: Vec<Vec<u8>>,
    timestamps: Vec<Vec<u8>>,
    signatures: Vec<Vec<u8>>,
    body: Vec<u8>,
}

/// Sends a message, one header per line, to the inbound webhook.
///
/// `now`, with a number of seconds added or subtracted, is a time. The placeholders of
/// [`Site::secrets`] become signatures of the message as it was before [`FLIP`].
pub(super) async fn check(input: &[u8]) {
    let site = site().await;
    let (fields, body) = headers_and_body(input);
    let mut message = Arrived {
        body: body.to_vec(),
        ..Arrived::default()
    };
    let mut flip = None;
    for (name, value) in fields {
        match name.as_str() {
            "webhook-id" => message.ids.push(value.to_vec()),
            "webhook-timestamp" => message.timestamps.push(site.timestamp(value)),
            "webhook-signature" => message.signatures.push(value.to_vec()),
            FLIP => {
                flip = std::str::from_utf8(value)
                    .ok()
                    .and_then(|bit| bit.parse().ok());
            }
            _ => {}
        }
    }
    site.sign(&mut message);
    if let Some(bit) = flip {
        message.flip(bit);
    }
    let Some(mut request) = site.request(&message) else {
        return;
    };
    let expected = site.expected(&message);
    let secrets = VALID.map(|name| site.secret(name).parse().expect("a signing secret"));
    if let Some([id, timestamp, signature]) = message.single() {
        let signed = SignedMessage {
            id,
            timestamp,
            signature,
            body: &message.body,
        };
        let verified = signed.verify(&secrets, site.time.now()).ok();
        assert_eq!(verified, expected, "{signed:?}");
    }
    let is_identifier = |id: &[u8]| {
        let is_allowed = |byte: &u8| byte.is_ascii_graphic() && *byte != b'.';
        (1..=ID_CHARS_MAX).contains(&id.len()) && id.iter().all(is_allowed)
    };
    let is_accepted = expected.is_some() && is_identifier(&message.ids[0]);
    let identified = site.api.identify(&mut request).await;
    assert_eq!(identified.is_some(), is_accepted, "{request:?}");
    let shifted = message.shifted().filter(|_| is_accepted);
    if let Some(mut request) = shifted.and_then(|shifted| site.request(&shifted)) {
        let identified = site.api.identify(&mut request).await;
        assert!(identified.is_none(), "also accepted: {request:?}");
    }
}

impl Arrived {
    /// Returns the headers if each of them was sent once.
    fn single(&self) -> Option<[&[u8]; 3]> {
        match [&*self.ids, &*self.timestamps, &*self.signatures] {
            [[id], [timestamp], [signature]] => Some([id, timestamp, signature]),
            _ => None,
        }
    }

    /// Returns another message with the same signed bytes: its identifier ends with the time of this
    /// one, and its time is the beginning of the body.
    fn shifted(&self) -> Option<Self> {
        let [id, timestamp, signature] = self.single()?;
        let end = self.body.iter().position(|byte| *byte == b'.')?;
        Some(Self {
            ids: vec![[id, timestamp].join(&b'.')],
            timestamps: vec![self.body[..end].to_vec()],
            signatures: vec![signature.to_vec()],
            body: self.body[end + 1..].to_vec(),
        })
    }

    /// Flips a bit of the signed bytes.
    fn flip(&mut self, bit: usize) {
        let signed = self.ids.iter_mut().chain(&mut self.timestamps);
        let mut bytes = signed.flatten().chain(&mut self.body);
        if let Some(byte) = bytes.nth(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

impl Site {
    fn secret(&self, name: &str) -> &str {
        let found = self.secrets.iter().find(|(known, _)| *known == name);
        &found.expect("a known name").1
    }

    /// Returns the time that a header states.
    fn timestamp(&self, text: &[u8]) -> Vec<u8> {
        let shift = text.strip_prefix(b"now").and_then(|shift| match shift {
            b"" => Some(0),
            shift => std::str::from_utf8(shift).ok()?.parse::<i32>().ok(),
        });
        match shift {
            Some(shift) => {
                let seconds = self.time.now().as_seconds() + i64::from(shift);
                seconds.to_string().into_bytes()
            }
            None => text.to_vec(),
        }
    }

    /// Returns a signature of a message, computed without the code that verifies it.
    fn signature(&self, name: &str, message: &Arrived) -> Vec<u8> {
        let first = |sent: &[Vec<u8>]| sent.first().cloned().unwrap_or_default();
        let (id, timestamp) = (first(&message.ids), first(&message.timestamps));
        let secret = STANDARD.decode(self.secret(name).trim_start_matches("whsec_"));
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.expect("base64")).expect("a key");
        mac.update(&[&*id, &timestamp, &message.body].join(&b'.'));
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        format!("v1,{signature}").into_bytes()
    }

    /// Replaces the placeholders of signatures.
    fn sign(&self, message: &mut Arrived) {
        let signed = |words: &Vec<u8>| {
            let words = words.split(|byte| *byte == b' ');
            let words = words.map(|word| {
                let secret = self
                    .secrets
                    .iter()
                    .find(|(name, _)| name.as_bytes() == word);
                secret.map_or_else(|| word.to_vec(), |(name, _)| self.signature(name, message))
            });
            words.collect::<Vec<_>>().join(&b' ')
        };
        message.signatures = message.signatures.iter().map(signed).collect();
    }

    fn request(&self, message: &Arrived) -> Option<Request<Bytes>> {
        let mut headers = HeaderMap::new();
        for (name, values) in [
            ("webhook-id", &message.ids),
            ("webhook-timestamp", &message.timestamps),
            ("webhook-signature", &message.signatures),
        ] {
            for value in values {
                headers.append(name, HeaderValue::from_bytes(value).ok()?);
            }
        }
        let mut request = Request::new(Bytes::from(message.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.parse().expect("a path");
        *request.headers_mut() = headers;
        Some(request)
    }

    /// Returns the number of the valid secret that signed a message of the last five minutes.
    fn expected(&self, message: &Arrived) -> Option<usize> {
        let [_, timestamp, signature] = message.single()?;
        let seconds = std::str::from_utf8(timestamp).ok()?;
        let is_number = seconds.bytes().all(|byte| byte.is_ascii_digit());
        let sent = seconds.parse::<i128>().ok().filter(|_| is_number)?;
        let distance = sent.checked_mul(1_000)? - i128::from(self.time.now().as_millis());
        let has_signed = |name: &&str| {
            let valid = self.signature(name, message);
            signature
                .split(|byte| *byte == b' ')
                .any(|word| word == valid)
        };
        let found = VALID.iter().position(has_signed);
        found.filter(|_| distance.abs() <= TOLERANCE_MS)
    }
}
