//! The cases that every embedded engine has to pass.

knowledge_storage_embedded::embedded_tests!(knowledge_storage_fjall::Fjall);
