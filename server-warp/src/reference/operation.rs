//! One operation on the page.

use std::fmt::Write as _;

use http::StatusCode;
use knowledge_core::api::COMMON_ERROR_STATUSES;
use serde_json::Value;

use super::html::{Escaped, OPTIONAL, line, paragraphs, row, table};
use super::types;

/// Shell commands that sign the body with the signing secret of an inbound webhook.
const SIGN: &str = r#"WEBHOOK_ID=msg_$(openssl rand -hex 12)
WEBHOOK_TIMESTAMP=$(date +%s)
KEY=$(printf %s "${SECRET#whsec_}" | base64 -d | od -An -tx1 | tr -d ' \n')
WEBHOOK_SIGNATURE=v1,$(printf %s "$WEBHOOK_ID.$WEBHOOK_TIMESTAMP.$BODY" |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)
"#;

/// Arguments of a request with the signed body.
const SIGNED: &str = r#" \
  -H "webhook-signature: $WEBHOOK_SIGNATURE" \
  --json "$BODY""#;

/// An operation and its description in the document.
pub(super) struct OperationDoc<'d> {
    pub(super) document: &'d Value,
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    pub(super) operation: &'d Value,
}

impl OperationDoc<'_> {
    pub(super) fn id(&self) -> &str {
        self.operation["operationId"].as_str().unwrap_or_default()
    }

    fn text(&self, name: &str) -> &str {
        self.operation[name].as_str().unwrap_or_default()
    }

    /// Renders the entry in the table of contents.
    pub(super) fn entry(&self) -> String {
        format!(
            "<li><a href=\"#{}\"><span class=\"method {}\">{}</span>{}</a></li>\n",
            self.id(),
            self.method.to_ascii_lowercase(),
            self.method,
            Escaped(self.text("summary"))
        )
    }

    pub(super) fn article(&self) -> String {
        let id = self.id();
        format!(
            "<article class=operation id=\"{id}\">\n\
             <h3><a href=\"#{id}\">{}</a></h3>\n\
             <p class=route><span class=\"method {}\">{}</span> <code>{}</code></p>\n\
             {}{}{}{}{}</article>\n",
            Escaped(self.text("summary")),
            self.method.to_ascii_lowercase(),
            self.method,
            Escaped(self.path),
            paragraphs(self.text("description")),
            self.parameters(),
            self.body(),
            self.example(),
            self.responses(),
        )
    }

    fn resolve<'v>(&'v self, value: &'v Value) -> &'v Value {
        let pointer = value["$ref"]
            .as_str()
            .and_then(|target| target.strip_prefix('#'));
        pointer
            .and_then(|pointer| self.document.pointer(pointer))
            .unwrap_or(value)
    }

    /// Returns the scheme of the header that signs the request, if the operation requires one.
    fn signature(&self) -> Option<&Value> {
        let required = self.operation["security"][0].as_object()?;
        let schemes = &self.document["components"]["securitySchemes"];
        let mut required = required.keys().map(|name| &schemes[name]);
        required.find(|scheme| scheme["type"] == "apiKey" && scheme["in"] == "header")
    }

    fn parameters(&self) -> String {
        let parameters = self.operation["parameters"].as_array();
        let rows = parameters.into_iter().flatten().map(|parameter| {
            let parameter = self.resolve(parameter);
            let mark = optional_mark(parameter);
            let text = |name: &str| parameter[name].as_str().unwrap_or_default();
            let kind = format!("{}, {}", text("in"), types::type_of(&parameter["schema"]));
            row(text("name"), mark, &kind, &line(text("description")))
        });
        let signature = self.signature().map(|scheme| {
            let text = |name: &str| scheme[name].as_str().unwrap_or_default();
            row(
                text("name"),
                "",
                "header, string",
                &line(text("description")),
            )
        });
        let rows: String = rows.chain(signature).collect();
        if rows.is_empty() {
            String::new()
        } else {
            format!("<h4>Parameters</h4>\n{}", table(&rows))
        }
    }

    fn body(&self) -> String {
        let body = &self.operation["requestBody"];
        let schema = &body["content"]["application/json"]["schema"];
        if schema.is_null() {
            return String::new();
        }
        let mark = optional_mark(body);
        let name = if schema["$ref"].is_string() {
            format!(": {}", types::type_of(schema))
        } else {
            String::new()
        };
        format!(
            "<h4>Body{name}{mark}</h4>\n{}",
            types::content(self.resolve(schema))
        )
    }

    /// Renders a request as a shell command.
    fn example(&self) -> String {
        let mut path = self.path.to_owned();
        let names = self.path.split('{').skip(1);
        for name in names.filter_map(|rest| rest.split('}').next()) {
            path = path.replace(&format!("{{{name}}}"), &format!("${}", variable(name)));
        }
        let mut command = match self.method {
            "GET" => format!("curl \"$BASE_URL{path}\""),
            method => format!("curl -X {method} \"$BASE_URL{path}\""),
        };
        let security = &self.operation["security"][0];
        if security["bearer"].is_array() {
            command.push_str(" \\\n  -H \"Authorization: Bearer $TOKEN\"");
        } else if security["session"].is_array() {
            command.push_str(" \\\n  -b \"service_session=$SESSION\"");
        }
        let parameters = self.operation["parameters"].as_array();
        for parameter in parameters
            .into_iter()
            .flatten()
            .map(|parameter| self.resolve(parameter))
        {
            if parameter["in"] == "header" && parameter["required"] == true {
                let name = parameter["name"].as_str().unwrap_or_default();
                let _ = write!(
                    command,
                    " \\\n  -H \"{name}: ${}\"",
                    variable(&name.replace('-', "_"))
                );
            }
        }
        let body = &self.operation["requestBody"]["content"]["application/json"]["example"];
        if !body.is_null() {
            let json = serde_json::to_string_pretty(body).unwrap_or_default();
            let json = json.replace('\'', "'\\''").replace('\n', "\n  ");
            command = match self.signature() {
                Some(_) => format!("BODY='{json}'\n{SIGN}{command}{SIGNED}"),
                None => format!("{command} \\\n  --json '{json}'"),
            };
        }
        format!("<pre>{}</pre>\n", Escaped(command))
    }

    fn responses(&self) -> String {
        let responses = self.operation["responses"].as_object();
        let mut html = String::from("<h4>Responses</h4>\n<dl class=responses>\n");
        for (status, response) in responses.into_iter().flatten() {
            let response = self.resolve(response);
            if is_common(status) {
                continue;
            }
            if !status.starts_with('2') {
                html.push_str(&self.error(status, response));
                continue;
            }
            let _ = writeln!(
                html,
                "<div class=success><dt><b>{status}</b> {}</dt><dd>{}{}</dd></div>",
                reason(status),
                body_of(response),
                headers(response),
            );
            if let Some(example) = response["content"]["application/json"].get("example") {
                let example = serde_json::to_string_pretty(example).unwrap_or_default();
                let _ = writeln!(
                    html,
                    "<div class=sample><details><summary>Example</summary>\
                     <pre>{}</pre></details></div>",
                    Escaped(example)
                );
            }
        }
        html.push_str(
            "<div class=error><dt>Errors</dt>\
             <dd><a href=\"#errors\">common to all operations</a></dd></div>\n</dl>\n",
        );
        html
    }

    /// Renders the errors that every operation has, with the schemas of this one.
    pub(super) fn common_errors(&self) -> String {
        let responses = self.operation["responses"].as_object();
        let common = responses
            .into_iter()
            .flatten()
            .filter(|(status, _)| is_common(status));
        common
            .map(|(status, response)| self.error(status, self.resolve(response)))
            .collect()
    }

    fn error(&self, status: &str, response: &Value) -> String {
        format!(
            "<div class=error><dt><b>{status}</b> {}</dt>\
             <dd>{} <span class=bounds>{}</span></dd></div>\n",
            reason(status),
            line(response["description"].as_str().unwrap_or_default()),
            body_of(response),
        )
    }
}

/// True if every operation can respond with this status.
fn is_common(status: &str) -> bool {
    let status = status.parse();
    status.is_ok_and(|status| COMMON_ERROR_STATUSES.contains(&status))
}

fn reason(status: &str) -> &'static str {
    let status = status.parse::<StatusCode>().ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default()
}

/// Lists the headers that are specific to this response.
fn headers(response: &Value) -> String {
    let names = response["headers"].as_object();
    let names = names.into_iter().flatten().map(|(name, _)| name.as_str());
    let names: Vec<String> = names
        .filter(|name| matches!(*name, "ETag" | "Idempotent-Replayed"))
        .map(|name| format!("<code>{name}</code>"))
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(", with {}", names.join(" and "))
    }
}

/// Describes the type of the body of a response.
fn body_of(response: &Value) -> String {
    let schema = &response["content"]["application/json"]["schema"];
    if schema.is_null() {
        "no body".to_owned()
    } else {
        types::type_of(schema)
    }
}

/// Returns the mark of a parameter or a body that may be omitted.
fn optional_mark(described: &Value) -> &'static str {
    if described["required"] == true {
        ""
    } else {
        OPTIONAL
    }
}

/// Returns the name of a shell variable: `ORG_SLUG` for `orgSlug`.
fn variable(name: &str) -> String {
    let mut variable = String::new();
    for char in name.chars() {
        if char.is_ascii_uppercase() && !variable.is_empty() && !variable.ends_with('_') {
            variable.push('_');
        }
        variable.push(char.to_ascii_uppercase());
    }
    variable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_parameters_become_shell_variables() {
        assert_eq!(variable("orgSlug"), "ORG_SLUG");
        assert_eq!(variable("id"), "ID");
        assert_eq!(variable("Idempotency_Key"), "IDEMPOTENCY_KEY");
    }
}
