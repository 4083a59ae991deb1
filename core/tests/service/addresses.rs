//! Tests of delivery addresses: those that can be registered, and those that cannot.

use knowledge_core::Error;
use knowledge_core::model::{
    AddressPolicy, EventType, NewCitationSubscription, NewWebhook, RejectedUrl, WebhookUpdate,
    WebhookUrl,
};

use crate::make::{new_recall, problem};
use crate::world::World;

fn url(text: &str) -> WebhookUrl {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn problem_of(policy: &AddressPolicy, text: &str) -> String {
    match policy.check_url(&url(text)) {
        Ok(()) => "permitted".to_owned(),
        Err(RejectedUrl::Address(address)) => address.to_string(),
        Err(refused) => format!("{refused:?}"),
    }
}

#[test]
fn url_host_is_classified_in_every_notation() {
    let policy = AddressPolicy::default();
    for (host, expected) in [
        ("93.184.215.14", "permitted"),
        ("[2606:2800:21f:cb07:6820:80da:af6b:8b2c]", "permitted"),
        ("[::ffff:93.184.215.14]", "permitted"),
        ("[64:ff9b::93.184.215.14]", "permitted"),
        // IPv4, in every notation.
        ("127.0.0.1", "loopback (RFC 1122)"),
        ("127.0.0.1.", "loopback (RFC 1122)"),
        ("2130706433", "loopback (RFC 1122)"),
        ("017700000001", "loopback (RFC 1122)"),
        ("0x7f000001", "loopback (RFC 1122)"),
        ("0x7f.1", "loopback (RFC 1122)"),
        ("0177.0.0.1", "loopback (RFC 1122)"),
        ("127.1", "loopback (RFC 1122)"),
        ("127.0.1", "loopback (RFC 1122)"),
        ("%31%32%37.0.0.1", "loopback (RFC 1122)"),
        ("１２７.０.０.１", "loopback (RFC 1122)"),
        ("127。0。0。1", "loopback (RFC 1122)"),
        ("①②⑦.0.0.1", "loopback (RFC 1122)"),
        ("0", "this network (RFC 791)"),
        ("0.0.0.0", "this network (RFC 791)"),
        ("10.0.0.1", "private (RFC 1918)"),
        ("172.31.255.255", "private (RFC 1918)"),
        ("192.168.1.1", "private (RFC 1918)"),
        ("100.127.0.1", "shared address space (RFC 6598)"),
        ("169.254.169.254", "link-local (RFC 3927)"),
        ("2852039166", "link-local (RFC 3927)"),
        ("168.63.129.16", "Azure host"),
        ("0xa83f8110", "Azure host"),
        ("168.63.129.17", "permitted"),
        ("192.0.0.170", "protocol assignments (RFC 6890)"),
        ("192.0.2.1", "documentation (RFC 5737)"),
        ("198.51.100.1", "documentation (RFC 5737)"),
        ("203.0.113.1", "documentation (RFC 5737)"),
        ("192.88.99.1", "6to4 relays (RFC 7526)"),
        ("198.19.255.255", "benchmarking (RFC 2544)"),
        ("224.0.0.1", "multicast (RFC 5771)"),
        ("240.0.0.1", "reserved (RFC 1112)"),
        ("255.255.255.255", "broadcast (RFC 919)"),
        // IPv6.
        ("[::1]", "loopback (RFC 4291)"),
        ("[0:0:0:0:0:0:0:1]", "loopback (RFC 4291)"),
        ("[::]", "unspecified (RFC 4291)"),
        ("[::7f00:1]", "IPv4-compatible (RFC 4291)"),
        ("[::127.0.0.1]", "IPv4-compatible (RFC 4291)"),
        ("[::ffff:127.0.0.1]", "loopback (RFC 1122)"),
        ("[::ffff:a9fe:a9fe]", "link-local (RFC 3927)"),
        ("[64:ff9b::169.254.169.254]", "link-local (RFC 3927)"),
        ("[64:ff9b::a00:1]", "private (RFC 1918)"),
        ("[64:ff9b:1::a00:1]", "local NAT64 (RFC 8215)"),
        ("[::ffff:0:127.0.0.1]", "not global unicast (RFC 4291)"),
        ("[100::1]", "discard-only (RFC 6666)"),
        ("[2001::1]", "Teredo (RFC 4380)"),
        ("[2001:2::1]", "benchmarking (RFC 5180)"),
        ("[2001:10::1]", "ORCHID (RFC 4843)"),
        ("[2001:2f:ffff::1]", "ORCHIDv2 (RFC 7343)"),
        ("[2001:1ff::1]", "protocol assignments (RFC 2928)"),
        ("[2001:db8::1]", "documentation (RFC 3849)"),
        ("[2002:7f00:1::]", "6to4 (RFC 3056)"),
        ("[3fff:fff::1]", "documentation (RFC 9637)"),
        ("[4000::1]", "not global unicast (RFC 4291)"),
        ("[5f00::1]", "segment routing (RFC 9602)"),
        ("[fd00:ec2::254]", "unique local (RFC 4193)"),
        ("[fe80::1]", "link-local (RFC 4291)"),
        ("[fec0::1]", "site-local (RFC 3879)"),
        ("[ff02::1]", "multicast (RFC 4291)"),
        // Names.
        ("example.com", "permitted"),
        ("example.com.", "permitted"),
        ("localhost.example.com", "permitted"),
        ("notlocalhost", "permitted"),
        ("localhost", "Localhost"),
        ("LocalHost.", "Localhost"),
        ("%6cocalhost", "Localhost"),
        ("ｌocalhost", "Localhost"),
        ("a.localhost", "Localhost"),
        ("a.localhost.", "Localhost"),
        ("a..example.com", "Host"),
        ("example.com..", "Host"),
    ] {
        let text = format!("https://{host}:8443/hook");
        assert_eq!(problem_of(&policy, &text), expected, "{host}");
    }
    let long_label = format!("https://{}.com/", "a".repeat(64));
    assert_eq!(problem_of(&policy, &long_label), "Host");
    let long_name = format!("https://{}com/", "abc.".repeat(63));
    assert_eq!(problem_of(&policy, &long_name), "Host");
    assert_eq!(problem_of(&policy, "https://example.com:0/"), "Port");
    assert_eq!(problem_of(&policy, "http://example.com/"), "NotHttps");
    // A URL cannot name a network interface.
    for text in ["https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/"] {
        assert!(text.parse::<WebhookUrl>().is_err(), "{text}");
    }
}

#[test]
fn allowed_ranges_apply_in_every_notation_and_to_nothing_else() {
    let allowing = |ranges: &[&str]| AddressPolicy {
        allow: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        allow_http: false,
    };
    let loopback = allowing(&["127.0.0.0/8"]);
    for host in [
        "127.0.0.1",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "localhost",
        "a.localhost.",
    ] {
        assert_eq!(
            problem_of(&loopback, &format!("https://{host}/")),
            "permitted"
        );
    }
    for host in ["10.0.0.1", "[::1]", "[::127.0.0.1]", "[fd00::1]"] {
        assert_ne!(
            problem_of(&loopback, &format!("https://{host}/")),
            "permitted"
        );
    }
    // The IPv4-mapped form denotes the same range.
    let mapped = allowing(&["::ffff:10.0.0.0/104"]);
    assert_eq!(problem_of(&mapped, "https://10.9.8.7/"), "permitted");
    assert_eq!(
        problem_of(&mapped, "https://192.168.0.1/"),
        "private (RFC 1918)"
    );
    assert_ne!(problem_of(&mapped, "https://127.0.0.1/"), "permitted");
    // A range of all IPv6 addresses includes no IPv4 address.
    let v6 = allowing(&["::/0"]);
    assert_eq!(problem_of(&v6, "https://[fe80::1]/"), "permitted");
    assert_eq!(problem_of(&v6, "https://[::1]/"), "permitted");
    assert_eq!(
        problem_of(&v6, "https://[::ffff:127.0.0.1]/"),
        "loopback (RFC 1122)"
    );
    assert_eq!(problem_of(&v6, "https://127.0.0.1/"), "loopback (RFC 1122)");
    assert_eq!(problem_of(&v6, "http://[::1]/"), "NotHttps");
}

#[tokio::test]
async fn endpoint_url_must_be_permitted_on_create_and_update() {
    let world = World::new().await;
    let refused = url("https://[::ffff:169.254.169.254]/latest/meta-data");
    let create = |url: &WebhookUrl| {
        let new = NewWebhook::builder()
            .event_type(EventType::ChunkCreated)
            .url(url.clone())
            .build();
        let service = world.service.clone();
        let (owner, workspace) = (world.owner.clone(), world.workspace.id);
        async move { service.webhooks().create(&owner, workspace, &new).await }
    };
    assert_eq!(problem(create(&refused).await), "url invalid_value");
    let webhook = create(&url("https://example.com/")).await.unwrap();
    let update = WebhookUpdate::builder().url(refused.clone()).build();
    let updated = world.update_webhook(webhook.id, &update, None).await;
    let Err(Error::InvalidRequest { fields }) = updated else {
        panic!("changed: {updated:?}");
    };
    assert_eq!(
        fields[0].message,
        "must not name a non-public address (the operator can allow it): link-local (RFC 3927)"
    );
    let new = new_recall(&world.approved_memories(1).await);
    let recall = world.create_recall(&new).await.unwrap();
    let subscription = NewCitationSubscription::builder()
        .recall_id(recall.id)
        .webhook_url(refused.clone())
        .build();
    let subscribed = world.create_subscription(&subscription).await;
    assert_eq!(problem(subscribed), "webhook_url invalid_value");
    let world = World::with(|options| {
        options.webhook_addresses.allow = vec!["169.254.0.0/16".parse().unwrap()];
    })
    .await;
    let new = NewWebhook::builder()
        .event_type(EventType::ChunkCreated)
        .url(refused)
        .build();
    let made = world.create_webhook(&new).await;
    assert!(made.is_ok());
}
