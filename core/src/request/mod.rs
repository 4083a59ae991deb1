//! Bodies of requests, each declared once by [`request!`]; an invented one:
//!
//! ```text
//! request! {
//!     /// A new custom role.                           // description of the body
//!     pub struct NewRole {
//!         name: String as Name,                        // type in Rust, and rule of the values
//!         reassign_to: Option<RoleRef> as Option<Parsed<RoleRef>>,          // optional
//!         source_id ("sourceId"): SourceId as Id<SourceId>,                 // name in JSON
//!         description: String as Description = String::new(),               // default
//!         #[schemars(with = "Target")]                 // schema, if it is not the rule's
//!         target: RoleRef as Parsed<RoleRef>,
//!     }
//!     check NewRole::check_names;                      // function that checks fields together
//! }
//! ```
//!
//! The rule of a field, a [`Field`](rules::Field), says how it is read, checked, written and
//! described. From the declaration follow the struct with its builder, `Serialize` and
//! `Deserialize`, the reader that collects every problem, the schema, and `validate`.
//!
//! Reading a body finds missing fields, unknown fields and values of wrong types. The service
//! checks the rest, which depends on its limits. Only a body that cannot be read is checked while
//! it is read, so that its response lists all problems.

mod checks;
mod fields;
mod lists;
mod path;
mod problems;
pub(crate) mod rules;
mod values;

use serde_json::{Map, Value};

pub(crate) use self::checks::Checks;
use self::fields::read_object;
pub(crate) use self::fields::{Fields, Reading, Request};
pub(crate) use self::path::Path;
pub(crate) use self::problems::Problems;
pub(crate) use self::values::name_of_type;
use crate::error::Error;

impl Checks<'_> {
    /// Checks a request by itself.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with all problems.
    pub(crate) fn check<T: Request>(&self, request: &T) -> Result<(), Error> {
        let mut problems = Problems::default();
        request.check(Path::ROOT, self, &mut problems);
        problems.into_result()
    }

    /// Checks one value, as the field `name` of a request.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] with all problems.
    pub(crate) fn value<F: rules::Field>(
        &self,
        name: &'static str,
        value: &F::Value,
    ) -> Result<(), Error> {
        let mut problems = Problems::default();
        F::check(value, name, Path::ROOT, self, &mut problems);
        problems.into_result()
    }
}

/// Reads a request from a JSON object in which `found` problems are known.
///
/// # Errors
/// [`Error::InvalidRequest`] with all problems: missing and unknown fields, values of wrong types,
/// and, if there are any, values that fail a check.
pub(crate) fn read<T: Request>(
    object: &Map<String, Value>,
    found: Problems,
    checks: Option<&Checks<'_>>,
) -> Result<T, Error> {
    let mut reading = Reading {
        checks: None,
        problems: Problems::default(),
    };
    let request = read_object(object, Path::ROOT, &mut reading);
    if found.is_empty() && reading.problems.is_empty() {
        return request.ok_or_else(|| Error::internal("a body without problems has no value"));
    }
    let mut reading = Reading {
        checks: checks.copied(),
        problems: found,
    };
    read_object::<T>(object, Path::ROOT, &mut reading);
    reading.problems.into_result()?;
    Err(Error::internal("a problem of a body disappeared"))
}

/// Declares the body of a request, as in the example at the top of this file.
///
/// A field is optional if its rule is an `Option`, or if it has a default.
macro_rules! request {
    (
        $(#[doc = $doc:literal])*
        $(#[derive($($derived:ident),+)])?
        $(#[schemars($($schema:tt)+)])*
        $visibility:vis struct $name:ident {$(
            $(#[doc = $field_doc:literal])*
            $(#[builder($($builder:tt)+)])?
            $(#[schemars($($field_schema:tt)+)])*
            $field:ident $(($json:literal))?: $type:ty as $rule:ty $(= $default:expr)?
        ),* $(,)?}
        $(check $check:path;)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq $(, $($derived),+)?, bon::Builder)]
        #[builder(on(String, into))]
        #[non_exhaustive]
        $visibility struct $name {$(
            $(#[doc = $field_doc])*
            $(#[builder($($builder)+)])?
            $(#[builder(default = $default)])?
            $visibility $field: $type,
        )*}

        impl $name {
            /// Checks the request against limits and collects all problems.
            ///
            /// The service makes the same check, and checks the addresses of webhooks too.
            ///
            /// # Errors
            /// [`InvalidRequest`](crate::Error::InvalidRequest).
            pub fn validate(&self, limits: &$crate::limits::Limits) -> Result<(), $crate::Error> {
                $crate::request::Checks { limits, addresses: None }.check(self)
            }
        }

        impl $crate::request::Request for $name {
            const IS_REQUIRED: bool =
                false $(|| $crate::request::request!(@required $rule $(, $default)?))*;

            fn read(fields: &mut $crate::request::Fields<'_, '_>) -> Option<Self> {
                $crate::request::request!(@together fields $(, $check)?; {
                    $(let $field = $crate::request::request!(
                        @take fields, $rule, $crate::request::request!(@json $field $($json)?)
                        $(, $default)?
                    );)*
                    Some(Self {$($field: $field?),*})
                })
            }

            fn check(
                &self,
                path: &$crate::request::Path<'_>,
                checks: &$crate::request::Checks<'_>,
                problems: &mut $crate::request::Problems,
            ) {
                $(<$rule as $crate::request::rules::Field>::check(
                    &self.$field,
                    $crate::request::request!(@json $field $($json)?),
                    path,
                    checks,
                    problems,
                );)*
                $($check(self, path, problems);)?
            }

            fn write<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(<$rule as $crate::request::rules::Field>::put(
                    &self.$field,
                    $crate::request::request!(@json $field $($json)?),
                    map,
                )?;)*
                Ok(())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $crate::request::Request::write(self, &mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let object = serde_json::Map::deserialize(deserializer)?;
                $crate::request::read(&object, Default::default(), None)
                    .map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "openapi")]
        const _: () = {
            $(#[doc = $doc])*
            #[derive(schemars::JsonSchema)]
            $(#[schemars($($schema)+)])*
            #[allow(dead_code, reason = "it only has a schema")]
            struct Described {$(
                $(#[doc = $field_doc])*
                $(#[schemars($($field_schema)+)])*
                $(#[schemars(rename = $json)])?
                $field: $crate::request::request!(@schema $rule $(, $default)?),
            )*}

            impl schemars::JsonSchema for $name {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($name).into()
                }

                fn schema_id() -> std::borrow::Cow<'static, str> {
                    concat!(module_path!(), "::", stringify!($name)).into()
                }

                fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    Described::json_schema(generator)
                }
            }
        };
    };
    (@json $field:ident) => { stringify!($field) };
    (@json $field:ident $json:literal) => { $json };
    (@required $rule:ty) => { <$rule as $crate::request::rules::Field>::IS_REQUIRED };
    (@required $rule:ty, $default:expr) => { false };
    (@schema $rule:ty) => { $rule };
    (@schema $rule:ty, $default:expr) => { Option<$rule> };
    (@take $fields:ident, $rule:ty, $json:expr) => {
        <$rule as $crate::request::rules::Field>::take($fields, $json)
    };
    (@take $fields:ident, $rule:ty, $json:expr, $default:expr) => {
        <Option<$rule> as $crate::request::rules::Field>::take($fields, $json)
            .map(|value| value.unwrap_or_else(|| $default))
    };
    (@together $fields:ident; $read:block) => { $read };
    (@together $fields:ident, $check:path; $read:block) => {{
        let request = (|| $read)()?;
        $fields.check_together(|path, problems| $check(&request, path, problems));
        Some(request)
    }};
}

pub(crate) use request;
