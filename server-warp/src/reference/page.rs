//! The whole page.

use std::fmt::Write as _;

use knowledge_core::api::{ErrorStyle, OPERATIONS, OperationSpec};
use serde_json::Value;

use super::html::{Escaped, paragraphs};
use super::operation::OperationDoc;
use super::{DOCUMENT_PATH, types};

/// Style sheet of the page.
pub(super) const STYLE: &str = include_str!("style.css");

/// Renders the page of a document.
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
         <p>Machine-readable version: <a href=\"{document_link}\">{DOCUMENT_PATH}</a> \
         (OpenAPI {openapi}).</p>\n\
         {credentials}{errors}</header>\n{groups}{types}</main>\n</html>\n",
        about = paragraphs(info["description"].as_str().unwrap_or_default()),
        // Relative: a proxy may serve the page below a path.
        document_link = DOCUMENT_PATH.trim_start_matches('/'),
        openapi = Escaped(document["openapi"].as_str().unwrap_or_default()),
        credentials = credentials(document),
        errors = errors(document),
        types = types::section(document),
    )
}

/// Renders the credential schemes.
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

/// Renders the errors that every operation can return.
fn errors(document: &Value) -> String {
    let in_body = OPERATIONS
        .iter()
        .find(|spec| spec.error_style == ErrorStyle::Body);
    let errors = in_body.map(|spec| operation_doc(document, spec).common_errors());
    format!(
        "<h2 id=errors>Errors</h2>\n\
         <p>An error response has a machine-readable <code>error</code>, a human-readable \
         <code>message</code> and, for some errors, <code>details</code>. Operations whose errors \
         have no body use the headers <code>Error-Code</code> and <code>Error-Message</code>. \
         Every operation can return:</p>\n\
         <dl class=responses>\n{}</dl>\n",
        errors.unwrap_or_default()
    )
}

/// Renders the table of contents and the operations, by capability.
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
            let operation_doc = operation_doc(document, spec);
            contents.push_str(&operation_doc.entry());
            groups.push_str(&operation_doc.article());
        }
        contents.push_str("</ul>\n");
        groups.push_str("</section>\n");
    }
    (contents, groups)
}

/// Returns the description of an operation in the document.
fn operation_doc<'d>(document: &'d Value, spec: &'d OperationSpec) -> OperationDoc<'d> {
    let method = spec.method.as_str();
    OperationDoc {
        document,
        method,
        path: spec.path,
        operation: &document["paths"][spec.path][method.to_ascii_lowercase()],
    }
}
