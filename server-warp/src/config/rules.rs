//! Rules between settings, one function for each section that has any. The values by themselves
//! are valid.

use std::path::absolute;

#[cfg(feature = "oidc")]
use knowledge_core::limits::TEAMS_PER_MEMBER_MAX;

use super::{Check, Config, format_size, format_time};
use crate::logging::{self, LogError};
use crate::store_address::StoreAddress;

/// Path of the setting with the store's address.
pub(super) const STORE: &str = "storage.store";
/// Path of the setting with the store's directory only.
pub(super) const DATA_DIR: &str = "storage.data_dir";

pub(super) fn server(config: &Config, check: &mut Check<'_>) {
    let body_bytes_max = config.limits.body_bytes_max;
    if config.net.body_bytes_held_max < body_bytes_max {
        let least = format_size(body_bytes_max as u64);
        check.reject(
            "server.body_bytes_held_max",
            &["limits.body_bytes_max"],
            &format!("must be at least limits.body_bytes_max, {least}"),
        );
    }
}

pub(super) fn tls(config: &Config, check: &mut Check<'_>) {
    const FILES: &[&str] = &["tls.certificate_file", "tls.private_key_file"];
    if let Some((path, requirement)) = config.net.tls.problem() {
        check.reject(path, FILES, &format!("must be {requirement}"));
    }
}

pub(super) fn cors(config: &Config, check: &mut Check<'_>) {
    let cors = &config.net.cors;
    if !cors.allows_any() {
        return;
    }
    if cors.origins.len() > 1 {
        check.reject("cors.origins", &[], "must not combine * with other origins");
    }
    if cors.credentials {
        let requirement = "must be false if cors.origins is *; list the origins";
        check.reject("cors.credentials", &["cors.origins"], requirement);
    }
}

pub(super) fn rate_limit(config: &Config, check: &mut Check<'_>) {
    if config.net.rate_limit.window.subsec_nanos() > 0 {
        check.reject("rate_limit.window", &[], "must be in whole seconds");
    }
}

pub(super) fn sign_in(config: &Config, check: &mut Check<'_>) {
    if config.session_timeouts.idle.subsec_nanos() > 0 {
        check.reject("sign_in.idle_timeout", &[], "must be in whole seconds");
    }
}

#[cfg(feature = "oidc")]
pub(super) fn oidc(config: &Config, check: &mut Check<'_>) {
    let oidc = &config.oidc;
    if oidc.issuer.is_some() {
        for (path, is_missing) in [
            ("oidc.client_id", oidc.client_id.is_none()),
            ("oidc.organization", oidc.organization.is_none()),
            ("server.public_url", config.public_url.is_none()),
        ] {
            if is_missing {
                check.reject(path, &["oidc.issuer"], "must be set if oidc.issuer is");
            }
        }
    }
    if let Some(segment) = oidc
        .issuer
        .as_ref()
        .and_then(|issuer| issuer.segment_of_any_tenant())
    {
        let message = format!(
            "must be that of your tenant: put its identifier in place of {segment}, whose tokens \
             are of any tenant"
        );
        check.reject("oidc.issuer", &[], &message);
    }
    // A member of all groups could not sign in.
    if oidc.team_count() > TEAMS_PER_MEMBER_MAX {
        let message = format!("must have at most {TEAMS_PER_MEMBER_MAX} teams");
        check.reject("oidc.groups", &[], &message);
    }
    // They are joined by spaces.
    let is_scope = |scope: &String| scope.bytes().all(|byte| byte.is_ascii_graphic());
    if !oidc.scopes.iter().all(is_scope) {
        check.reject("oidc.scopes", &[], "must be without spaces and in ASCII");
    }
}

pub(super) fn storage(config: &Config, check: &mut Check<'_>) {
    if config.store.is_some() && check.has_one_source(STORE, DATA_DIR) {
        let reason = "conflicts with storage.store; set only one of them";
        check.reject(DATA_DIR, &[STORE], reason);
    }
    partitions(config, check);
    #[cfg(feature = "postgres")]
    if let Some(StoreAddress::Postgres(address)) = &config.store
        && let Err(error) = config.data.postgres.options(address)
    {
        check.reject(STORE, &[], &format!("cannot be used: {error}"));
    }
}

fn partitions(config: &Config, check: &mut Check<'_>) {
    const PARTITIONS: &str = "storage.partitions";
    let partitions = &config.data.partitions;
    let stores: Vec<_> = partitions.iter().map(|it| &it.store).collect();
    let home = config.data().store;
    let is_used_twice = |(index, store): (usize, &&StoreAddress)| {
        let mut others = stores[..index].iter().copied().chain([&home]);
        others.any(|other| is_same_store(store, other))
    };
    if stores.iter().enumerate().any(is_used_twice) {
        let reason = "must name each store once, and not that of storage.store; dump and verify \
                      take a partition by --partition NAME";
        check.reject(PARTITIONS, &[STORE], reason);
    }
    if stores.contains(&&StoreAddress::Memory) {
        let reason = "must not name memory:, which would lose the organisations moved there";
        check.reject(PARTITIONS, &[STORE], reason);
    }
    #[cfg(feature = "postgres")]
    for partition in partitions {
        if let StoreAddress::Postgres(address) = &partition.store
            && let Err(error) = config.data.postgres.options(address)
        {
            let reason = format!("cannot be used: {}: {error}", partition.name);
            check.reject(PARTITIONS, &[], &reason);
        }
    }
}

/// True if both are one store; a directory is one whatever its engine.
fn is_same_store(one: &StoreAddress, other: &StoreAddress) -> bool {
    let directory = |store: &StoreAddress| absolute(store.directory()?).ok();
    match (directory(one), directory(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

pub(super) fn limits(config: &Config, check: &mut Check<'_>) {
    let limits = &config.limits;
    if limits.audit_retention < limits.idempotency_retention {
        let least = format_time(limits.idempotency_retention);
        check.reject(
            "limits.audit_retention",
            &["limits.idempotency_retention"],
            &format!("must be at least limits.idempotency_retention, {least}"),
        );
    }
}

pub(super) fn log(config: &Config, check: &mut Check<'_>) {
    if let Err(LogError::Level { level, reason }) = logging::check(&config.log) {
        let requirement =
            format!("must be a level or directives by target, not {level:?}: {reason}");
        check.reject("log.level", &[], &requirement);
    }
}

pub(super) fn metrics(config: &Config, check: &mut Check<'_>) {
    let listen = config.net.address;
    if config.metrics_listen == Some(listen) && listen.port() != 0 {
        let requirement = "must be another address than server.listen";
        check.reject("metrics.listen", &["server.listen"], requirement);
    }
}
