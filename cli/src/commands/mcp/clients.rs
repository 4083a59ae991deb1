//! `knowledge mcp config`: configuration of assistants that start or reach this program.

use std::path::Path;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::endpoint::{Endpoint, address};
use super::target::Target;
use crate::commands::failure::Failure;

/// Print the configuration of an assistant
///
/// Standard output contains the command or the JSON; standard error says where it belongs. With
/// --url, the assistant takes the token from the variable KNOWLEDGE_TOKEN, or asks for it; with
/// --token-file, it starts this program, which reads the file.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    /// The assistant
    #[arg(value_enum)]
    client: Client,

    /// Name of the server in the configuration; another one for each workspace
    #[arg(long, value_name = "NAME", default_value = "knowledge")]
    name: String,

    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
    Windsurf,
    #[value(name = "opencode")]
    OpenCode,
}

pub(super) async fn print(args: ConfigArgs) -> Result<(), Failure> {
    let ConfigArgs {
        client,
        name,
        target,
    } = args;
    // Claude Desktop only starts programs, and only this program reads a file with a token.
    let is_started = matches!(client, Client::ClaudeDesktop)
        || target.token_file.is_some()
        || target.ca_file.is_some();
    let (place, text) = match &target.url {
        Some(url) if !is_started => {
            let address = address(url, target.workspace.as_deref())?;
            of_server(client, &name, &address)
        }
        _ => {
            let is_without_token = target.url.is_some() && target.token_file.is_none();
            let command = command(target).await?;
            of_program(client, &name, &command, is_without_token)
        }
    };
    eprintln!("{place}:");
    println!("{text}");
    Ok(())
}

/// Returns the command that the assistant starts, which works in every directory.
async fn command(target: Target) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| Failure::new(format!("no path of this program: {error}")))?;
    let mut command = vec![program.display().to_string(), "mcp".to_owned()];
    let mut add = |flag: &str, value: &str| command.push(format!("--{flag}={value}"));
    if let Some(url) = &target.url {
        // It is checked, and the command says the same.
        address(url, target.workspace.as_deref())?;
        add("url", url);
        if let Some(workspace) = &target.workspace {
            add("workspace", workspace);
        }
        for (flag, file) in [
            ("token-file", &target.token_file),
            ("ca-file", &target.ca_file),
        ] {
            if let Some(file) = file {
                add(flag, &absolute(file)?);
            }
        }
        return Ok(command);
    }
    let file = target.org.file().map(absolute).transpose()?;
    let is_in_file = file.is_some();
    let opened = Endpoint::open(target).await?;
    if let Endpoint::Store(store) = &opened {
        if let Some(file) = file {
            add("config", &file);
        }
        match store.directory() {
            Some(directory) => add("data-dir", &absolute(&directory)?),
            None if is_in_file => {}
            None => {
                return Err(Failure::usage(
                    "the address of a database may contain a password; put it into a \
                     configuration file, and pass --config",
                ));
            }
        }
        for (flag, name) in store.names() {
            add(flag, name);
        }
    }
    opened.close().await;
    Ok(command)
}

fn absolute(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path);
    let absolute =
        absolute.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(absolute.display().to_string())
}

/// Returns the place and the text for an assistant that starts a command.
fn of_program(
    client: Client,
    name: &str,
    command: &[String],
    is_without_token: bool,
) -> (&'static str, String) {
    let (program, arguments) = (&command[0], &command[1..]);
    let mut started = json!({ "command": program, "args": arguments });
    if is_without_token {
        started["env"] = json!({ "KNOWLEDGE_TOKEN": "wkt_..." });
    }
    match client {
        Client::ClaudeCode => {
            let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
            let text = format!("claude mcp add {} -- {}", quoted(name), words.join(" "));
            (place(client), text)
        }
        Client::OpenCode => {
            let local = json!({ "type": "local", "command": command, "enabled": true });
            (place(client), pretty(&json!({ "mcp": { name: local } })))
        }
        Client::VsCode => (place(client), servers("servers", name, started)),
        _ => (place(client), servers("mcpServers", name, started)),
    }
}

/// Returns the place and the text for an assistant that reaches a server.
fn of_server(client: Client, name: &str, url: &str) -> (&'static str, String) {
    let headers = |token: &str| json!({ "Authorization": format!("Bearer {token}") });
    let text = match client {
        Client::ClaudeCode => {
            let (name, url) = (quoted(name), quoted(url));
            let header = "\"Authorization: Bearer $KNOWLEDGE_TOKEN\"";
            format!("claude mcp add --transport http {name} {url} --header {header}")
        }
        Client::VsCode => {
            let input = json!({
                "type": "promptString", "id": "knowledge-token", "description": "MCP key",
                "password": true,
            });
            let server = json!({
                "type": "http", "url": url, "headers": headers("${input:knowledge-token}"),
            });
            pretty(&json!({ "inputs": [input], "servers": { name: server } }))
        }
        Client::OpenCode => {
            let server = json!({
                "type": "remote", "url": url, "headers": headers("{env:KNOWLEDGE_TOKEN}"),
                "enabled": true,
            });
            pretty(&json!({ "mcp": { name: server } }))
        }
        Client::Windsurf => {
            let headers = headers("${env:KNOWLEDGE_TOKEN}");
            let server = json!({ "serverUrl": url, "headers": headers });
            servers("mcpServers", name, server)
        }
        Client::Cursor | Client::ClaudeDesktop => {
            let server = json!({ "url": url, "headers": headers("${env:KNOWLEDGE_TOKEN}") });
            servers("mcpServers", name, server)
        }
    };
    (place(client), text)
}

/// Returns the file that an assistant reads, or what to do with a command.
fn place(client: Client) -> &'static str {
    match client {
        Client::ClaudeCode => "Run",
        Client::ClaudeDesktop => "claude_desktop_config.json (Settings, Developer, Edit Config)",
        Client::Cursor => ".cursor/mcp.json",
        Client::VsCode => ".vscode/mcp.json",
        Client::Windsurf => "~/.codeium/windsurf/mcp_config.json",
        Client::OpenCode => "opencode.json",
    }
}

fn servers(list: &str, name: &str, server: Value) -> String {
    pretty(&json!({ list: { name: server } }))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("JSON with string keys serialises")
}

/// Quotes a word for a shell, if it has characters that mean something there.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,@%+".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
