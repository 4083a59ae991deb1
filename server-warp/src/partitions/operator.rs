//! The operator's interface over all partitions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use knowledge_core::api::AdminApi;
use knowledge_core::limits::Limits;
use knowledge_core::model::OrgId;
use knowledge_core::partition::{HOME, MoveState};
use knowledge_core::service::KnowledgeService;
use knowledge_core::{EntityKind, Error, ProblemCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AT_HOME, Partitions, Place};

/// Path of the organisations.
const ORGS: &str = "/admin/v1/orgs";
/// Time after which a rejected request can be repeated.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between the position of a partition and its own cursor, in the cursor of a list over all.
const CURSOR_DIVIDER: char = '~';

/// The operator's interface, which passes each request to the partition of its organisation.
///
/// Organisations are created at home. A list of organisations goes through one partition after
/// another, and each entry has its [`Location`].
#[derive(Clone, Debug)]
pub struct OperatorApi {
    partitions: Partitions,
    apis: Arc<[AdminApi]>,
}

/// Place of an organisation, in lists over several partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Partition that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Progress of its move, while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<MoveState>,
}

impl From<AdminApi> for OperatorApi {
    /// Creates the interface of a single service.
    fn from(api: AdminApi) -> Self {
        Self {
            partitions: api.service().clone().into(),
            apis: Arc::new([api]),
        }
    }
}

impl From<KnowledgeService> for OperatorApi {
    fn from(service: KnowledgeService) -> Self {
        AdminApi::new(service).into()
    }
}

impl OperatorApi {
    /// Creates the interface of these partitions.
    #[must_use]
    pub fn new(partitions: Partitions) -> Self {
        let apis = partitions.services().iter().cloned().map(AdminApi::new);
        Self {
            apis: apis.collect(),
            partitions,
        }
    }

    /// Returns the limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.partitions.home().limits()
    }

    /// Handles a request, see [`AdminApi::handle`].
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let home = &self.apis[AT_HOME];
        if !self.partitions.is_partitioned() {
            return home.handle(request).await;
        }
        let path = request.uri().path();
        if path == ORGS && request.method() == Method::GET {
            return self.list(request).await;
        }
        let below = path
            .strip_prefix(ORGS)
            .and_then(|path| path.strip_prefix('/'));
        let Some(slug) = below.map(|below| below.split('/').next().unwrap_or(below)) else {
            return home.handle(request).await;
        };
        let is_whole = below == Some(slug);
        let directory = self.partitions.directory();
        let org = match directory.organization(slug).await {
            Ok(Some(org)) => org,
            Ok(None) => return home.handle(request).await,
            Err(error) => return self.reject(error.into()),
        };
        let place = match self.partitions.look_up(org).await {
            Place::Switching => self.partitions.settled(org).await,
            place => place,
        };
        let index = match place {
            Place::At(index) => index,
            place => return self.unavailable(place.reason()),
        };
        let is_deletion = is_whole && request.method() == Method::DELETE;
        if is_deletion {
            match directory.placement(org).await {
                Ok(Some(found)) if found.moving.is_some() => {
                    let message = "is being moved; complete that with `knowledge org move` first";
                    let code = ProblemCode::InvalidValue;
                    return self.reject(Error::invalid("organization", code, message));
                }
                Ok(_) => {}
                Err(error) => return self.reject(error.into()),
            }
        }
        let response = self.apis[index].handle(request).await;
        let is_gone = response.status().is_success() || response.status() == StatusCode::NOT_FOUND;
        if is_deletion
            && is_gone
            && index != AT_HOME
            && let Err(error) = directory.forget(org, self.partitions.name(index)).await
        {
            // The same request again completes it.
            return self.unavailable(&format!(
                "the directory still has the organisation: {error}"
            ));
        }
        response
    }

    /// Returns the response to a request that a front end rejects.
    #[must_use]
    pub fn reject(&self, error: Error) -> Response<Bytes> {
        self.apis[AT_HOME].reject(error)
    }

    fn unavailable(&self, detail: &str) -> Response<Bytes> {
        self.reject(Error::Unavailable {
            retry_after: RETRY_AFTER,
            detail: detail.to_owned(),
        })
    }

    /// Lists the organisations of one partition after another.
    async fn list(&self, request: Request<Bytes>) -> Response<Bytes> {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let mut index = AT_HOME;
        if let Some(at) = pairs.iter().position(|(name, _)| name == "cursor")
            && let Some((position, rest)) = pairs[at].1.split_once(CURSOR_DIVIDER)
            && let Some(found) = position
                .parse()
                .ok()
                .filter(|found| *found < self.apis.len())
        {
            let rest = rest.to_owned();
            index = found;
            if rest.is_empty() {
                pairs.remove(at);
            } else {
                pairs[at].1 = rest;
            }
        }
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish();
        let uri = format!("{ORGS}?{query}");
        let (mut head, body) = request.into_parts();
        match uri.parse() {
            Ok(uri) => head.uri = uri,
            Err(_) => {
                return self.reject(Error::NotFound {
                    kind: EntityKind::Path,
                });
            }
        }
        let response = self.apis[index]
            .handle(Request::from_parts(head, body))
            .await;
        if response.status() != StatusCode::OK {
            return response;
        }
        self.continued(index, response).await
    }

    /// Removes organisations of which a partition has only a copy, adds the [`Location`] of the
    /// others, and turns the cursor into one of the list over all partitions.
    async fn continued(&self, index: usize, response: Response<Bytes>) -> Response<Bytes> {
        let (mut head, body) = response.into_parts();
        let Ok(mut page) = serde_json::from_slice::<Value>(&body) else {
            return Response::from_parts(head, body);
        };
        let placements = match self.partitions.directory().placements().await {
            Ok(placements) => placements,
            Err(error) => return self.reject(error.into()),
        };
        let name = self.partitions.name(index);
        let locate = |org: &mut Value| {
            let id = org["id"].as_str().and_then(|id| id.parse::<OrgId>().ok());
            let found = placements.iter().find(|(org, _)| Some(*org) == id);
            let found = found.map(|(_, placement)| placement);
            let is_here = found.map_or(HOME, |placement| &*placement.partition) == name;
            org["partition"] = name.into();
            if let Some(moving) = found.and_then(|placement| placement.moving.as_ref()) {
                org["moving"] = json!(moving);
            }
            is_here
        };
        if let Some(orgs) = page["data"].as_array_mut() {
            orgs.retain_mut(locate);
        }
        let next = match page["next_cursor"].as_str() {
            Some(next) => Some(format!("{index}{CURSOR_DIVIDER}{next}")),
            None if index + 1 < self.apis.len() => Some(format!("{}{CURSOR_DIVIDER}", index + 1)),
            None => None,
        };
        page["next_cursor"] = next.into();
        head.headers.remove(http::header::CONTENT_LENGTH);
        Response::from_parts(head, Bytes::from(page.to_string()))
    }
}
