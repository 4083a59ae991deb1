//! Clients that ask one question after the other, each in a thread of its own.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::words::Question;

/// Time after which clients ask no further question.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Number of questions that a client asks before it is measured.
const WARM_UP: usize = 5;

/// One that answers questions.
pub(crate) trait Side: Sync {
    /// State that a client keeps from one question to the next.
    type Connection;

    /// Connects a client.
    async fn connect(&self) -> Self::Connection;

    /// Returns the identifiers of the memories that answer a question, best first.
    async fn search(&self, connection: &Self::Connection, question: &Question) -> Vec<u128>;
}

/// Times of the searches of some clients.
pub(crate) struct Times {
    /// Time of each search, in no order.
    pub(crate) each: Vec<Duration>,
    /// Sum of the rates of the clients.
    pub(crate) per_second: f64,
}

/// Measures clients that ask all questions once, or as many as they can in the time.
pub(crate) fn measure<S: Side>(side: &S, clients: usize, questions: &[Question]) -> Times {
    let start = Barrier::new(clients);
    let ask = |number| {
        let questions = questions.iter().skip(number).step_by(clients);
        block_on(ask_all(side, &start, questions))
    };
    let ask = &ask;
    let times: Vec<Vec<Duration>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || ask(number)))
            .collect();
        let times = threads.into_iter();
        let times = times.map(|thread| thread.join().expect("a client does not panic"));
        times.collect()
    });
    let rate = |times: &Vec<Duration>| {
        let total: Duration = times.iter().sum();
        times.len() as f64 / total.as_secs_f64()
    };
    Times {
        per_second: times.iter().map(rate).sum(),
        each: times.concat(),
    }
}

/// Returns the answers to some questions.
pub(crate) async fn answers<S: Side>(side: &S, questions: &[Question]) -> Vec<Vec<u128>> {
    let connection = side.connect().await;
    let mut answers = Vec::new();
    for question in questions {
        answers.push(side.search(&connection, question).await);
    }
    answers
}

async fn ask_all<'q, S: Side>(
    side: &S,
    start: &Barrier,
    questions: impl Iterator<Item = &'q Question> + Clone,
) -> Vec<Duration> {
    let connection = side.connect().await;
    for question in questions.clone().take(WARM_UP) {
        side.search(&connection, question).await;
    }
    start.wait();
    let (mut times, began) = (Vec::new(), Instant::now());
    for question in questions {
        if began.elapsed() > TIME_MAX {
            break;
        }
        let asked = Instant::now();
        side.search(&connection, question).await;
        times.push(asked.elapsed());
    }
    times
}

/// Runs a client on a runtime of its own, which belongs to its thread.
fn block_on<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(client)
}
