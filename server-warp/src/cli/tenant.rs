//! The organisation of a command, found by the names that users type.

use knowledge_core::access::{BuiltInRole, Credential, RoleRef};
use knowledge_core::env::Env;
use knowledge_core::model::{Member, Organization, Workspace};
use knowledge_core::service::KnowledgeService;

use super::failure::Failure;
use super::settings::DataArgs;
use crate::logging::{self, LogConfig, LogFormat};

/// Selection of an organisation.
#[derive(Debug, clap::Args)]
pub(super) struct TenantArgs {
    /// Slug of the organisation; optional if there is only one
    #[arg(long, value_name = "SLUG")]
    org: Option<String>,

    #[command(flatten)]
    data: DataArgs,
}

/// An organisation in an open store.
pub(super) struct Tenant {
    pub(super) service: KnowledgeService,
    pub(super) org: Organization,
    members: Vec<Member>,
}

/// Sets up the log of a short-lived command: warnings and errors only.
pub(super) fn quiet_log() -> Result<(), Failure> {
    logging::init(&LogConfig {
        level: "warn".to_owned(),
        format: LogFormat::Text,
    })?;
    Ok(())
}

/// Opens the store for a short-lived command.
async fn open_service(data: DataArgs) -> Result<KnowledgeService, Failure> {
    quiet_log()?;
    let config = data.load()?.config;
    let data = config.data().open_existing().await?;
    let options = data.options(config.limits);
    Ok(data.service(Env::system(), options).await?)
}

impl TenantArgs {
    pub(super) async fn open(self) -> Result<Tenant, Failure> {
        let service = open_service(self.data).await?;
        let mut all = service.provisioning().organizations().await?;
        let all_known = || known(all.iter().map(|org| org.slug.as_str()));
        let found = match &self.org {
            Some(slug) => all.iter().position(|org| org.slug == *slug),
            None if all.len() == 1 => Some(0),
            None if all.is_empty() => {
                return Err(Failure::new(
                    "there is no organisation; create one with `knowledge init`",
                ));
            }
            None => {
                let message = format!(
                    "there are several organisations; choose one with --org: {}",
                    all_known()
                );
                return Err(Failure::usage(message));
            }
        };
        let Some(index) = found else {
            let slug = self.org.unwrap_or_default();
            return Err(Failure::new(format!(
                "unknown organisation {slug:?}; known organisations: {}",
                all_known()
            )));
        };
        let org = all.swap_remove(index);
        let members = service.provisioning().members(org.id).await?;
        Ok(Tenant {
            service,
            org,
            members,
        })
    }
}

impl Tenant {
    /// Returns the member with this handle.
    pub(super) fn member(&self, handle: &str) -> Result<&Member, Failure> {
        let found = self.members.iter().find(|member| member.handle == handle);
        found.ok_or_else(|| {
            Failure::new(format!(
                "{} has no member {handle:?}; its members: {}",
                self.org.slug,
                known(self.members.iter().map(|member| member.handle.as_str()))
            ))
        })
    }

    /// Returns a credential for the member with this handle, or for an owner.
    pub(super) fn act_as(&self, handle: Option<&str>) -> Result<Credential, Failure> {
        let member = match handle {
            Some(handle) => self.member(handle)?,
            None => {
                let owner = RoleRef::BuiltIn(BuiltInRole::Owner);
                let found = self.members.iter().find(|member| member.role == owner);
                found.ok_or_else(|| {
                    Failure::new("the organisation has no owner; choose a member with --as")
                })?
            }
        };
        Ok(Credential::Trusted {
            org: self.org.id,
            member: member.id,
        })
    }

    /// Returns the workspace with this slug or identifier.
    pub(super) async fn workspace(&self, name: &str) -> Result<Workspace, Failure> {
        let mut all = self.service.provisioning().workspaces(self.org.id).await?;
        let found = all
            .iter()
            .position(|workspace| workspace.slug == name || workspace.id.to_string() == name);
        match found {
            Some(index) => Ok(all.swap_remove(index)),
            None => Err(Failure::new(format!(
                "{} has no workspace {name:?}; its workspaces: {}",
                self.org.slug,
                known(all.iter().map(|workspace| workspace.slug.as_str()))
            ))),
        }
    }
}

/// Joins names in alphabetical order as `a, b, c`, and abbreviates long lists.
pub(super) fn known<'n>(names: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 20;
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    match names.len() {
        0 => "none".to_owned(),
        count if count > SHOWN => {
            format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN)
        }
        _ => names.join(", "),
    }
}
