//! Cases, their registration, and the test program that runs them.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::pin::Pin;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use tokio::runtime;

use crate::target::{self, Target};
use crate::{cases, client};

/// Path of the module of all cases, which is no part of their names.
const CASES: &str = concat!(env!("CARGO_CRATE_NAME"), "::cases::");

/// The function of a case, which runs on one thread.
type Body = fn() -> Pin<Box<dyn Future<Output = ()>>>;

/// One case: a function that panics if the service does not do what it should.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    module: &'static str,
    function: &'static str,
    body: Body,
}

impl Case {
    pub(crate) fn new(module: &'static str, function: &'static str, body: Body) -> Self {
        Self {
            module,
            function,
            body,
        }
    }

    /// Returns the name, such as `roles::list::list_is_sorted`.
    fn name(&self) -> String {
        let module = self.module.strip_prefix(CASES).unwrap_or(self.module);
        format!("{module}::{}", self.function)
    }

    /// Runs the case on this thread.
    ///
    /// # Errors
    /// If it panics, or has called no service: its result would say nothing.
    fn run(self) -> Result<(), Failed> {
        let calls = client::calls_of_this_thread();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        // Also drops what the case has spawned.
        observed(move || runtime.block_on((self.body)()))?;
        if client::calls_of_this_thread() == calls {
            return Err("the case has called no service".into());
        }
        Ok(())
    }

    fn trial(self) -> Trial {
        Trial::test(self.name(), move || self.run())
    }
}

/// Registers the cases of a module, which are asynchronous functions without parameters.
///
/// The compiler finds a function that is missing: nothing calls it.
macro_rules! suite {
    ($($case:ident),+ $(,)?) => {
        /// Returns the cases of this module.
        pub(super) fn cases() -> Vec<$crate::harness::Case> {
            vec![$($crate::harness::Case::new(
                module_path!(),
                stringify!($case),
                || Box::pin($case()),
            )),+]
        }
    };
}

/// Registers the modules with cases that are children of a module.
macro_rules! suites {
    ($($module:ident),+ $(,)?) => {
        /// Returns the cases of the modules in this one.
        pub(super) fn cases() -> Vec<$crate::harness::Case> {
            [$($module::cases()),+].concat()
        }
    };
}

/// Runs the suite against a target, as the `main` of a test without a harness of its own.
///
/// The arguments of the process are those of a Rust test program: a filter, `--list`, `--exact`,
/// `--skip`, `--test-threads` and the others of [`libtest_mimic`].
///
/// The result is that of the process.
///
/// # Panics
/// If the suite has already run in this process.
#[must_use]
pub fn run(target: impl Target + 'static) -> ExitCode {
    conclude(&Arguments::from_args(), target)
}

/// Runs the suite like [`run`], with these arguments; the first one is the name of the program.
///
/// # Panics
/// If the suite has already run in this process.
#[must_use]
pub fn run_with(
    arguments: impl IntoIterator<Item = OsString>,
    target: impl Target + 'static,
) -> ExitCode {
    conclude(&Arguments::from_iter(arguments), target)
}

fn conclude(arguments: &Arguments, target: impl Target + 'static) -> ExitCode {
    target::set(Box::new(target));
    let otherwise = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if IS_OBSERVED.get() {
            record(panic);
        } else {
            otherwise(panic);
        }
    }));
    let trials = cases::cases().into_iter().map(Case::trial).collect();
    let conclusion: Conclusion = libtest_mimic::run(arguments, trials);
    conclusion.exit_code()
}

thread_local! {
    /// True while this thread runs a case.
    static IS_OBSERVED: Cell<bool> = const { Cell::new(false) };
    /// The panics of the case that this thread runs.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records the place and the message of a panic, and its backtrace if the environment asks for one.
fn record(panic: &PanicHookInfo<'_>) {
    let mut text = panic.to_string();
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text += &format!("\n{backtrace}");
    }
    PANICS.with_borrow_mut(|panics| panics.push(text));
}

/// Calls a function, and returns its panics as a failure that the report shows with its name.
fn observed(body: impl FnOnce()) -> Result<(), Failed> {
    IS_OBSERVED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    IS_OBSERVED.set(false);
    let panics = PANICS.take();
    result.map_err(|payload| match &*panics {
        [] => message(&*payload).into(),
        panics => panics.join("\n").into(),
    })
}

/// Returns the message of a panic that no hook has seen.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn case(body: Body) -> Case {
        Case::new("knowledge_http_suite::cases::roles::list", "one", body)
    }

    #[test]
    fn case_is_named_after_its_module_and_function() {
        assert_eq!(case(|| Box::pin(async {})).name(), "roles::list::one");
    }

    #[test]
    fn names_of_cases_differ() {
        let names: Vec<_> = cases::cases().iter().map(Case::name).collect();
        let different: HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn case_that_calls_no_service_fails() {
        let failed = case(|| Box::pin(async {})).run().expect_err("a failure");
        assert_eq!(failed.message(), Some("the case has called no service"));
    }

    #[test]
    fn case_that_panics_fails_with_its_message() {
        let failed = case(|| Box::pin(async { panic!("no answer") })).run();
        let failed = failed.expect_err("a failure");
        assert_eq!(failed.message(), Some("no answer"));
    }
}
