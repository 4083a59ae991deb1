//! `knowledge webhook`: webhook endpoints and their deliveries.

use std::time::Duration;

use clap::{Subcommand, value_parser};
use console::Style;
use http::Method;
use knowledge_core::env::Env;
use knowledge_core::model::{
    Confirmation, ConfirmationReason, Delivery, DeliveryAttempt, DeliveryId, DeliveryStatus,
    EndpointId, EventType, Timestamp, Workspace,
};
use knowledge_core::service::{EndpointKind, EndpointSummary};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::args::{OutputFormat, WithOutput, duration};
use super::dashboard::{moment, status_text};
use super::failure::Failure;
use super::operator::{OrgArgs, OrgOperator};
use super::output::print_json;
use super::table::{Cell, Fit, plain};
use super::{webhook_listen, webhook_post};

/// Polling interval for a pending delivery.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Upper limit of a count.
const COUNT_MAX: usize = 1_000;

/// List webhook endpoints and their deliveries; redeliver, test, receive
///
/// An endpoint is an outbound webhook or a citation subscription; both are identified by their ID.
/// They are registered over the API with a token of the member whose permissions apply to the
/// deliveries.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(ListArgs),
    Deliveries(DeliveriesArgs),
    Redeliver(RedeliverArgs),
    Ping(PingArgs),
    Listen(webhook_listen::Args),
    Post(webhook_post::Args),
}

/// List the webhooks and citation subscriptions of an organisation
///
/// The list includes their state and the number of pending and dead-lettered deliveries.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// List this workspace only, by slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// List the deliveries to a webhook, newest event first
///
/// Older deliveries are deleted after the retention period. With --output json each delivery
/// includes all its attempts.
#[derive(Debug, clap::Args)]
struct DeliveriesArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,

    /// List only deliveries that are pending, delivered or dead
    #[arg(long, value_name = "STATUS")]
    status: Option<DeliveryStatus>,

    /// Maximum number of deliveries
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 50,
        value_parser = value_parser!(u32).range(1..)
    )]
    limit: u32,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// Redeliver a delivery, or all dead letters
///
/// The next attempt is made immediately, or at the next start of the server, with a new retry
/// schedule and the same webhook-id. An inactive webhook has to be activated first: over the API
/// or, if the service disabled it, with `knowledge webhook ping`. An unconfirmed one has to answer a
/// ping first.
#[derive(Debug, clap::Args)]
struct RedeliverArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,

    /// Identifier of the delivery, as listed by `knowledge webhook deliveries`
    #[arg(required_unless_present = "dead", conflicts_with = "dead")]
    delivery: Option<DeliveryId>,

    /// All dead letters of the webhook
    #[arg(long)]
    dead: bool,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// Send a test event and report the result
///
/// Requires a running server, which makes a single attempt to send a webhook.ping. The exit code is
/// 0 if the response has a 2xx status. A successful ping confirms the URL for all webhooks of the
/// organisation, and reactivates this one if the service disabled it.
#[derive(Debug, clap::Args)]
struct PingArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,

    /// Maximum wait for the result
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

/// Selection of an endpoint.
#[derive(Debug, clap::Args)]
struct EndpointArgs {
    /// Identifier of the webhook or citation subscription, as listed by `knowledge webhook list`
    #[arg(value_name = "WEBHOOK")]
    endpoint: EndpointId,

    /// Fail if the endpoint does not belong to this workspace, by slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

/// Result of a redelivery.
#[derive(Deserialize)]
struct RedeliveryReport {
    redelivered: u64,
    has_more: bool,
}

/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[("workspace", "--workspace")];

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Deliveries(args) => deliveries(args).await,
        Command::Redeliver(args) => redeliver(args).await,
        Command::Ping(args) => ping(args).await,
        Command::Listen(args) => webhook_listen::run(args).await,
        Command::Post(args) => webhook_post::run(args).await,
    }
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let filter = args.workspace.as_deref().map(|name| ("workspace", name));
    let all = operator.list_first(&["endpoints"], filter.as_slice(), usize::MAX, FLAGS);
    let (all, _): (Vec<EndpointSummary>, _) = all.await?;
    if output == OutputFormat::Json {
        return print_json(&all);
    }
    let workspaces: Vec<Workspace> = operator.list("workspaces", &[]).await?;
    let columns = [
        ("ID", Fit::Whole),
        ("WORKSPACE", Fit::Cut),
        ("EVENT", Fit::Whole),
        ("STATE", Fit::Whole),
        ("PENDING", Fit::Whole),
        ("DEAD", Fit::Whole),
        ("KIND", Fit::Optional),
        ("URL", Fit::Cut),
    ];
    let now = Env::system().now();
    output.print_list(&all, &columns, |endpoint| {
        let workspace = workspaces
            .iter()
            .find(|workspace| workspace.id == endpoint.workspace_id);
        [
            Cell::new(endpoint.id.to_string()),
            Cell::new(workspace.map_or("-", |workspace| workspace.slug.as_str())),
            Cell::new(endpoint.event_type.as_str()),
            state(endpoint, now),
            Cell::new(counted(endpoint.pending)),
            Cell::new(counted(endpoint.dead)),
            Cell::new(noun(endpoint.kind)),
            Cell::new(endpoint.url.as_str()),
        ]
    })
}

/// Formats the state: `active`, `unconfirmed` with what delays the next ping, `inactive`,
/// `suspended` or `ended` with the reason and the time of the end, or the reason why the service
/// disabled the endpoint.
fn state(endpoint: &EndpointSummary, now: Timestamp) -> Cell {
    if endpoint.status.ended_reason.is_some() {
        return Cell::new(status_text(endpoint.status, now)).styled(Style::new().red());
    }
    match endpoint.disabled_reason {
        Some(reason) => Cell::new(format!("disabled: {reason}")).styled(Style::new().red()),
        None if endpoint.is_active && !endpoint.is_confirmed => {
            let delay = delay(&endpoint.confirmation, now);
            let delay = delay.map_or_else(String::new, |delay| format!(": {delay}"));
            Cell::new(format!("unconfirmed{delay}")).styled(Style::new().yellow())
        }
        None if endpoint.is_active => Cell::new("active").styled(Style::new().green()),
        None => Cell::new("inactive").styled(Style::new().dim()),
    }
}

/// Formats what delays the next ping to an unconfirmed URL, and until when.
fn delay(confirmation: &Confirmation, now: Timestamp) -> Option<String> {
    let reason = match confirmation.reason? {
        ConfirmationReason::NoAnswer => "no answer",
        ConfirmationReason::HostLimit => "limit of pings to its host",
        ConfirmationReason::OrganizationLimit => "limit of the organisation's pings to its host",
    };
    let next = next(confirmation.next_attempt_at, now);
    Some(format!("{reason}, next ping {next}"))
}

fn counted(count: usize) -> String {
    if count < COUNT_MAX {
        count.to_string()
    } else {
        format!("{COUNT_MAX}+")
    }
}

/// Returns the user's word for a kind.
fn noun(kind: EndpointKind) -> &'static str {
    match kind {
        EndpointKind::Webhook => "webhook",
        EndpointKind::Subscription => "citation subscription",
    }
}

async fn deliveries(args: DeliveriesArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let id = args.endpoint.find(&operator).await?;
    let filter = args.status.map(|status| ("status", status.as_str()));
    let segments = ["endpoints", id.as_str(), "deliveries"];
    let limit = args.limit as usize;
    let found = operator.list_first(&segments, filter.as_slice(), limit, FLAGS);
    let (found, has_more): (Vec<Delivery>, bool) = found.await?;
    if has_more {
        eprintln!("there are more deliveries; raise --limit to list them");
    }
    let segments = ["endpoints", id.as_str()];
    let endpoint: EndpointSummary = operator.call(Method::GET, &segments, None, FLAGS).await?;
    let columns = [
        ("ID", Fit::Whole),
        ("EVENT AT", Fit::Whole),
        ("EVENT", Fit::Whole),
        ("STATUS", Fit::Whole),
        ("ATTEMPTS", Fit::Optional),
        ("LAST OUTCOME", Fit::Cut),
        ("NEXT ATTEMPT", Fit::Optional),
    ];
    let now = Env::system().now();
    output.print_list(&found, &columns, |delivery| {
        let outcome = delivery.attempts.last().map(outcome);
        [
            Cell::new(delivery.id.to_string()),
            Cell::new(moment(Some(delivery.created_at), now)),
            Cell::new(delivery.event_type.as_str()),
            Cell::new(delivery.status.as_str()).styled(style(delivery.status)),
            Cell::new(delivery.attempts.len().to_string()),
            Cell::new(outcome.as_deref().unwrap_or("-")),
            Cell::new(next_of(delivery, &endpoint, now)),
        ]
    })
}

fn style(status: DeliveryStatus) -> Style {
    match status {
        DeliveryStatus::Pending => Style::new().yellow(),
        DeliveryStatus::Delivered => Style::new().green(),
        DeliveryStatus::Dead => Style::new().red(),
    }
}

/// Formats the result of an attempt: `200 in 35 ms`, `timed_out after 15000 ms: …`.
fn outcome(attempt: &DeliveryAttempt) -> String {
    let milliseconds = attempt.duration_ms;
    let failed = attempt.error.as_ref().map(|error| {
        let (code, message) = (error.code, plain(&error.message));
        format!("{code} after {milliseconds} ms: {message}")
    });
    match (attempt.status, failed) {
        (Some(status), None) => format!("{status} in {milliseconds} ms"),
        (Some(status), Some(failed)) => format!("{status}, {failed}"),
        (None, Some(failed)) => failed,
        (None, None) => "-".to_owned(),
    }
}

/// Formats the time of the next attempt. To an unconfirmed URL, events wait for its confirmation,
/// and pings that are due for what delays them.
fn next_of(delivery: &Delivery, endpoint: &EndpointSummary, now: Timestamp) -> String {
    let planned = delivery.next_attempt_at;
    let is_due = planned.is_some_and(|at| at <= now);
    if planned.is_none() || endpoint.is_confirmed || !endpoint.is_active {
        next(planned, now)
    } else if delivery.event_type != EventType::WebhookPing {
        "once confirmed".to_owned()
    } else if is_due {
        next(endpoint.confirmation.next_attempt_at.or(planned), now)
    } else {
        next(planned, now)
    }
}

fn next(at: Option<Timestamp>, now: Timestamp) -> String {
    match at {
        None => "-".to_owned(),
        Some(at) if at <= now => "now".to_owned(),
        Some(at) if at.since(now) < Duration::from_secs(60) => {
            format!("in {} s", at.since(now).as_secs())
        }
        later => moment(later, now),
    }
}

async fn redeliver(args: RedeliverArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let id = args.endpoint.find(&operator).await?;
    let when = if operator.is_served() {
        "now"
    } else {
        "once a server runs"
    };
    let Some(delivery) = args.delivery else {
        let segments = ["endpoints", id.as_str(), "deliveries", "redeliver-dead"];
        let mut count = 0;
        loop {
            let report: RedeliveryReport =
                operator.call(Method::POST, &segments, None, FLAGS).await?;
            count += report.redelivered;
            if !report.has_more {
                break;
            }
        }
        eprintln!("dead letters queued for redelivery: {count}, attempted {when}");
        return output.print_if_json(&json!({ "redelivered": count }));
    };
    let delivery = delivery.to_string();
    let segments = [
        "endpoints",
        id.as_str(),
        "deliveries",
        delivery.as_str(),
        "redeliver",
    ];
    let waiting: Delivery = operator.call(Method::POST, &segments, None, FLAGS).await?;
    eprintln!(
        "{} ({}) queued for redelivery, attempted {when}",
        waiting.id, waiting.event_type
    );
    output.print_if_json(&waiting)
}

async fn ping(args: PingArgs) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    if !operator.is_served() {
        return Err(Failure::new(
            "a ping requires a running server; start one with `knowledge serve`",
        ));
    }
    let id = args.endpoint.find(&operator).await?;
    let deadline = Instant::now() + args.timeout;
    let segments = ["endpoints", id.as_str(), "ping"];
    let mut delivery: Delivery = operator.call(Method::POST, &segments, None, FLAGS).await?;
    let sent = delivery.id.to_string();
    let segments = ["endpoints", id.as_str(), "deliveries", sent.as_str()];
    while delivery.status == DeliveryStatus::Pending && Instant::now() < deadline {
        tokio::time::sleep(POLL_INTERVAL).await;
        delivery = operator.call(Method::GET, &segments, None, FLAGS).await?;
    }
    let outcome = delivery.attempts.last().map(outcome);
    if delivery.status == DeliveryStatus::Delivered {
        let text = format!("delivered: {}\n", outcome.as_deref().unwrap_or("-"));
        return output.print(&text, &delivery);
    }
    output.print_if_json(&delivery)?;
    Err(Failure::new(match delivery.status {
        DeliveryStatus::Pending => {
            let segments = ["endpoints", id.as_str()];
            let endpoint: EndpointSummary =
                operator.call(Method::GET, &segments, None, FLAGS).await?;
            let now = Env::system().now();
            let cause = match endpoint.status.ended_reason {
                Some(_) => Some(status_text(endpoint.status, now)),
                None => delay(&endpoint.confirmation, now),
            };
            let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
            format!("the ping is still pending{cause}; see `knowledge webhook deliveries {id}`")
        }
        _ => {
            let outcome = outcome.as_deref().unwrap_or("it was not attempted");
            format!("the ping failed: {outcome}")
        }
    }))
}

impl EndpointArgs {
    /// Returns the identifier of the endpoint, after checking its workspace.
    async fn find(&self, operator: &OrgOperator) -> Result<String, Failure> {
        let id = self.endpoint.to_string();
        let Some(name) = &self.workspace else {
            return Ok(id);
        };
        let segments = ["workspaces", name.as_str()];
        let workspace: Workspace = operator.call(Method::GET, &segments, None, FLAGS).await?;
        let segments = ["endpoints", id.as_str()];
        let endpoint: EndpointSummary = operator.call(Method::GET, &segments, None, FLAGS).await?;
        if endpoint.workspace_id == workspace.id {
            return Ok(id);
        }
        Err(Failure::new(format!(
            "the {} {id} does not belong to the workspace {}",
            noun(endpoint.kind),
            workspace.slug
        )))
    }
}

#[cfg(test)]
mod tests {
    use knowledge_core::model::{ConfirmationState, DeliveryFailure, DeliveryFailureCode};

    use super::*;

    #[test]
    fn outcome_is_described_in_one_line() {
        let attempt = |status, error| DeliveryAttempt {
            at: Timestamp::UNIX_EPOCH,
            duration_ms: 35,
            status,
            error,
        };
        let broken = || DeliveryFailure {
            code: DeliveryFailureCode::AnswerBroken,
            message: "it broke\noff".to_owned(),
        };
        let shown = [
            outcome(&attempt(Some(204), None)),
            outcome(&attempt(None, Some(broken()))),
            outcome(&attempt(Some(200), Some(broken()))),
        ];
        assert_eq!(
            shown,
            [
                "204 in 35 ms",
                "answer_broken after 35 ms: it broke off",
                "200, answer_broken after 35 ms: it broke off",
            ]
        );
    }

    #[test]
    fn next_attempt_is_relative_to_now() {
        let now = Timestamp::UNIX_EPOCH.plus(Duration::from_secs(1_000));
        let after = |seconds| next(Some(now.plus(Duration::from_secs(seconds))), now);
        assert_eq!(
            [next(None, now), after(0), after(5), after(300)],
            ["-", "now", "in 5 s", "in 5 min"]
        );
        assert_eq!(next(Some(Timestamp::UNIX_EPOCH), now), "now");
    }

    #[test]
    fn delay_of_ping_names_its_reason_and_end() {
        let now = Timestamp::UNIX_EPOCH.plus(Duration::from_secs(1_000));
        let shown = |reason| {
            let confirmation = Confirmation {
                state: ConfirmationState::Pending,
                next_attempt_at: Some(now.plus(Duration::from_secs(300))),
                reason,
            };
            delay(&confirmation, now)
        };
        assert_eq!(shown(None), None);
        let limited = shown(Some(ConfirmationReason::HostLimit));
        let expected = "limit of pings to its host, next ping in 5 min";
        assert_eq!(limited.as_deref(), Some(expected));
    }

    #[test]
    fn truncated_count_is_marked() {
        assert_eq!([counted(999), counted(1_000)], ["999", "1000+"]);
    }
}
