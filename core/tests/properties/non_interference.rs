//! Property of non-interference, and that it finds the defects for which it exists.

use knowledge_testing::non_interference::{
    PlantedDefect, cases_until_found, check_non_interference,
};
use knowledge_testing::simulation::Config;

use crate::{cases, memory};

/// Number of cases.
const CASES: u32 = 300;

#[tokio::test]
async fn hidden_things_change_no_byte_of_any_response() {
    check_non_interference(&Config::new(cases(CASES)), memory).await;
}

#[tokio::test]
async fn property_finds_each_planted_defect() {
    let config = Config::new(CASES).with_seed(1);
    for defect in PlantedDefect::ALL {
        let found = cases_until_found(&config, memory, defect).await;
        let (case, found) = found.unwrap_or_else(|| panic!("{defect:?} is not found"));
        let problem = found.problem;
        println!("{defect:?} is found by case {case} of {CASES}");
        let path = match defect {
            PlantedDefect::IngestOverHidden => "/ingest ",
            PlantedDefect::ForbiddenForHidden | PlantedDefect::ReplayWithoutAccess => {
                "PATCH /v1/memories/bulk "
            }
            PlantedDefect::SourcesOfOthers => "GET /v1/sources",
            PlantedDefect::CursorOverHidden => "/memories?",
            PlantedDefect::FilterAfterRanking | PlantedDefect::StatisticsOverEverything => {
                "/recalls/search "
            }
            PlantedDefect::ActWithoutIntersection => "GET /v1/memories/",
            PlantedDefect::FetchOfHidden => "POST /mcp",
        };
        let mut lines = problem.lines();
        assert_eq!(lines.next(), Some("the responses differ:"), "{problem}");
        assert!(
            lines.next().is_some_and(|call| call.contains(path)),
            "{problem}"
        );
    }
}
