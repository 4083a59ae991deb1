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
use std::task::{Context, Poll, Wake, Waker};

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host;

type Task = Pin<Box<dyn Future<Output = Result<JsValue, JsValue>>>>;

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
    TASKS.with_borrow_mut(|tasks| {
        // Numbers repeat after 2^32 tasks; the earlier task has ended by then.
        tasks.last = tasks.last.wrapping_add(1);
        tasks.waiting.insert(tasks.last, Box::pin(future));
        tasks.last
    })
}

/// Runs one step of a task; reports its outcome to the host once it has ended.
#[wasm_bindgen]
pub fn poll(task: u32) {
    let Some(mut future) = TASKS.with_borrow_mut(|tasks| tasks.waiting.remove(&task)) else {
        return;
    };
    let waker = Waker::from(Arc::new(TaskWaker(task)));
    match future.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(outcome) => host::settle(task, outcome),
        Poll::Pending => TASKS.with_borrow_mut(|tasks| {
            tasks.waiting.insert(task, future);
        }),
    }
}

struct TaskWaker(u32);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        host::wake(self.0);
    }
}
