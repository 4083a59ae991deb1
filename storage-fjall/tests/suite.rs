//! Test cases that every embedded engine must pass.

knowledge_storage_embedded::embedded_tests!(knowledge_storage_fjall::Fjall);
