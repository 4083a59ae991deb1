//! Comparison of the instructions of time-critical calls with recorded numbers.
//!
//! Callgrind counts them in the program `instructions` of the crate `knowledge-benches`, compiled as
//! the tests are: unlike times, they are the same on a busy machine.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::process::{Result, Skipped, format_command, none_of, read};
use crate::programs;
use crate::tools;

/// File of the recorded numbers.
const RECORD: &str = "benches/instructions.tsv";
/// Variable that makes the step write the record instead.
const UPDATE: &str = "UPDATE_INSTRUCTIONS";
/// Directory of callgrind's profiles.
const PROFILES: &str = "target/instructions";
/// Function within which a call is counted.
const MEASURED: &str = "instructions::measured";
/// Name of the sum of all functions.
const TOTAL: &str = "total";
/// Number of functions that are recorded for each call, those with most instructions.
const FUNCTIONS: usize = 40;
/// Number of functions that are named if a call has become slower.
const CULPRITS: usize = 3;
/// Percentage by which a call may take more instructions than recorded.
const MORE_MAX: u64 = 5;

/// Instructions by function.
type Costs = BTreeMap<String, u64>;

/// Instructions of each call, by compiler.
#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    compiler: String,
    calls: BTreeMap<String, Costs>,
}

/// Counts the instructions and compares them with the record.
///
/// # Errors If a call takes over 5 % more than recorded; the message names the functions that have
/// grown most. If the calls differ from the recorded ones. [`Skipped`] if the record was made with
/// another compiler.
pub(crate) fn check() -> Result {
    tools::install_programs(&[("valgrind", "valgrind")])?;
    let compiler = read(Command::new("rustc").arg("--version"))?;
    if std::env::var_os(UPDATE).is_some() {
        let calls = count()?;
        return Ok(fs::write(RECORD, format(&Record { compiler, calls }))?);
    }
    let recorded = parse(&fs::read_to_string(RECORD)?)?;
    if recorded.compiler != compiler {
        let theirs = recorded.compiler;
        return Err(Skipped(format!("the record is of {theirs}, this is {compiler}")).into());
    }
    compare(&recorded.calls, &count()?)
}

/// Compares the calls with the recorded ones.
fn compare(recorded: &BTreeMap<String, Costs>, counted: &BTreeMap<String, Costs>) -> Result {
    if !recorded.keys().eq(counted.keys()) {
        let (recorded, counted) = (recorded.keys(), counted.keys());
        return Err(format!("{RECORD} has {recorded:?}, not {counted:?}; set {UPDATE}=1").into());
    }
    let mut slower = Vec::new();
    for ((call, before), costs) in recorded.iter().zip(counted.values()) {
        println!("{}", comparison(call, before, costs));
        slower.extend(grown(before, costs).then(|| culprits(call, before, costs)));
    }
    none_of(&slower)
}

/// Runs the program under callgrind, which writes a profile for each call.
fn count() -> Result<BTreeMap<String, Costs>> {
    let program = programs::build_example("instructions")?;
    let directory = std::env::current_dir()?.join(PROFILES);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    let profile = directory.join("profile");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args([
            "--tool=callgrind",
            "--quiet",
            "--compress-strings=no",
            "--compress-pos=no",
        ])
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(format!("--dump-after={MEASURED}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program);
    println!("$ {}", format_command(&valgrind));
    let calls = read(&mut valgrind)?;
    let mut counted = BTreeMap::new();
    for (index, call) in calls.lines().enumerate() {
        let file = format!("{}.{}", profile.display(), index + 1);
        let costs = costs(&fs::read_to_string(file)?)?;
        if costs.is_empty() {
            return Err(format!("callgrind has counted nothing of {call}").into());
        }
        counted.insert(call.to_owned(), most(costs));
    }
    Ok(counted)
}

/// Sums the instructions of a profile by function, without the instructions of the functions that
/// it calls.
fn costs(profile: &str) -> Result<Costs> {
    let mut costs = Costs::new();
    let (mut function, mut is_call) = (String::new(), false);
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name.to_owned();
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            // Callgrind leaves out a cost of zero.
            let cost: u64 = match line.split_whitespace().nth(1) {
                Some(cost) => cost.parse()?,
                None => 0,
            };
            if !std::mem::take(&mut is_call) {
                *costs.entry(function.clone()).or_default() += cost;
            }
        }
    }
    Ok(costs)
}

/// Keeps the functions with most instructions, and adds the sum of all.
fn most(costs: Costs) -> Costs {
    let total = costs.values().sum();
    let mut functions: Vec<_> = costs.into_iter().collect();
    functions.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    functions.truncate(FUNCTIONS);
    functions.push((TOTAL.to_owned(), total));
    functions.into_iter().collect()
}

fn total(costs: &Costs) -> u64 {
    costs.get(TOTAL).copied().unwrap_or(0)
}

fn grown(before: &Costs, now: &Costs) -> bool {
    total(now) * 100 > total(before) * (100 + MORE_MAX)
}

fn comparison(call: &str, before: &Costs, now: &Costs) -> String {
    let (before, now) = (total(before), total(now));
    let percent = (now as f64 / before as f64 - 1.0) * 100.0;
    format!("{call:24}{before:>12} -> {now:>12} instructions, {percent:+.1} %")
}

/// Names the functions that have grown most.
fn culprits(call: &str, before: &Costs, now: &Costs) -> String {
    let growth = |(name, cost): (&String, &u64)| {
        let before = before.get(name).copied().unwrap_or(0);
        (cost.saturating_sub(before), name.clone())
    };
    let functions = now.iter().filter(|(name, _)| *name != TOTAL);
    let mut grown: Vec<_> = functions.map(growth).collect();
    grown.sort_by(|left, right| right.cmp(left));
    let mut text = comparison(call, before, now);
    for (more, name) in grown.iter().take(CULPRITS) {
        text.push_str(&format!("\n    {more:+} in {name}"));
    }
    text
}

fn format(record: &Record) -> String {
    let mut text = format!("{}\n", record.compiler);
    for (call, costs) in &record.calls {
        for (name, cost) in costs {
            text.push_str(&format!("{call}\t{cost}\t{name}\n"));
        }
    }
    text
}

fn parse(text: &str) -> Result<Record> {
    let mut lines = text.lines();
    let mut record = Record {
        compiler: lines.next().unwrap_or_default().to_owned(),
        calls: BTreeMap::new(),
    };
    for line in lines {
        let mut parts = line.splitn(3, '\t');
        let (Some(call), Some(cost), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("{RECORD}: {line:?} has not three fields").into());
        };
        let costs = record.calls.entry(call.to_owned()).or_default();
        costs.insert(name.to_owned(), cost.parse()?);
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(functions: &[(&str, u64)]) -> Costs {
        let functions = functions.iter();
        most(
            functions
                .map(|(name, cost)| ((*name).to_owned(), *cost))
                .collect(),
        )
    }

    #[test]
    fn profile_is_summed_without_calls() {
        let profile = "events: Ir\n\nfl=a.rs\nfn=one\n3 10\n4 5\n6\ncfn=two\ncalls=2 9\n4 700\n\
                       fn=two\n9 300\nfn=one\n5 1\n";
        let found = of(&[("one", 16), ("two", 300)]);
        assert_eq!(most(costs(profile).unwrap()), found);
        assert_eq!(total(&found), 316);
        assert!(costs("fn=one\n3 many\n").is_err());
    }

    #[test]
    fn call_that_is_missing_on_either_side_fails() {
        let calls = |names: &[&str]| {
            let calls = names
                .iter()
                .map(|name| ((*name).to_owned(), of(&[("one", 7)])));
            calls.collect::<BTreeMap<_, _>>()
        };
        let both = calls(&["bulk", "replay"]);
        assert!(compare(&both, &both).is_ok());
        assert!(compare(&both, &calls(&["bulk"])).is_err());
        assert!(compare(&calls(&["bulk"]), &both).is_err());
    }

    #[test]
    fn only_growth_of_more_than_five_percent_fails() {
        let before = of(&[("one", 60), ("two", 40)]);
        assert!(!grown(&before, &of(&[("one", 65), ("two", 40)])));
        assert!(grown(&before, &of(&[("one", 60), ("two", 46)])));
        assert!(!grown(&before, &of(&[("one", 1)])));
    }

    #[test]
    fn functions_that_have_grown_most_are_named_first() {
        let (before, now) = (
            of(&[("one", 60), ("two", 40)]),
            of(&[("one", 61), ("two", 99)]),
        );
        let text = culprits("replay", &before, &now);
        let functions: Vec<_> = text.lines().skip(1).map(str::trim).collect();
        assert_eq!(functions, ["+59 in two", "+1 in one"]);
    }

    #[test]
    fn record_is_read_as_it_was_written() {
        let record = Record {
            compiler: "rustc 1".to_owned(),
            calls: BTreeMap::from([("bulk".to_owned(), of(&[("<a as B>::c", 7)]))]),
        };
        assert_eq!(parse(&format(&record)).unwrap(), record);
        assert!(parse("rustc 1\nbulk 7").is_err());
    }
}
