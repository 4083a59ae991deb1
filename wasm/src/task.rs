//! Futures as promises.
//!
//! JavaScript calls each step of a future in a `try` block: after a panic it rejects every promise
//! of this module with the panic's message. The callback of a promise that a step awaits takes no
//! step itself: it stores the outcome and requests the next step.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use futures::FutureExt;
use http::Response;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host;

/// A future that reports its outcome to the host.
type Task = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
struct Tasks {
    last: u32,
    waiting: HashMap<u32, Task>,
}

thread_local! {
    static TASKS: RefCell<Tasks> = RefCell::default();
}

/// Stores a future for [`poll`]; returns the number that JavaScript knows it by.
pub(crate) fn spawn(future: impl Future<Output = Result<JsValue, JsValue>> + 'static) -> u32 {
    store(|task| Box::pin(future.map(move |outcome| host::settle(task, outcome))))
}

/// Stores a future that results in a response for [`poll`]; returns its number.
pub(crate) fn spawn_responding(future: impl Future<Output = Response<Bytes>> + 'static) -> u32 {
    store(|task| Box::pin(future.map(move |response| host::respond(task, &response))))
}

fn store(create: impl FnOnce(u32) -> Task) -> u32 {
    TASKS.with_borrow_mut(|tasks| {
        // Numbers repeat after 2^32 tasks; the earlier task has ended by then.
        tasks.last = tasks.last.wrapping_add(1);
        tasks.waiting.insert(tasks.last, create(tasks.last));
        tasks.last
    })
}

/// Runs one step of a task, which reports its outcome to the host once it has ended.
#[wasm_bindgen]
pub fn poll(task: u32) {
    let Some(mut future) = TASKS.with_borrow_mut(|tasks| tasks.waiting.remove(&task)) else {
        return;
    };
    let waker = Waker::from(Arc::new(TaskWaker(task)));
    if future
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        TASKS.with_borrow_mut(|tasks| tasks.waiting.insert(task, future));
    }
}

struct TaskWaker(u32);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        host::wake(self.0);
    }
}
