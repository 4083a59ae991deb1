//! Futures as promises.
//!
//! Each step of a future is a call from JavaScript that JavaScript watches: so a panic ends in a `catch` there, and every
//! promise that waits for this module is rejected with what was wrong. A promise that a step waits for comes back by a
//! callback that takes no step: it keeps what the promise came to, and asks for the next one.

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

/// Keeps a future for [`poll`]. The number stands for it on the other side.
pub(crate) fn spawn(future: impl Future<Output = Result<JsValue, JsValue>> + 'static) -> u32 {
    TASKS.with_borrow_mut(|tasks| {
        // After 2^32 tasks the numbers come again; the one before has ended by then.
        tasks.last = tasks.last.wrapping_add(1);
        tasks.waiting.insert(tasks.last, Box::pin(future));
        tasks.last
    })
}

/// Takes a task one step further; the host is told when it has ended.
#[wasm_bindgen]
pub fn poll(task: u32) {
    let Some(mut future) = TASKS.with_borrow_mut(|tasks| tasks.waiting.remove(&task)) else {
        return;
    };
    let waker = Waker::from(Arc::new(Waking(task)));
    match future.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(outcome) => host::settle(task, outcome),
        Poll::Pending => TASKS.with_borrow_mut(|tasks| {
            tasks.waiting.insert(task, future);
        }),
    }
}

struct Waking(u32);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        host::wake(self.0);
    }
}
