//! The custom roles of an organisation.

mod delete;
mod list;
mod update;
mod update_rejections;

suites![delete, list, update, update_rejections,];
