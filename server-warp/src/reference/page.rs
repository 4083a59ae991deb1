//! The page as a whole.

use std::fmt::Write as _;

use knowledge_core::api::{ErrorStyle, OPERATIONS, OperationSpec};
use serde_json::Value;

use super::html::{Escaped, paragraphs};
use super::operation::Described;
use super::{DOCUMENT_PATH, types};

/// What the page looks like.
pub(super) const STYLE: &str = include_str!("style.css");

/// The page of a document.
pub(super) fn page(document: &Value) -> String {
    let info = &document["info"];
    let title = Escaped(info["title"].as_str().unwrap_or_default()).to_string();
    let version = Escaped(info["version"].as_str().unwrap_or_default()).to_string();
    let (contents, groups) = groups(document);
    format!(
        "<!doctype html>\n\
         <html lang=en>\n\
         <meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n\
         <title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         <nav aria-label=Contents>\n\
         <details open><summary>{title} <small>{version}</small></summary>\n{contents}\
         <p><a href=\"#types\">Types</a></p>\n</details>\n</nav>\n\
         <main>\n\
         <header><h1>{title}</h1>\n{about}\
         <p>The same for programs: <a href=\"{DOCUMENT_PATH}\">{DOCUMENT_PATH}</a> (OpenAPI {openapi}).</p>\n\
         {credentials}{refusals}</header>\n{groups}{types}</main>\n</html>\n",
        about = paragraphs(info["description"].as_str().unwrap_or_default()),
        openapi = Escaped(document["openapi"].as_str().unwrap_or_default()),
        credentials = credentials(document),
        refusals = refusals(document),
        types = types::section(document),
    )
}

/// How callers say who they are.
fn credentials(document: &Value) -> String {
    let schemes = document["components"]["securitySchemes"].as_object();
    let mut html = String::from("<h2 id=credentials>Credentials</h2>\n<dl class=credentials>\n");
    for (name, scheme) in schemes.into_iter().flatten() {
        let text = scheme["description"].as_str().unwrap_or_default();
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            Escaped(name),
            paragraphs(text)
        );
    }
    html.push_str("</dl>\n");
    html
}

/// How every operation can refuse.
fn refusals(document: &Value) -> String {
    let in_body = OPERATIONS
        .iter()
        .find(|spec| spec.error_style == ErrorStyle::Body);
    let refusals = in_body.map(|spec| described(document, spec).common_refusals());
    format!(
        "<h2 id=refusals>Refusals</h2>\n\
         <p>A refusal says what is wrong: <code>error</code> for programs, <code>message</code> for people, \
         <code>details</code> where there is more to know. Where an operation refuses without a body, the headers \
         <code>Error-Code</code> and <code>Error-Message</code> say the same. Every operation can be refused with:</p>\n\
         <dl class=answers>\n{}</dl>\n",
        refusals.unwrap_or_default()
    )
}

/// The list of contents, and the operations, by capability.
fn groups(document: &Value) -> (String, String) {
    let (mut contents, mut groups) = (String::new(), String::new());
    let names = document["tags"].as_array().into_iter().flatten();
    for name in names.filter_map(|tag| tag["name"].as_str()) {
        let anchor = name.to_lowercase().replace(' ', "-");
        let name = Escaped(name).to_string();
        let _ = write!(contents, "<p><a href=\"#{anchor}\">{name}</a></p>\n<ul>\n");
        let _ = write!(
            groups,
            "<section class=group>\n<h2 id=\"{anchor}\">{name}</h2>\n"
        );
        for spec in OPERATIONS.iter().filter(|spec| spec.capability == name) {
            let described = described(document, spec);
            contents.push_str(&described.entry());
            groups.push_str(&described.article());
        }
        contents.push_str("</ul>\n");
        groups.push_str("</section>\n");
    }
    (contents, groups)
}

/// The operation of a row of the table, as the document describes it.
fn described<'d>(document: &'d Value, spec: &'d OperationSpec) -> Described<'d> {
    let method = spec.method.as_str();
    Described {
        document,
        method,
        path: spec.path,
        operation: &document["paths"][spec.path][method.to_ascii_lowercase()],
    }
}
