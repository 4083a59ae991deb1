//! Options of a service.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use knowledge_core::limits::Limits;
use knowledge_core::model::{AddressPolicy, AuditReads, BaseUrl, IpNet, is_origin};
use knowledge_core::service::{Options, SealingKey};
use knowledge_core::store::read_json;
use serde::Deserialize;

/// Default of [`Limits::searched_memories_max`] here: the memory of such a host is small.
const SEARCHED_MEMORIES_MAX: u64 = 100_000;
/// Default of [`Limits::search_index_bytes_max`] here.
const SEARCH_INDEX_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The options as JSON. An unknown field is rejected, because it would have no effect.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GivenOptions {
    /// Key of 32 bytes, in base64.
    sealing_key: String,
    public_url: Option<String>,
    #[serde(default)]
    pub(crate) trusted_origins: Vec<String>,
    /// Header in which the host passes the address of the client.
    pub(crate) client_address_header: Option<String>,
    #[serde(default)]
    audit_reads: AuditReads,
    #[serde(default)]
    limits: GivenLimits,
    #[serde(default)]
    webhooks: GivenWebhooks,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GivenWebhooks {
    /// Address ranges, such as `10.1.0.0/16`.
    allow: Vec<String>,
    allow_http: bool,
}

impl GivenWebhooks {
    fn addresses(&self) -> Result<AddressPolicy, String> {
        let range = |text: &String| {
            let invalid =
                |_| format!("webhooks.allow: {text} must be an address range such as 10.1.0.0/16");
            text.parse::<IpNet>().map_err(invalid)
        };
        let allow = self.allow.iter().map(range).collect::<Result<_, _>>()?;
        let allow_http = self.allow_http;
        Ok(AddressPolicy { allow, allow_http })
    }
}

/// Defines the given limits from those that core declares.
macro_rules! define_given {
    ($(
        $(#[doc = $about:literal])+
        $name:ident: $type:ty = $default:expr, $unit:tt, $of:literal
        $(,
            $(#[doc = $more:literal])*
            field $field:ident $property:tt in $range:expr $(, setting $setting:literal)?
        )?;
    )+) => {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct GivenLimits {
            $($(
                #[serde(rename = $property)]
                $field: Option<u32>,
            )?)+
        }

        impl GivenLimits {
            fn over(&self, mut limits: Limits) -> Limits {
                $($(if let Some(given) = self.$field {
                    limits.$field = value!($unit, given);
                })?)+
                limits
            }
        }
    };
}

/// Returns the value of a limit: a time from its seconds, or a number.
macro_rules! value {
    (time, $seconds:expr) => {
        Duration::from_secs($seconds.into())
    };
    ($unit:tt, $number:expr) => {
        $number as _
    };
}

knowledge_core::limits!(define_given);

impl GivenOptions {
    pub(crate) fn parse(json: &str) -> Result<Self, String> {
        let given: Self =
            read_json(json.as_bytes()).map_err(|error| format!("invalid options: {error}"))?;
        match given.trusted_origins.iter().find(|text| !is_origin(text)) {
            Some(other) => Err(format!(
                "trustedOrigins: {other} must be an origin as browsers send it, such as \
                 https://app.example.com"
            )),
            None => Ok(given),
        }
    }

    pub(crate) fn options(&self) -> Result<Options, String> {
        let key = STANDARD.decode(&self.sealing_key).ok();
        let key: Option<[u8; 32]> = key.and_then(|bytes| bytes.try_into().ok());
        let key = key.ok_or("sealingKey must be 32 random bytes, raw or in base64")?;
        let url = self.public_url.as_deref().map(base_url).transpose()?;
        let mut options = Options::new(SealingKey::new(key));
        options.limits.searched_memories_max = SEARCHED_MEMORIES_MAX;
        options.limits.search_index_bytes_max = SEARCH_INDEX_BYTES_MAX;
        options.limits = self.limits.over(options.limits);
        options.public_url = url;
        options.audit_reads = self.audit_reads;
        options.webhook_addresses = self.webhooks.addresses()?;
        Ok(options)
    }
}

fn base_url(text: &str) -> Result<String, String> {
    // The text is not repeated: it may contain a password.
    let base = BaseUrl::parse(text).ok_or(
        "publicUrl must be an http or https URL without credentials or a query, such as \
         https://knowledge.example.com",
    )?;
    Ok(base.to_string())
}
