//! The reference, a process of its own: warp with ready responses, and the bare engine.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tower_service::Service;
use warp::{Filter, Reply};

use crate::load::{Call, Target};
use crate::process;
use crate::raw::{self, Raw};
use crate::spec::{Recorded, Spec};

/// First argument of the process.
pub(crate) const ROLE: &str = "reference";

/// Paths of the ready responses.
pub(crate) const DASHBOARD: &str = "/dashboard";
pub(crate) const UPDATE: &str = "/update";
pub(crate) const REPLAY: &str = "/replay";

/// The running process, which dropping kills.
pub(crate) struct Reference {
    process: Child,
    pub(crate) target: Target,
}

/// Work of the engine without the service.
pub(crate) struct Work {
    pub(crate) each_ms: f64,
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
}

impl Reference {
    /// Starts it over a directory with the files of a store.
    pub(crate) fn start(spec: &Path, directory: &Path) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut process = Command::new(program)
            .arg(ROLE)
            .args([spec, directory])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the reference starts");
        let mut address = String::new();
        let output = process.stdout.take().expect("a pipe");
        let read = BufReader::new(output).read_line(&mut address);
        read.expect("the reference prints its address");
        let target = Target {
            address: address.trim().to_owned(),
            id: process.id(),
        };
        Self { process, target }
    }

    /// Commits the large bulk update a number of times, each durable.
    pub(crate) async fn commit_bulk(&self, count: usize) -> Work {
        self.work(format!("/raw/bulk/{count}"), count).await
    }

    /// Commits single updates from many tasks.
    pub(crate) async fn commit_by_tasks(&self, tasks: usize, count: usize) -> Work {
        self.work(format!("/raw/tasks/{tasks}/{count}"), count)
            .await
    }

    /// Loads batches, which are synced once, at the end.
    pub(crate) async fn load_batches(&self, first: usize, count: usize) -> Work {
        self.work(format!("/raw/load/{first}/{count}"), count).await
    }

    async fn work(&self, path: String, count: usize) -> Work {
        let cpu_ms = process::cpu_ms(self.target.id);
        let answer = self.target.send(Call::new(Method::GET, path)).await;
        let seconds: f64 = answer.json().as_f64().expect("a time");
        let count = count as f64;
        Work {
            each_ms: 1e3 * seconds / count,
            per_second: count / seconds,
            cpu_us: 1e3 * (process::cpu_ms(self.target.id) - cpu_ms) / count,
        }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the process until it is killed.
pub(crate) async fn run(spec: &Path, directory: &Path) {
    let spec = Spec::read(spec);
    let raw = Arc::new(Raw::open(spec.engine, directory));
    let routes = warp::service(routes(spec, raw));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    println!("{}", listener.local_addr().expect("an address"));
    std::io::stdout().flush().expect("the pipe is open");
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).expect("an open connection");
        let routes = routes.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let mut routes = routes.clone();
            async move { routes.call(request).await }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

fn routes(
    spec: Spec,
    raw: Arc<Raw>,
) -> impl Filter<Extract = (warp::reply::Response,), Error = Infallible> + Clone + Send + Sync + 'static
{
    let keys: Arc<Vec<Vec<u8>>> =
        Arc::new(spec.dashboard_keys.into_iter().map(|key| key.0).collect());
    let (full, empty) = (ready(spec.dashboard), ready(spec.not_modified));
    let reader = Arc::clone(&raw);
    let dashboard = warp::path!("dashboard")
        .and(warp::header::optional::<String>("if-none-match"))
        .map(move |tag: Option<String>| {
            assert!(reader.read(&keys) > 0, "the keys are stored");
            match tag {
                Some(_) => empty(),
                None => full(),
            }
        });
    let echo = |response: Recorded| {
        let response = ready(response);
        warp::body::bytes().map(move |body: Bytes| {
            assert!(!body.is_empty(), "the request has a body");
            response()
        })
    };
    let update = warp::path!("update").and(echo(spec.update));
    let replay = warp::path!("replay").and(echo(spec.replay));

    let (bulk, store) = (Arc::new(spec.bulk), Arc::clone(&raw));
    let bulk = warp::path!("raw" / "bulk" / usize).then(move |count| {
        let (bulk, store) = (Arc::clone(&bulk), Arc::clone(&store));
        timed_blocking(move || {
            for _ in 0..count {
                store.apply(bulk.iter());
                store.sync();
            }
        })
    });
    let (updates, store) = (Arc::new(spec.updates), Arc::clone(&raw));
    let tasks = warp::path!("raw" / "tasks" / usize / usize).then(move |tasks, count| {
        let (updates, store) = (Arc::clone(&updates), Arc::clone(&store));
        async move {
            let began = Instant::now();
            raw::commit_by_tasks(&store, &updates, tasks, count).await;
            seconds(began)
        }
    });
    let batches = Arc::new(spec.batches);
    let load = warp::path!("raw" / "load" / usize / usize).then(move |first, count| {
        let (batches, store) = (Arc::clone(&batches), Arc::clone(&raw));
        timed_blocking(move || {
            for batch in &batches[first..first + count] {
                store.apply(batch.iter());
            }
            store.sync();
        })
    });
    let missing = warp::any().map(|| http::StatusCode::NOT_FOUND.into_response());
    let ready = dashboard.or(update).unify().or(replay).unify();
    let work = bulk.or(tasks).unify().or(load).unify();
    ready.or(work).unify().or(missing).unify()
}

/// Returns a function that makes a recorded response.
fn ready(recorded: Recorded) -> impl Fn() -> warp::reply::Response + Clone + Send + Sync + 'static {
    let mut response = Response::builder().status(recorded.status);
    for (name, value) in &recorded.headers {
        response = response.header(name, value);
    }
    let response = response.body(()).expect("a response");
    let body = Bytes::from(recorded.body);
    move || {
        let response = response.clone().map(|()| body.clone());
        response.into_response()
    }
}

async fn timed_blocking(work: impl FnOnce() + Send + 'static) -> warp::reply::Response {
    let began = Instant::now();
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("the engine works");
    seconds(began)
}

fn seconds(began: Instant) -> warp::reply::Response {
    warp::reply::json(&began.elapsed().as_secs_f64()).into_response()
}
