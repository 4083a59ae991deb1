//! The HTTP interface as a service of the tower ecosystem (feature `tower`).

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use super::Api;
use crate::store::BoxFuture;

/// Response in the future; it is `Send` on every target with threads.
type ResponseFuture = BoxFuture<'static, Result<Response<Bytes>, Infallible>>;

/// [`Api::handle`] as a [`Service`], for servers and middleware of the tower ecosystem.
///
/// It is always ready and never fails: an error is a response. It takes whole bodies, so the front
/// end reads them, and limits their size and the number of concurrent requests:
///
/// ```
/// use std::convert::Infallible;
///
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::{BodyExt, Full, Limited};
/// use knowledge_core::{Error, api::Api};
/// use tower::{Service, ServiceExt};
/// # use std::sync::Arc;
/// # use knowledge_core::env::Env;
/// # use knowledge_core::service::{KnowledgeService, Options, SealingKey};
/// # use knowledge_core::store::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let env = Env::system();
/// # let options = Options::new(SealingKey::generate(&env));
/// # let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
/// let api = Api::new(service);
/// let bytes_max = api.service().limits().body_bytes_max;
/// // In axum, the fallback service of a router, with `axum::body::Body` as the type of the bodies.
/// let mut server = tower::service_fn(move |request: Request<Full<Bytes>>| {
///     let mut api = api.clone();
///     async move {
///         let (head, body) = request.into_parts();
///         let response = match Limited::new(body, bytes_max).collect().await {
///             Ok(body) => api.call(Request::from_parts(head, body.to_bytes())).await?,
///             Err(_) => {
///                 api.reject(&head.method, &head.uri, &Error::PayloadTooLarge { bytes_max })
///             }
///         };
///         Ok::<_, Infallible>(response.map(Full::new))
///     }
/// });
///
/// let request = Request::get("/v1/workspaces").body(Full::default())?;
/// assert_eq!(server.ready().await?.call(request).await?.status(), 401);
/// let large = Full::from(vec![b' '; bytes_max + 1]);
/// let request = Request::patch("/v1/memories/bulk").body(large)?;
/// assert_eq!(server.ready().await?.call(request).await?.status(), 413);
/// # Ok(())
/// # }
/// ```
impl Service<Request<Bytes>> for Api {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let api = self.clone();
        // Boxed, because the trait wants the name of the future's type.
        Box::pin(async move { Ok(api.handle(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tower::ServiceExt;

    use super::*;
    use crate::api::MatchedRoute;
    use crate::env::Env;
    use crate::service::{KnowledgeService, Options, SealingKey};
    use crate::store::MemoryStore;

    async fn api() -> Api {
        let env = Env::system();
        let options = Options::new(SealingKey::generate(&env));
        let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options);
        Api::new(service.await.unwrap())
    }

    #[tokio::test]
    async fn tower_service_responds_like_handle() {
        let api = api().await;
        for path in ["/v1/workspaces", "/v1/orgs/acme/custom-roles", "/nowhere"] {
            let request = || Request::get(path).body(Bytes::new()).unwrap();
            let handled = api.handle(request()).await;
            let called = api.clone().oneshot(request()).await.unwrap();
            assert_eq!(called.status(), handled.status());
            assert_eq!(called.body(), handled.body());
            let route = |response: &Response<Bytes>| response.extensions().get().copied();
            assert_eq!(route(&called), route(&handled) as Option<MatchedRoute>);
        }
    }

    #[tokio::test]
    async fn tower_service_runs_in_other_tasks() {
        let request = Request::get("/v1/workspaces").body(Bytes::new()).unwrap();
        let response = tokio::spawn(api().await.call(request)).await.unwrap();
        assert_eq!(response.unwrap().status(), 401);
    }
}
