//! Admission of a person whom the provider has authenticated: as which member, with which teams and
//! roles.
//!
//! The handle of a member follows from the claim that identifies it, so that nothing has to be
//! stored to find the member again, and the handle of a removed member admits nobody.

use knowledge_core::Error;
use knowledge_core::access::RoleRef;
use knowledge_core::model::{Member, MemberKind, OrgId, WorkspaceId, is_label_name};
use knowledge_core::service::{Issued, KnowledgeService, NewMember, Provisioning};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::SignInError;
use super::groups::{Grant, GrantedRole, GroupGrant};
use super::id_token::Claims;
use super::settings::OidcConfig;

/// Name of the sessions.
const SESSION_NAME: &str = "signed in with OpenID Connect";
/// Maximum length of the readable beginning of a derived handle, in bytes.
const READABLE_BYTES_MAX: usize = 39;
/// Number of hexadecimal digits at the end of a derived handle.
const DIGEST_DIGITS: usize = 24;
/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Maximum length of the claim that identifies a member, in bytes.
const IDENTITY_BYTES_MAX: usize = 512;

/// Finds or adds the member, brings its teams and roles in line with its groups, and creates a
/// session.
///
/// # Errors
/// [`SignInError::NotMember`]; [`SignInError::Misconfigured`] if the organisation or a role of the
/// member does not exist, before anything is changed; [`SignInError::Service`].
pub(super) async fn admit(
    service: &KnowledgeService,
    config: &OidcConfig,
    organization: &str,
    claims: &Claims,
) -> Result<Issued, SignInError> {
    let handle = handle_of(&identity(config, claims)?);
    let provisioning = service.provisioning();
    let org = provisioning.organization(organization).await?;
    let missing = || format!("oidc.organization: {organization} does not exist");
    let org = org.ok_or_else(|| SignInError::Misconfigured(missing()))?;
    let rules = Rules {
        provisioning,
        org: org.id,
        config,
        groups: groups(claims.get(&config.groups_claim)),
    };
    let access = rules.access().await?;
    let member = match provisioning.member(org.id, &handle).await? {
        Some(member) => member,
        None => rules.add(&handle, &name(claims, &handle), &access).await?,
    };
    if member.kind != MemberKind::User {
        return Err(SignInError::NotMember("the member is a service account"));
    }
    provisioning
        .align_teams(org.id, member.id, &access.managed_teams, &access.teams)
        .await?;
    for role in &access.roles {
        provisioning
            .align_role(
                org.id,
                member.id,
                role.workspace,
                &role.managed,
                role.granted,
            )
            .await?;
    }
    let session = provisioning.create_session(org.id, member.id, SESSION_NAME);
    Ok(session.await?)
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

/// Returns the name of a person for a new member.
fn name(claims: &Claims, handle: &str) -> String {
    let name = claims
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = name.trim().chars().filter(|char| !char.is_control());
    let name: String = name.take(NAME_CHARS_MAX).collect();
    match name.trim().is_empty() {
        true => handle.to_owned(),
        false => name.trim().to_owned(),
    }
}

/// Returns the groups of a claim: a list of texts, or one text.
fn groups(claim: Option<&Value>) -> Vec<&str> {
    match claim {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(group)) => vec![group],
        _ => Vec::new(),
    }
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

/// The configuration, applied to the groups of a person.
struct Rules<'r> {
    provisioning: Provisioning<'r>,
    org: OrgId,
    config: &'r OidcConfig,
    groups: Vec<&'r str>,
}

impl Rules<'_> {
    fn applies(&self, rule: &GroupGrant) -> bool {
        self.groups.contains(&rule.group.as_str())
    }

    async fn access(&self) -> Result<Access, SignInError> {
        let rules = &self.config.groups;
        let default = &self.config.default_role;
        let first_role = self.role(default).await?;
        let mut access = Access {
            managed_teams: Vec::new(),
            teams: Vec::new(),
            roles: Vec::new(),
            first_role: first_role.ok_or_else(|| missing_role(default))?,
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
            match self.role(role).await? {
                Some(role) => {
                    decided.managed.push(role);
                    decided.granted = decided.granted.or(is_granted.then_some(role));
                }
                // The role that would be held instead may allow more.
                None if is_granted => return Err(missing_role(role)),
                None => {}
            }
        }
        Ok(Some(decided))
    }

    /// Finds a role; `None` if it does not exist or is inactive.
    async fn role(&self, role: &GrantedRole) -> Result<Option<RoleRef>, SignInError> {
        match role {
            GrantedRole::BuiltIn(role) => Ok(Some(RoleRef::BuiltIn(*role))),
            GrantedRole::Custom(slug) => {
                let found = self.provisioning.custom_role(self.org, slug).await?;
                let found = found.filter(|role| role.is_active);
                Ok(found.map(|role| RoleRef::Custom(role.id)))
            }
        }
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
            Err(error) => Err(error.into()),
        }
    }
}

fn missing_role(role: &GrantedRole) -> SignInError {
    SignInError::Misconfigured(format!("the role {role} does not exist, or is inactive"))
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
    fn email_identifies_only_when_verified() {
        let config = OidcConfig {
            member_claim: "email".to_owned(),
            ..OidcConfig::default()
        };
        let of = |claims: Value| identity(&config, claims.as_object().expect("an object")).ok();
        let email = "Grace@Example.com";
        let verified = of(json!({ "email": email, "email_verified": true }));
        assert_eq!(verified.as_deref(), Some("grace@example.com"));
        for other in [
            json!({ "email": email }),
            json!({ "email": email, "email_verified": false }),
            json!({ "email": email, "email_verified": "true" }),
            json!({ "email_verified": true }),
            json!({ "email": "", "email_verified": true }),
            json!({ "email": [email], "email_verified": true }),
        ] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
    }
}
