//! Keys of the store: arbitrary ones, and the order of those that are built.

use std::sync::Arc;

use uuid::Uuid;

use knowledge_core::internals::keys;
use knowledge_core::model::{
    ChatId, EndpointId, EventId, MemberId, OrgId, RoleId, Timestamp, WorkspaceId,
};
use knowledge_core::service::{DifferenceCode, Verify};
use knowledge_core::store::{Commit, Key, MemoryStore, Store};

/// Parses an arbitrary key, and verifies a store that has only this entry: the key is on the first
/// line, the value on the rest.
///
/// A key that can be parsed is built again from its parts; any other one is a difference.
pub(super) async fn check_entry(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (key, value) = input.split_at(end.unwrap_or(input.len()));
    let value = value.strip_prefix(b"\n").unwrap_or_default();
    let Ok(key) = Key::new(key) else {
        return;
    };
    let rebuilt = keys::rebuilt(&key);
    assert!(
        rebuilt.is_none() || rebuilt.as_ref() == Some(&key),
        "{key} became {rebuilt:?}"
    );
    let name = keys::family_name(std::str::from_utf8(key.as_bytes()).unwrap_or_default());
    assert!(rebuilt.is_none() || keys::FAMILIES.iter().any(|family| family.name == name));
    let _ = (
        keys::last_id(&key),
        keys::second_last_id(&key),
        keys::due_at(&key),
    );

    let store = Arc::new(MemoryStore::new());
    let put = Commit::builder().put(key.clone(), value.to_vec()).build();
    let Ok(put) = put else {
        return;
    };
    store.commit(put).await.expect("a put is valid");
    let mut verify = Verify::begin(store, None)
        .await
        .expect("memory can be read");
    while verify.read().await.expect("memory can be read") {}
    let found = verify.finish().differences;
    let is_unreadable =
        |code| [DifferenceCode::Unreadable, DifferenceCode::UnknownFamily].contains(&code);
    let is_reported = found
        .iter()
        .any(|found| found.key == key && is_unreadable(found.code));
    assert!(
        rebuilt.is_some() || is_reported,
        "{key} is accepted: {found:?}"
    );
}

/// Values of the parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    at: Timestamp,
    ids: [Uuid; 3],
}

impl Values {
    /// Takes the values from bytes; missing ones are 0.
    fn take(bytes: &mut impl Iterator<Item = u8>) -> Self {
        let mut number = |length: usize| {
            let bytes = bytes.by_ref().take(length);
            bytes.fold(0_u128, |number, byte| number << 8 | u128::from(byte))
        };
        // Up to the year 6,000, as no range ends after the last time that can be written.
        let at = i64::try_from(number(8) & 0x7FFF_FFFF_FFFF).unwrap_or_default();
        Self {
            at: Timestamp::from_millis(at),
            ids: [number(16), number(16), number(16)].map(Uuid::from_u128),
        }
    }
}

/// Builds keys of two lists of values. They are parsed to the same values, and have their order.
pub(super) fn check_order(input: &[u8]) {
    let mut bytes = input.iter().copied();
    let [a, b] = [Values::take(&mut bytes), Values::take(&mut bytes)];
    let org = OrgId;

    let due = |of: &Values| keys::due(of.at, of.ids[0]);
    assert_eq!(keys::parse_due(&due(&a)), Some((a.at, a.ids[0])));
    assert_eq!(keys::due_at(&due(&a)), Some(a.at));
    assert_eq!(keys::due_until(b.at).contains(&due(&a)), a.at <= b.at);
    check([a, b], due, |of| (of.at, of.ids[0]));

    let endpoint = |of: &Values| {
        let [first, second, _] = of.ids;
        keys::endpoint_due(of.at, org(first), EndpointId(second))
    };
    let parts = (a.at, org(a.ids[0]), EndpointId(a.ids[1]));
    assert_eq!(keys::parse_endpoint_due(&endpoint(&a)), Some(parts));
    check([a, b], endpoint, |of| (of.at, of.ids[0], of.ids[1]));

    let delivery = |of: &Values| {
        let [first, second, third] = of.ids;
        keys::delivery_due(org(first), EndpointId(second), of.at, EventId(third))
    };
    let parts = (a.at, EventId(a.ids[2]));
    assert_eq!(keys::parse_delivery_due(&delivery(&a)), Some(parts));
    check([a, b], delivery, |of| {
        (of.ids[0], of.ids[1], of.at, of.ids[2])
    });

    let chat = |of: &Values| {
        let [first, second, third] = of.ids;
        keys::chat(org(first), WorkspaceId(second), ChatId(third))
    };
    let parts = (org(a.ids[0]), WorkspaceId(a.ids[1]), ChatId(a.ids[2]));
    assert_eq!(keys::parse_chat(&chat(&a)), Some(parts));
    check([a, b], chat, |of| of.ids);

    // A key for the whole organisation sorts before those for its workspaces.
    let place = |of: &Values| (of.at.as_millis() % 2 == 0).then_some(WorkspaceId(of.ids[2]));
    let holder = |of: &Values| {
        let [first, second, _] = of.ids;
        keys::holder(org(a.ids[0]), RoleId(first), MemberId(second), place(of))
    };
    let parts = (MemberId(a.ids[1]), place(&a));
    assert_eq!(keys::parse_holder(&holder(&a)), Some(parts));
    check([a, b], holder, |of| (of.ids[0], of.ids[1], place(of)));

    let recent = |of: &Values| {
        let [first, second, third] = of.ids;
        keys::chat_recent(org(first), WorkspaceId(second), of.at, ChatId(third))
    };
    check([a, b], recent, |of| {
        (of.ids[0], of.ids[1], of.at, of.ids[2])
    });
}

/// Checks that two keys have the order of their values, and are built again from their parts.
fn check<T: Ord>(values: [Values; 2], key: impl Fn(&Values) -> Key, value: impl Fn(&Values) -> T) {
    let [a, b] = &values;
    assert_eq!(
        key(a).cmp(&key(b)),
        value(a).cmp(&value(b)),
        "{a:?} and {b:?}"
    );
    assert_eq!(keys::rebuilt(&key(a)), Some(key(a)));
}
