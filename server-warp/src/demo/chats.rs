//! The chats of the demo.

/// A chat: author and text of each message, oldest first.
pub(super) struct Chat {
    pub(super) title: &'static str,
    /// Age of the last message.
    pub(super) minutes_ago: u64,
    pub(super) messages: &'static [(&'static str, &'static str)],
}

const fn chat(
    title: &'static str,
    minutes_ago: u64,
    messages: &'static [(&'static str, &'static str)],
) -> Chat {
    Chat {
        title,
        minutes_ago,
        messages,
    }
}

const HOUR: u64 = 60;
const DAY: u64 = 24 * HOUR;

pub(super) const OPERATIONS_CHATS: &[Chat] = &[
    chat(
        "Where is the driver onboarding checklist?",
        12 * DAY,
        &[
            (
                "yuki.tanaka",
                "Where is the current onboarding checklist for drivers in Gdansk?",
            ),
            (
                "tomas.lindqvist",
                "In the wiki under Depots. The copy in the shared drive is from last year, please do not send it.",
            ),
        ],
    ),
    chat(
        "Fuel surcharge for the Nordics",
        10 * DAY,
        &[(
            "aisha.benali",
            "Which fuel surcharge applies to Nordic contracts signed before May?",
        )],
    ),
    chat(
        "Night shift coverage in Rotterdam",
        9 * DAY,
        &[
            (
                "tomas.lindqvist",
                "Who covers the night shift in Rotterdam while the sorter is being replaced?",
            ),
            (
                "yuki.tanaka",
                "The runbook says two people from 22:00 to 06:00, Saturdays included.",
            ),
        ],
    ),
    chat(
        "Carrier cut-off times before the holidays",
        7 * DAY,
        &[(
            "priya.raman",
            "What are the carrier cut-off times on the last working day before the holidays?",
        )],
    ),
    chat(
        "Scanner firmware 4.2",
        6 * DAY,
        &[
            (
                "tomas.lindqvist",
                "Has anyone rolled back the handheld scanners from firmware 4.2?",
            ),
            (
                "yuki.tanaka",
                "Gdansk did, after 41 of 300 devices lost their pairing overnight.",
            ),
        ],
    ),
    chat(
        "Customs holds on lithium batteries",
        4 * DAY,
        &[
            (
                "aisha.benali",
                "Why are shipments with lithium batteries held in Zurich since Monday?",
            ),
            (
                "tomas.lindqvist",
                "The declaration needs the UN number in its own field now; the template is being changed.",
            ),
        ],
    ),
    chat(
        "Retention of proof-of-delivery photos",
        3 * DAY,
        &[(
            "priya.raman",
            "How long do we keep proof-of-delivery photos, and who decided that?",
        )],
    ),
    chat(
        "Route planner latency on Monday mornings",
        2 * DAY,
        &[
            (
                "tomas.lindqvist",
                "Is the Monday latency of the route planner the nightly map import again?",
            ),
            (
                "yuki.tanaka",
                "Yes: it ran until 06:40 and shares the database. Moving it to Sunday is decided, not done.",
            ),
        ],
    ),
    chat(
        "Refunds after the Lisbon outage",
        26 * HOUR,
        &[
            (
                "aisha.benali",
                "Which customers were promised refunds after the Lisbon outage?",
            ),
            (
                "priya.raman",
                "The three in the incident review; the letter to the fourth was a template sent by mistake.",
            ),
        ],
    ),
    chat(
        "Who approves pallets above 1,200 kg?",
        5 * HOUR,
        &[(
            "yuki.tanaka",
            "Who approves pallets above 1,200 kg for the Antwerp dock?",
        )],
    ),
    chat(
        "Rollback of the label printing release",
        95,
        &[
            (
                "tomas.lindqvist",
                "What exactly do I roll back if label printing fails again in Rotterdam?",
            ),
            (
                "yuki.tanaka",
                "Only the template service. Printing itself has not changed since the spring; the runbook has the three commands.",
            ),
            (
                "tomas.lindqvist",
                "Done, labels print again. I will add the timings to the incident review.",
            ),
        ],
    ),
    chat(
        "Peak week staffing plan",
        14,
        &[
            (
                "priya.raman",
                "Summarise what we decided about staffing for the peak week.",
            ),
            (
                "yuki.tanaka",
                "Eleven extra people in Rotterdam, four in Gdansk, none in Zurich; the overtime budget needs one more signature from finance before Friday.",
            ),
        ],
    ),
];

pub(super) const CUSTOMER_CHATS: &[Chat] = &[
    chat(
        "Brightwater renewal",
        3 * DAY,
        &[
            (
                "aisha.benali",
                "What did Brightwater ask for in the last two calls before the renewal?",
            ),
            (
                "priya.raman",
                "A fixed surcharge until June, and tracking events every 15 minutes instead of hourly.",
            ),
        ],
    ),
    chat(
        "Answer to the tracking complaint",
        9 * HOUR,
        &[(
            "priya.raman",
            "Draft an answer to the complaint about tracking events that arrive out of order.",
        )],
    ),
    chat(
        "Escalation path for damaged goods",
        48,
        &[
            (
                "priya.raman",
                "Who takes an escalation for damaged goods on a Sunday?",
            ),
            (
                "yuki.tanaka",
                "The incident commander of Operations; the number is in the runbook for escalations.",
            ),
        ],
    ),
];
