//! `knowledge mcp`: memories for an assistant that starts this program.

mod clients;
mod endpoint;
mod message;
mod target;

use std::io::{BufRead, Write};
use std::time::Duration;

use clap::Subcommand;
use tokio::sync::mpsc;

use self::clients::ConfigArgs;
use self::endpoint::Endpoint;
use self::message::Dialogue;
use self::target::Target;
use super::failure::Failure;

/// Time without a message after which a process releases the store. A server that starts waits for
/// longer.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// Give an assistant memories, over the Model Context Protocol
///
/// Reads messages from standard input and writes the responses to standard output, one per line,
/// until the input ends. Assistants start the command themselves; `knowledge mcp config` prints what
/// to tell them.
///
/// Without --url, the assistant acts as a member, on the store in --data-dir. Several assistants,
/// and a server, can do so at a time: one process holds the store, and the others reach it over the
/// admin socket beside it. With --url, messages go to a server, with an MCP key or another token.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Command {
    Config(ConfigArgs),
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    if let Some(Command::Config(config)) = args.command {
        return clients::print(config).await;
    }
    let mut endpoint = Endpoint::open(args.target).await?;
    let answered = answer_lines(&mut endpoint).await;
    endpoint.close().await;
    answered
}

/// Answers the messages on standard input.
async fn answer_lines(endpoint: &mut Endpoint) -> Result<(), Failure> {
    let (sender, mut lines) = mpsc::channel(1);
    // Reading blocks, and nothing can interrupt it: the thread ends with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    let mut dialogue = Dialogue::default();
    loop {
        let line = match tokio::time::timeout(IDLE_MAX, lines.recv()).await {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(_) => {
                endpoint.release_idle().await;
                continue;
            }
        };
        let line = line.map_err(|error| Failure::new(format!("standard input: {error}")))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let message = dialogue.message(line);
        let response = endpoint.send(&message.headers, message.body.clone()).await;
        if let Some(mut answer) = dialogue.answer(&message, response) {
            answer.push(b'\n');
            let mut output = std::io::stdout().lock();
            let written = output.write_all(&answer).and_then(|()| output.flush());
            written.map_err(|error| Failure::new(format!("standard output: {error}")))?;
        }
    }
}
