//! Tests of what newcomers read: the story of the README happens with the demo as it is told, and so
//! does what follows for those who come from another product.

use serde_json::Value;

use crate::guide::{assert_same_shape, variables_on};
use crate::support::{Scratch, run_block, shell_blocks, start, words};

const README: &str = include_str!("../../../README.md");
const COMING_FROM: &str = include_str!("../../../docs/coming-from.md");
/// Longest README that is read to its end.
const LINES_MAX: usize = 200;

/// Returns the commands of the story, each with what it prints.
fn story() -> Vec<(&'static str, &'static str)> {
    let blocks: Vec<_> = README.split("```").skip(1).step_by(2).collect();
    let pairs = blocks.windows(2);
    let told = pairs.filter_map(|pair| {
        let command = pair[0].strip_prefix("sh\n")?;
        let (_, printed) = pair[1].split_once('\n')?;
        command.starts_with("curl ").then_some((command, printed))
    });
    told.collect()
}

#[test]
fn story_happens_as_the_readme_tells() {
    let scratch = Scratch::new();
    let mut server = start(&words(&format!(
        "demo {} --listen=127.0.0.1:0 --memories=200 --no-deliveries",
        scratch.data_dir()
    )));
    let screen = server.output_until("Ctrl-C");
    let variables = variables_on(&screen);
    let without_numbers = |text: &str| text.trim().replace(|char: char| char.is_ascii_digit(), "");
    let story = story();
    assert_eq!(story.len(), 3);
    let backlog = || {
        let ran = run_block(story[0].0, &scratch, &variables);
        let printed = String::from_utf8(ran.stdout).expect("UTF-8");
        let (_, count) = printed.trim().rsplit_once(':').expect("a count");
        count.parse::<u64>().expect("a number")
    };
    let before = backlog();
    for (command, shown) in &story {
        let ran = run_block(command, &scratch, &variables);
        assert!(ran.status.success(), "{command}: {ran:?}");
        let printed = String::from_utf8(ran.stdout).expect("UTF-8");
        match serde_json::from_str::<Value>(shown) {
            Ok(shown) if shown.is_object() => {
                let printed = serde_json::from_str(&printed).expect("JSON");
                assert_same_shape(&shown, &printed, "answer");
            }
            _ => assert_eq!(
                without_numbers(&printed),
                without_numbers(shown),
                "{command}"
            ),
        }
    }

    assert_eq!(backlog(), before - 1);

    // With the memory that the story has approved.
    let [block] = shell_blocks(COMING_FROM)[..] else {
        panic!("one block of commands");
    };
    let ran = run_block(block, &scratch, &variables);
    assert!(ran.status.success(), "{ran:?}");
    let printed = String::from_utf8(ran.stdout).expect("UTF-8");
    let found: Value = serde_json::from_str(&printed).expect("JSON");
    assert!(found["recall_id"].is_string(), "{found}");
    let results = found["results"].as_array().expect("a list");
    let approved = variables.iter().find(|(name, _)| *name == "MEMORY");
    let (_, approved) = approved.expect("the variable");
    let is_found = |memory: &Value| memory["memory_id"] == **approved;
    assert!(results.iter().any(is_found), "{found}");
    assert_eq!(server.terminate(), 0);
}

#[test]
fn readme_is_short() {
    assert!(README.lines().count() <= LINES_MAX);
}
