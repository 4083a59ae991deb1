//! The custom roles of an organisation.

mod delete;
mod list;
mod update;
mod update_rejections;
