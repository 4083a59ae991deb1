//! Templates of the texts.

use knowledge_core::model::SensitivityLabel;

/// A kind of text.
pub(super) struct Topic {
    /// Prefix of its source keys.
    pub(super) key: &'static str,
    /// Responsible team.
    pub(super) team: &'static str,
    /// Sensitivity of most texts.
    pub(super) sensitivity: SensitivityLabel,
    /// True if some of the texts are restricted later.
    pub(super) is_restricted_later: bool,
    pub(super) titles: &'static [&'static str],
    pub(super) openings: &'static [&'static str],
    pub(super) details: &'static [&'static str],
    pub(super) outcomes: &'static [&'static str],
}

/// Topics of each source: the wiki, the support desk, the shared drive.
pub(super) const BY_SOURCE: [&[&Topic]; 3] = [
    &[&INCIDENT, &RUNBOOK, &DECISION, &ONBOARDING],
    &[&CALL, &CASE],
    &[&PRICING, &SECURITY, &PLANNING],
];

/// Values of the templates' slots.
pub(super) const FILLERS: &[(&str, &[&str])] = &[
    (
        "service",
        &[
            "route planner",
            "label printing service",
            "tracking gateway",
            "dock scheduler",
            "customs filing service",
            "invoice exporter",
            "driver app",
            "yard camera index",
            "rate calculator",
            "returns portal",
        ],
    ),
    (
        "other",
        &[
            "message queue",
            "address database",
            "map import",
            "identity provider",
            "document store",
            "carrier gateway",
            "billing database",
            "event archive",
            "scanner fleet",
            "job scheduler",
        ],
    ),
    (
        "hub",
        &[
            "Rotterdam",
            "Gdansk",
            "Zurich",
            "Lisbon",
            "Antwerp",
            "Malmö",
            "Lyon",
            "Trieste",
            "Leeds",
            "Bilbao",
        ],
    ),
    (
        "customer",
        &[
            "Brightwater Foods",
            "Nordlys Apotek",
            "Alder & Finch",
            "Casa Verde",
            "Hartmann Tools",
            "Blue Quay Furniture",
            "Orchard Pharmacies",
            "Tessel Optics",
            "Mistral Cycles",
            "Kestrel Publishing",
            "Vantage Garden",
            "Olmo Ceramics",
        ],
    ),
    (
        "carrier",
        &[
            "Nordhaul",
            "TransAlp",
            "Iberia Road",
            "Baltic Line",
            "QuickPallet",
            "Delta Courier",
        ],
    ),
    (
        "person",
        &[
            "Tomas", "Yuki", "Priya", "Aisha", "Diego", "Erik", "Lena", "Hannah", "Maya", "Jonas",
        ],
    ),
    (
        "colleague",
        &[
            "Sofia", "Marek", "Ines", "Björn", "Chidi", "Olga", "Ruben", "Nadia", "Piotr", "Elif",
        ],
    ),
    (
        "month",
        &[
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ],
    ),
    (
        "quarter",
        &[
            "first quarter",
            "second quarter",
            "third quarter",
            "fourth quarter",
        ],
    ),
];

const INCIDENT: Topic = Topic {
    key: "incident",
    team: "platform",
    sensitivity: SensitivityLabel::Internal,
    is_restricted_later: false,
    titles: &[
        "Incident review: {service} down in {hub} on {day} {month}",
        "Incident review: {service} slow for {n} minutes after the {other} failed over",
        "What happened on {day} {month}: duplicate shipments from {hub}",
        "Incident review: {carrier} manifests rejected at {hour}",
        "Post-incident notes: {other} ran out of space in {hub}",
    ],
    openings: &[
        "On {day} {month} the {service} in {hub} stopped answering at {hour} and was back {n} minutes later.",
        "About {k} shipments were delayed; none was lost.",
        "The first sign was a call from {customer}, four minutes before our own alert.",
        "{person} was on call and led the response together with {colleague}.",
        "Severity {m} by our scale: customers noticed, and there was a way around it.",
    ],
    details: &[
        "The {other} failed over at {hour}, and the {service} kept its connections to the old side until they timed out.",
        "A deployment on the same morning had lowered the time-out of the connection pool from 30 to {m} seconds.",
        "Retries from the {hub} depot multiplied the load by {m} and hid the cause for a while.",
        "The dashboard stayed green because it counts requests that were accepted, not labels that were printed.",
        "Rolling back the template alone was enough; the {service} itself had not changed since {month}.",
        "{pct} % of the messages were delivered twice, and the warehouse system recognised all but {n} of them.",
        "The runbook named a host that was replaced in {month}, which cost us about {n} minutes.",
        "{carrier} saw the same pattern on its side and sent us the timings.",
    ],
    outcomes: &[
        "We added an alert on printed labels for each hub; it would have fired after three minutes.",
        "{person} changes the retry policy to a growing delay with a limit; due by the end of {month}.",
        "The runbook is corrected, and the next game day repeats this failure on purpose.",
        "We accept the remaining risk until the {other} is replaced in the {quarter}.",
        "{colleague} talks to {customer} about what happened and what we changed.",
    ],
};

const RUNBOOK: Topic = Topic {
    key: "runbook",
    team: "platform",
    sensitivity: SensitivityLabel::Internal,
    is_restricted_later: false,
    titles: &[
        "Runbook: restart the {service} in {hub}",
        "Runbook: drain the {other} before maintenance",
        "Runbook: {carrier} does not answer",
        "Runbook: move {hub} to the standby line",
        "How to take a scanner out of service in {hub}",
    ],
    openings: &[
        "Use this when the {service} in {hub} answers slower than {m} seconds for more than five minutes.",
        "It takes about {n} minutes and needs one person; tell the dock before you begin.",
        "Nothing here loses data, but between step two and step four labels are printed late.",
        "Last tried on {day} {month} by {person}, who found step three out of date and corrected it.",
    ],
    details: &[
        "First, look whether the {other} is the cause: if its queue is longer than {k}, go to that runbook instead.",
        "Stop the intake on the console of {hub} and wait until the number in work is zero; that took {n} minutes last time.",
        "Restart one instance at a time and wait for it to be ready before you take the next.",
        "If an instance does not come back, leave it out: the line works with {m} of them.",
        "Open the intake again at a quarter of its rate, and double it every two minutes while errors stay under {pct} in a thousand.",
        "Check with {carrier} that the manifest of {hour} has arrived; they confirm by mail.",
        "Do not clear the queue by hand. Every message in it is a parcel that somebody waits for.",
    ],
    outcomes: &[
        "Write down when you began and ended, and what you saw, in the channel of the hub.",
        "If it did not help, call {person}; at night call the incident commander.",
        "Afterwards look at the late labels of {hub} and send the list to {colleague}.",
        "Correct this page if a step was wrong. The next reader is tired.",
    ],
};

const DECISION: Topic = Topic {
    key: "decision",
    team: "platform",
    sensitivity: SensitivityLabel::Internal,
    is_restricted_later: false,
    titles: &[
        "Decision: the {service} gets a queue of its own",
        "Decision: keep proof-of-delivery photos for {n} weeks",
        "Decision: one address format for {hub} and {carrier}",
        "Why we did not replace the {other}",
        "Decision: the {service} answers from a copy of the {other}",
    ],
    openings: &[
        "Decided on {day} {month} by {person}, {colleague} and the leads of {hub}.",
        "We had put this off since the incident in {month}, when the {service} and the {other} took each other down.",
        "The question was whether to go on sharing the {other} or to separate the two.",
        "It came up again because {customer} asked for answers in less than {m} seconds.",
    ],
    details: &[
        "Sharing costs nothing today and one bad night in a quarter; separating costs about {n} days of work.",
        "The alternative was to buy it from {carrier}; their offer was {pct} % above our own estimate.",
        "We measured {k} messages a minute at the peak, which is a third of what one instance handles.",
        "A copy that is up to {m} minutes old is good enough for everything but customs.",
        "{colleague} was against it, because two systems need two people who know them. We agreed to train a second one.",
        "The hub in {hub} goes first, since it can work on paper for a day if it has to.",
    ],
    outcomes: &[
        "{person} has it done by the end of the {quarter}; until then nothing changes for the depots.",
        "We look at it again when the volume has doubled, or in a year.",
        "What would change our minds: a month in which the copy is older than {n} minutes on more than one day.",
    ],
};

const ONBOARDING: Topic = Topic {
    key: "onboarding",
    team: "support",
    sensitivity: SensitivityLabel::Public,
    is_restricted_later: false,
    titles: &[
        "First week in {hub}: what to read and whom to meet",
        "Onboarding: how the {service} works, in ten minutes",
        "Glossary for new colleagues at the {hub} dock",
        "Onboarding: your first shift with the {other}",
    ],
    openings: &[
        "Welcome. This page is for everybody who begins in {hub}, whatever the job.",
        "It was written by {colleague}, who began in {month} and missed it.",
        "Read it on the first day and ask {person} about whatever is not clear.",
    ],
    details: &[
        "A consignment is what the customer orders, a shipment is what we drive, and a parcel is what the scanner sees.",
        "The {service} decides which of the {m} lines a parcel takes; you can overrule it, and it learns from that.",
        "The day has two peaks, at 06:30 and at {hour}; nobody is trained during them.",
        "Everybody drives along with {carrier} once in the first month.",
        "If a number looks wrong, believe the dock before the screen, and tell us.",
        "You get access to the {other} after the safety course, usually in the second week.",
    ],
    outcomes: &[
        "After a week we ask what surprised you; that is how this page gets better.",
        "Your buddy is {person}. Whatever you would ask twice, write down here.",
    ],
};

const CALL: Topic = Topic {
    key: "call",
    team: "sales",
    sensitivity: SensitivityLabel::Internal,
    is_restricted_later: false,
    titles: &[
        "Call with {customer} on {day} {month}",
        "{customer}: quarterly review with {colleague}",
        "{customer} asks about {carrier} in {hub}",
        "Renewal call with {customer}, notes",
    ],
    openings: &[
        "{person} spoke with {colleague} of {customer} for {n} minutes.",
        "They ship about {k} parcels a month with us, {pct} % more than a year ago.",
        "The mood was good; the last months without an incident in {hub} have helped.",
        "They called because tracking showed a delivery at {hour} that had not happened.",
    ],
    details: &[
        "They want tracking events every fifteen minutes instead of every hour, and would pay a little for it.",
        "Returns are their largest worry: {pct} % come back, most of them through {hub}.",
        "They compared us with {carrier} and found us dearer by {m} % and better on damages.",
        "The invoice of {month} had {n} lines that they could not match; the {service} leaves out their order number.",
        "A new warehouse opens in {month}; they asked whether the {service} can split orders between two.",
        "They would like one person to call at night. Today they reach whoever is at the dock.",
    ],
    outcomes: &[
        "{person} sends an offer for the faster events until the {day}th.",
        "We promised an answer about returns within {m} working days.",
        "Nothing was promised about prices; that waits for the decision of the {quarter}.",
        "Next call on {day} {month}, with {colleague} and somebody from their warehouse.",
    ],
};

const CASE: Topic = Topic {
    key: "case",
    team: "support",
    sensitivity: SensitivityLabel::Internal,
    is_restricted_later: false,
    titles: &[
        "Case {ticket}: {customer} cannot open the {service}",
        "Case {ticket}: parcels for {hub} marked as delivered too early",
        "Case {ticket}: wrong surcharge on a {carrier} shipment",
        "Case {ticket}: events arrive out of order",
    ],
    openings: &[
        "{customer} wrote at {hour} that {n} of their parcels show the wrong state.",
        "Opened by {colleague}, answered by {person} within {m} hours.",
        "The same question came {m} times in {month}; this is the answer to send.",
    ],
    details: &[
        "The scanner in {hub} had the wrong time zone after its update, so that its events sort before earlier ones.",
        "The {service} takes the state of the newest event by its own clock, not by the time of arrival.",
        "The surcharge follows the weight that {carrier} measured, which was {m} kg above the one declared.",
        "Signing in failed because their account was made with the old domain; a new invitation solves it.",
        "We corrected {n} parcels by hand and asked the {other} for the rest.",
        "Nobody else was affected: a search over {month} finds only this customer.",
    ],
    outcomes: &[
        "Solved on {day} {month}; the customer confirmed it.",
        "We credited the difference, and {person} told finance.",
        "Left open: the {service} should refuse events from the future. That is on the list for the {quarter}.",
    ],
};

const PRICING: Topic = Topic {
    key: "pricing",
    team: "finance",
    sensitivity: SensitivityLabel::Confidential,
    is_restricted_later: false,
    titles: &[
        "Pricing decision: surcharge for {hub} from {month}",
        "Margin on {carrier} routes in the {quarter}",
        "Discount for {customer}: what was agreed",
        "Pricing: express deliveries after {hour}",
    ],
    openings: &[
        "From the first of {month} the surcharge for {hub} is {pct} %.",
        "Prepared by {person} for the pricing round of the {quarter}.",
        "{customer} gets {m} % for two years, against a minimum of {k} parcels a month.",
    ],
    details: &[
        "Without the change the route loses about {n} cents on every parcel under two kilograms.",
        "{carrier} raised its own price by {pct} % in {month}; we pass on two thirds of that.",
        "We expect to lose {m} small customers and none of the ten largest.",
        "Sales asked for an exception for {customer}; it was given for {m} months and ends by itself.",
        "The {service} can only apply one surcharge to a route. A second one has to wait for the new rate calculator.",
        "Competitors in {hub} are between {m} % below and {pct} % above us.",
    ],
    outcomes: &[
        "Letters go out on {day} {month}; {colleague} answers questions.",
        "We look at the numbers after {m} months and take it back if more than {n} customers leave.",
        "Approved by Maya and Diego. Do not quote these numbers outside finance and sales.",
    ],
};

const SECURITY: Topic = Topic {
    key: "security",
    team: "platform",
    sensitivity: SensitivityLabel::Confidential,
    is_restricted_later: true,
    titles: &[
        "Security review of the {service}",
        "Access review for {hub}, {quarter}",
        "Findings: the {other} and who can reach it",
        "Lost scanner in {hub}: what was on it",
    ],
    openings: &[
        "{person} and {colleague} reviewed the {service} in {month}; this is what they found.",
        "{n} accounts can reach the {other}; we expected {m}.",
        "Nothing was taken as far as we can tell. This page says how we know.",
    ],
    details: &[
        "The export of the {service} was readable for everybody in {hub}, including the temporary accounts of last winter.",
        "{m} keys were older than a year. They are replaced, and new ones end after ninety days.",
        "The scanner kept the last {k} addresses in clear text; the new firmware does not.",
        "{carrier} signs its manifests now, so that a changed one is refused at the gate.",
        "The log shows {n} attempts from one address on {day} {month}, all of them refused.",
        "The supplier answered within {m} days and will send a correction in {month}.",
    ],
    outcomes: &[
        "Two findings are open; {person} has them, and they are due before the {quarter} ends.",
        "The list of accounts is looked at each month from now on, by someone from another team.",
        "Please do not forward this page; ask {colleague} instead.",
    ],
};

const PLANNING: Topic = Topic {
    key: "plan",
    team: "finance",
    sensitivity: SensitivityLabel::Internal,
    is_restricted_later: false,
    titles: &[
        "Peak season plan for {hub}",
        "Budget {quarter}: the {service}",
        "Hiring plan for {hub}, {month}",
        "Forecast for {carrier} volumes in the {quarter}",
    ],
    openings: &[
        "We plan for {pct} % more parcels than last year, and for one week with twice as many.",
        "This replaces the plan of {month}, which did not count the new customers.",
        "Numbers by {person}, assumptions by {colleague}; both are on the second sheet.",
    ],
    details: &[
        "{hub} needs {n} more people for {m} weeks, most of them in the evening.",
        "The {service} was tested with {k} requests a minute, which is enough; the {other} was not.",
        "If {carrier} cannot take the evening tour, QuickPallet can, at {pct} % more.",
        "{customer} brings its campaign forward to {month}, which takes about {m} % out of the peak.",
        "Two docks are closed for repairs until the {day}th; the plan works without them, with no reserve.",
        "We rent {m} trailers for a month and decide on the {day}th whether to keep them.",
    ],
    outcomes: &[
        "{person} reports each Friday how far the plan and the days are apart.",
        "The overtime needs one more signature, from finance.",
        "If it is more than {n} % off by the middle of {month}, we meet again.",
    ],
};
