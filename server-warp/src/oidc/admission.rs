//! Admission of a person whom the provider has authenticated: as which member, with which teams and
//! roles.
//!
//! The handle of a member follows from the claim that identifies it, so that nothing has to be
//! stored to find the member again, and the handle of a removed member admits nobody.

use knowledge_core::Error;
use knowledge_core::access::RoleRef;
use knowledge_core::model::{
    Member, MemberId, MemberKind, OrgId, WorkspaceId, is_control_character, is_label_name,
};
use knowledge_core::service::{ClientInfo, Issued, KnowledgeService, NewMember, Provisioning};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::SignInError;
use super::groups::{Grant, GrantedRole, GroupGrant, normalized};
use super::id_token::Claims;
use super::settings::OidcConfig;
use crate::explain::explain;

/// Name of the sessions.
const SESSION_NAME: &str = "signed in with OpenID Connect";
/// Maximum length of the readable beginning of a derived handle, in bytes.
const READABLE_BYTES_MAX: usize = 39;
/// Number of hexadecimal digits at the end of a derived handle.
const DIGEST_DIGITS: usize = 24;
/// Maximum length of the claim that identifies a member, in bytes.
const IDENTITY_BYTES_MAX: usize = 512;

/// Finds or adds the member, brings its teams and roles in line with its groups, and creates a
/// session.
///
/// # Errors
/// [`SignInError::NotMember`]; [`SignInError::InvalidResponse`] for groups that cannot be read;
/// [`SignInError::Misconfigured`] if the organisation does not exist, or the member cannot have a
/// role or all of its teams; [`SignInError::Service`]. Nothing is changed then.
pub(super) async fn admit(
    service: &KnowledgeService,
    client: ClientInfo,
    config: &OidcConfig,
    organization: &str,
    claims: &Claims,
) -> Result<Issued, SignInError> {
    let handle = handle_of(&identity(config, claims)?);
    let provisioning = service.provisioning().with_client(client);
    let org = provisioning.organization(organization).await?;
    let missing = || format!("oidc.organization: {organization} does not exist");
    let org = org.ok_or_else(|| SignInError::Misconfigured(missing()))?;
    let stated = groups(config, claims)?;
    if stated.is_none() {
        if config.groups_required {
            return Err(SignInError::InvalidResponse(NO_GROUPS.to_owned()));
        }
        tracing::warn!(member = %handle, "{NO_GROUPS}; teams and roles stay as they are");
    }
    let is_decided = stated.is_some();
    let rules = Rules {
        provisioning,
        org: org.id,
        config,
        groups: stated.unwrap_or_default(),
    };
    let access = rules.access().await?;
    if is_decided && !access.is_known && !config.groups.is_empty() {
        let groups: Vec<String> = rules.groups.iter().map(|group| shown(group)).collect();
        let groups = groups.join(", ");
        tracing::info!(
            member = %handle,
            groups,
            "no item of oidc.groups has a group of the member"
        );
    }
    let member = match provisioning.member(org.id, &handle).await? {
        Some(member) => member,
        None => {
            let name = name(claims, &handle, service.limits().name_chars_max);
            rules.add(&handle, &name, &access).await?
        }
    };
    if member.kind != MemberKind::User {
        return Err(SignInError::NotMember("the member is a service account"));
    }
    if is_decided {
        align(provisioning, org.id, &member, &access).await?;
    }
    let session = provisioning.create_session(org.id, member.id, SESSION_NAME);
    Ok(session.await?)
}

/// Brings the teams and roles of a member in line with its groups. The log names a member whose
/// access changes; the audit log has the changes.
async fn align(
    provisioning: Provisioning<'_>,
    org: OrgId,
    member: &Member,
    access: &Access,
) -> Result<(), SignInError> {
    let handle = &member.handle;
    // The first change, and the only one that can be refused: the roles have been checked.
    let (managed, granted) = (&access.managed_teams, &access.teams);
    let aligned = provisioning.align_teams(org, member.id, managed, granted);
    if aligned.await.map_err(unfit)? {
        let teams = granted.join(", ");
        tracing::info!(member = %handle, teams, "a sign-in has changed the teams of a member");
    }
    for role in &access.roles {
        let (place, managed) = (role.workspace, &role.managed);
        let aligned = provisioning.align_role(org, member.id, place, managed, role.granted);
        if aligned.await.map_err(unfit)? {
            let place = place.map(|place| place.to_string());
            let role = role.granted.map(|role| role.to_string());
            tracing::info!(
                member = %handle,
                workspace = place,
                role = role.as_deref().unwrap_or("none"),
                "a sign-in has changed a role of a member"
            );
        }
    }
    Ok(())
}

/// Finds the member of a person, with its organisation, and changes nothing.
///
/// # Errors
/// [`SignInError::NotMember`] for a person who is none, and for a service account;
/// [`SignInError::Misconfigured`] if the organisation does not exist; [`SignInError::Service`].
pub(super) async fn member_of(
    service: &KnowledgeService,
    config: &OidcConfig,
    organization: &str,
    claims: &Claims,
) -> Result<(OrgId, MemberId), SignInError> {
    let handle = handle_of(&identity(config, claims)?);
    let provisioning = service.provisioning();
    let org = provisioning.organization(organization).await?;
    let missing = || format!("oidc.organization: {organization} does not exist");
    let org = org.ok_or_else(|| SignInError::Misconfigured(missing()))?;
    let member = provisioning.member(org.id, &handle).await?;
    let member = member.ok_or(SignInError::NotMember("no member has this handle"))?;
    if member.kind != MemberKind::User {
        return Err(SignInError::NotMember("the member is a service account"));
    }
    Ok((org.id, member.id))
}

/// Returns the value of the claim that identifies the member.
fn identity(config: &OidcConfig, claims: &Claims) -> Result<String, SignInError> {
    let value = claims.get(&config.member_claim).and_then(Value::as_str);
    let value = value.filter(|value| (1..=IDENTITY_BYTES_MAX).contains(&value.len()));
    let value = value.ok_or(SignInError::NotMember(
        "the provider does not state the claim of oidc.member_claim",
    ))?;
    if config.member_claim != "email" {
        return Ok(value.to_owned());
    }
    match claims.get("email_verified") {
        // Letters beyond ASCII stay as they are: some of them become those of another address.
        Some(Value::Bool(true)) if value.contains('@') => Ok(value.to_ascii_lowercase()),
        Some(Value::String(_)) => Err(SignInError::NotMember(
            "the provider states email_verified as a text, not as true or false, which proves \
             nothing; let it state the claim in the ID token",
        )),
        _ => Err(SignInError::NotMember(
            "the provider has not verified an email address",
        )),
    }
}

/// Returns the handle of the member with this identity.
///
/// An identity that is a handle is its own. For another one, the handle ends with a digest of the
/// identity, so that no two identities have one handle.
fn handle_of(identity: &str) -> String {
    if is_label_name(identity) && !ends_with_digest(identity) {
        return identity.to_owned();
    }
    let readable = |char: char| match char.to_ascii_lowercase() {
        char @ ('a'..='z' | '0'..='9' | '.' | '_') => char,
        _ => '-',
    };
    let begin: String = identity
        .chars()
        .map(readable)
        .take(READABLE_BYTES_MAX)
        .collect();
    let digest = Sha256::digest(identity);
    let mut digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(DIGEST_DIGITS);
    format!("{begin}-{digits}")
}

/// Returns true for the form of derived handles.
fn ends_with_digest(handle: &str) -> bool {
    let (_, end) = handle.rsplit_once('-').unwrap_or_default();
    end.len() == DIGEST_DIGITS && end.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the name of a person for a new member: without the characters that no name may have, and
/// cut to the limit. The handle takes the place of a name without a letter or a digit.
fn name(claims: &Claims, handle: &str, chars_max: usize) -> String {
    let stated = claims.get("name").and_then(Value::as_str);
    let is_permitted = |char: &char| !is_control_character(*char);
    let name: String = stated
        .unwrap_or_default()
        .chars()
        .filter(is_permitted)
        .skip_while(|char| char.is_whitespace())
        .take(chars_max)
        .collect();
    if name.contains(char::is_alphanumeric) {
        name.trim_end().to_owned()
    } else {
        handle.chars().take(chars_max).collect()
    }
}

/// Message about a person whose groups are unknown.
const NO_GROUPS: &str = "the provider does not state the claim of oidc.groups_claim";

/// Returns a name of the provider for a line of the log.
fn shown(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}

/// Returns the groups of a person, a list of texts or one text, in one spelling; `None` if the
/// provider does not state them.
///
/// # Errors
/// [`SignInError::InvalidResponse`] for anything else, and for groups that are stated elsewhere
/// (OpenID Connect Core 1.0, section 5.6.2): the member would lose what its groups grant.
fn groups(config: &OidcConfig, claims: &Claims) -> Result<Option<Vec<String>>, SignInError> {
    let name = &config.groups_claim;
    if config.groups.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let elsewhere = claims.get("_claim_names").and_then(|names| names.get(name));
    if elsewhere.is_some() {
        let message = "the groups are not in the ID token, but stated elsewhere (_claim_names)";
        return Err(SignInError::InvalidResponse(message.to_owned()));
    }
    let groups: Option<Vec<&str>> = match claims.get(name) {
        Some(Value::Array(items)) => items.iter().map(Value::as_str).collect(),
        Some(Value::String(group)) => Some(vec![group.as_str()]),
        Some(_) => None,
        None => return Ok(None),
    };
    let groups = groups.ok_or_else(|| {
        let message = "the claim of oidc.groups_claim is not a list of texts";
        SignInError::InvalidResponse(message.to_owned())
    })?;
    Ok(Some(groups.into_iter().map(normalized).collect()))
}

/// Teams and roles of a person, and those that the configuration manages.
struct Access {
    managed_teams: Vec<String>,
    teams: Vec<String>,
    roles: Vec<ManagedRole>,
    /// Role in the organisation of a new member.
    first_role: RoleRef,
    /// True if a group of the configuration is one of the person.
    is_known: bool,
}

/// A role in the organisation, or in a workspace, that the configuration decides about.
struct ManagedRole {
    workspace: Option<WorkspaceId>,
    managed: Vec<RoleRef>,
    granted: Option<RoleRef>,
}

/// A role of the configuration.
#[derive(Clone, Copy)]
struct FoundRole {
    role: RoleRef,
    /// True if it is active, and can be held in its place.
    is_grantable: bool,
}

/// The configuration, applied to the groups of a person.
struct Rules<'r> {
    provisioning: Provisioning<'r>,
    org: OrgId,
    config: &'r OidcConfig,
    groups: Vec<String>,
}

impl Rules<'_> {
    fn applies(&self, rule: &GroupGrant) -> bool {
        self.groups.contains(&rule.group)
    }

    async fn access(&self) -> Result<Access, SignInError> {
        let rules = &self.config.groups;
        let default = &self.config.default_role;
        let first_role = self.role(default, None).await?;
        let mut access = Access {
            managed_teams: Vec::new(),
            teams: Vec::new(),
            roles: Vec::new(),
            first_role: grantable(default, first_role)?,
            is_known: rules.iter().any(|rule| self.applies(rule)),
        };
        let mut places: Vec<&Option<String>> = Vec::new();
        for rule in rules {
            match &rule.grant {
                Grant::Team(team) => {
                    access.managed_teams.push(team.clone());
                    if self.applies(rule) && !access.teams.contains(team) {
                        access.teams.push(team.clone());
                    }
                }
                Grant::Role(_, place) if !places.contains(&place) => places.push(place),
                Grant::Role(..) => {}
            }
        }
        for place in places {
            let Some(mut role) = self.role_in(place).await? else {
                continue;
            };
            if place.is_none() {
                role.managed.push(access.first_role);
                access.first_role = role.granted.unwrap_or(access.first_role);
                role.granted = Some(access.first_role);
            }
            access.roles.push(role);
        }
        Ok(access)
    }

    /// Returns what the rules decide about the role in the organisation, or in a workspace; `None`
    /// for a workspace that does not exist, to which nothing gives access.
    async fn role_in(&self, place: &Option<String>) -> Result<Option<ManagedRole>, SignInError> {
        let workspace = match place {
            Some(slug) => match self.provisioning.workspace(self.org, slug).await? {
                Some(found) => Some(found.id),
                None => {
                    tracing::warn!(workspace = slug, "oidc.groups names an unknown workspace");
                    return Ok(None);
                }
            },
            None => None,
        };
        let mut decided = ManagedRole {
            workspace,
            managed: Vec::new(),
            granted: None,
        };
        for rule in &self.config.groups {
            let Grant::Role(role, found) = &rule.grant else {
                continue;
            };
            if found != place {
                continue;
            }
            let is_granted = self.applies(rule) && decided.granted.is_none();
            let found = self.role(role, workspace).await?;
            decided.managed.extend(found.map(|found| found.role));
            if is_granted {
                // The role that would be held instead may allow more.
                decided.granted = Some(grantable(role, found)?);
            }
        }
        Ok(Some(decided))
    }

    /// Finds a role for this workspace, or for the organisation.
    async fn role(
        &self,
        role: &GrantedRole,
        place: Option<WorkspaceId>,
    ) -> Result<Option<FoundRole>, SignInError> {
        let slug = match role {
            GrantedRole::BuiltIn(role) => {
                return Ok(Some(FoundRole {
                    role: RoleRef::BuiltIn(*role),
                    is_grantable: true,
                }));
            }
            GrantedRole::Custom(slug) => slug,
        };
        let found = self.provisioning.custom_role(self.org, slug).await?;
        Ok(found.map(|found| {
            let only = found.workspace_id;
            FoundRole {
                role: RoleRef::Custom(found.id),
                is_grantable: found.is_active && (only.is_none() || only == place),
            }
        }))
    }

    /// Adds a member, if the configuration allows it.
    async fn add(&self, handle: &str, name: &str, access: &Access) -> Result<Member, SignInError> {
        if !self.config.create_members || !access.is_known {
            return Err(SignInError::NotMember("no member has this handle"));
        }
        let new = NewMember::builder()
            .handle(handle)
            .name(name)
            .role(access.first_role)
            .teams(access.teams.clone())
            .build();
        match self.provisioning.create_member(self.org, &new).await {
            Ok(member) => Ok(member),
            // The handle stays taken when a member is removed. Or another sign-in was faster.
            Err(Error::SlugTaken { .. }) => {
                let found = self.provisioning.member(self.org, handle).await?;
                found.ok_or(SignInError::NotMember("the member has been removed"))
            }
            Err(error) => Err(unfit(error)),
        }
    }
}

/// Returns a role that is granted.
///
/// # Errors
/// [`SignInError::Misconfigured`] if it cannot be.
fn grantable(role: &GrantedRole, found: Option<FoundRole>) -> Result<RoleRef, SignInError> {
    let found = found.filter(|found| found.is_grantable);
    let unfit = || format!("the role {role} does not exist, is inactive or is of another place");
    let found = found.ok_or_else(|| SignInError::Misconfigured(unfit()))?;
    Ok(found.role)
}

/// Returns the error of a change that the service rejects: only the configuration leads to one.
fn unfit(error: Error) -> SignInError {
    match error {
        Error::InvalidRequest { .. } => SignInError::Misconfigured(explain(&error)),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn identities_have_different_handles() {
        let identities = [
            "grace",
            "Grace",
            "grace@example.com",
            "grace-example.com",
            "grace.example.com",
            "auth0|507f1f77bcf86cd799439011",
            "00u1abCD",
            "00u1abcd",
            "\u{e9}",
            "a b",
            "-",
            &"x".repeat(64),
            &"x".repeat(65),
            &handle_of("Grace"),
            &handle_of(&handle_of("Grace")),
        ];
        let mut handles: Vec<_> = identities.map(handle_of).into();
        for handle in &handles {
            assert!(is_label_name(handle), "{handle}");
        }
        assert_eq!(handles[0], "grace");
        assert!(
            handles[2].starts_with("grace-example.com-"),
            "{}",
            handles[2]
        );
        handles.sort();
        handles.dedup();
        assert_eq!(handles.len(), identities.len());
    }

    #[test]
    fn name_of_a_person_satisfies_the_rule_of_names() {
        let of = |stated: Value, chars_max| {
            let claims = json!({ "name": stated });
            name(claims.as_object().expect("an object"), "grace", chars_max)
        };
        assert_eq!(of(json!(" Grace Hopper "), 128), "Grace Hopper");
        assert_eq!(
            of(json!("Grace\u{202e}\u{2066}\n Hopper\u{2028}"), 128),
            "Grace Hopper"
        );
        assert_eq!(of(json!(" \u{202e} Grace Hopper"), 6), "Grace");
        assert_eq!(of(json!("\u{e9}".repeat(200)), 128), "\u{e9}".repeat(128));
        for other in [
            json!(""),
            json!(" \n"),
            json!("\u{202e}"),
            json!("\u{200b}\u{feff}\u{2060}"),
            json!(null),
            json!(["Grace"]),
        ] {
            assert_eq!(of(other.clone(), 128), "grace", "{other}");
            assert_eq!(of(other, 3), "gra");
        }
    }

    #[test]
    fn groups_that_cannot_be_read_are_refused() {
        let config = OidcConfig {
            groups: vec!["a = team:a".parse().expect("a grant")],
            ..OidcConfig::default()
        };
        let of = |config: &OidcConfig, claims: &Value| {
            let claims = claims.as_object().expect("an object");
            let groups = groups(config, claims);
            let shown = |groups: Option<Vec<String>>| {
                groups.map_or("?".to_owned(), |groups| groups.join(","))
            };
            groups.ok().map(shown)
        };
        for (claims, expected) in [
            (json!({ "groups": ["a", "b"] }), Some("a,b")),
            (json!({ "groups": "a" }), Some("a")),
            (json!({ "groups": [] }), Some("")),
            (json!({ "groups": "cafe\u{301}" }), Some("caf\u{e9}")),
            (json!({}), Some("?")),
            (json!({ "_claim_names": { "other": "src1" } }), Some("?")),
            (json!({ "_claim_names": { "groups": "src1" } }), None),
            (json!({ "groups": null }), None),
            (json!({ "groups": 7 }), None),
            (json!({ "groups": { "a": true } }), None),
            (json!({ "groups": ["a", 7] }), None),
            (json!({ "groups": [["a"]] }), None),
        ] {
            assert_eq!(of(&config, &claims).as_deref(), expected, "{claims}");
            // Without a configured group the claim has no meaning.
            assert_eq!(of(&OidcConfig::default(), &claims).as_deref(), Some(""));
        }
    }

    #[test]
    fn email_identifies_only_when_verified() {
        let config = OidcConfig {
            member_claim: "email".to_owned(),
            ..OidcConfig::default()
        };
        let of = |claims: Value| identity(&config, claims.as_object().expect("an object")).ok();
        let email = "Grace@Example.com";
        let verified = of(json!({ "email": email, "email_verified": true }));
        assert_eq!(verified.as_deref(), Some("grace@example.com"));
        // The KELVIN SIGN becomes a `k` in lower case, but in another address.
        let kelvin = of(json!({ "email": "\u{212a}ai@example.com", "email_verified": true }));
        let kai = of(json!({ "email": "Kai@example.com", "email_verified": true }));
        assert_eq!(kai.as_deref(), Some("kai@example.com"));
        assert_eq!(kelvin.as_deref(), Some("\u{212a}ai@example.com"));
        let text = json!({ "email": email, "email_verified": "true" });
        let text = identity(&config, text.as_object().expect("an object"));
        let reason = text.expect_err("it stays closed").to_string();
        assert!(reason.contains("email_verified as a text"), "{reason}");
        for other in [
            json!({ "email": email }),
            json!({ "email": email, "email_verified": false }),
            json!({ "email": email, "email_verified": "true" }),
            json!({ "email_verified": true }),
            json!({ "email": "", "email_verified": true }),
            json!({ "email": "grace", "email_verified": true }),
            json!({ "email": [email], "email_verified": true }),
        ] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
    }
}
