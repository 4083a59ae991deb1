//! Property of non-interference.

use knowledge_testing::non_interference::check_non_interference;
use knowledge_testing::simulation::Config;

use crate::{cases, memory};

#[tokio::test]
async fn hidden_things_change_no_byte_of_any_response() {
    check_non_interference(&Config::new(cases(300)), memory).await;
}
