//! The HTTP interface behind a front end of your own: hyper, with the middleware of tower.
//!
//! ```sh
//! cargo run -p knowledge-core --example host
//! ```
//!
//! Layers of tower fit around [`Api`], which is a service. In axum, `respond` is the fallback of a
//! router. `knowledge-server` also has what a public server needs: TLS, timeouts, and limits of
//! connections and memory. A copy of this file needs `bytes`, `http`, `http-body-util`, `hyper`,
//! `hyper-util`, `knowledge-core` (features `tokio` and `tower`), `tokio` and `tower`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use knowledge_core::Error;
use knowledge_core::access::CredentialKind;
use knowledge_core::api::Api;
use knowledge_core::env::Env;
use knowledge_core::service::{
    KnowledgeService, NewOrganization, NewOwner, NewToken, NewWorkspace, Options, SealingKey,
};
use knowledge_core::store::MemoryStore;
use tokio::net::TcpListener;
use tower::{Service, ServiceExt};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Address to listen on.
const ADDRESS: &str = "127.0.0.1:8080";
/// Lifetime of the token.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main]
async fn main() -> Result<()> {
    let env = Env::system();
    let options = Options::new(SealingKey::generate(&env));
    let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
    let listener = TcpListener::bind(ADDRESS).await?;
    let token = create_organization(&service).await?;
    println!("curl -H 'Authorization: Bearer {token}' http://{ADDRESS}/v1/workspaces");

    let api = Api::new(service);
    loop {
        let (stream, _) = listener.accept().await?;
        let api = api.clone();
        tokio::spawn(async move {
            let respond = hyper::service::service_fn(move |request| respond(api.clone(), request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), respond);
            if let Err(error) = connection.await {
                eprintln!("connection: {error}");
            }
        });
    }
}

/// Responds to a request, whose body it reads up to the limit of the service.
async fn respond(mut api: Api, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let bytes_max = api.service().limits().body_bytes_max;
    let (head, body) = request.into_parts();
    let response = match Limited::new(body, bytes_max).collect().await {
        Ok(body) => {
            let request = Request::from_parts(head, body.to_bytes());
            api.ready().await?.call(request).await?
        }
        Err(_) => api.reject(
            &head.method,
            &head.uri,
            &Error::PayloadTooLarge { bytes_max },
        ),
    };
    Ok(response.map(Full::new))
}

/// Creates an organisation with a workspace, and returns a token of its owner.
async fn create_organization(service: &KnowledgeService) -> Result<String> {
    let provisioning = service.provisioning();
    let ada = NewOwner::builder().handle("ada").name("Ada").build();
    let acme = NewOrganization::builder()
        .slug("acme")
        .name("Acme")
        .owner(ada)
        .build();
    let (org, ada) = provisioning.create_organization(&acme).await?;
    let support = NewWorkspace::builder()
        .name("Support")
        .slug("support")
        .build();
    provisioning.create_workspace(org.id, &support).await?;
    let token = NewToken::builder()
        .member(ada.id)
        .kind(CredentialKind::Bearer)
        .name("curl")
        .lifetime(LIFETIME)
        .build();
    let issued = provisioning.issue(org.id, &token).await?;
    Ok(issued.secret.expose().to_owned())
}
