use super::description::parameter_names;
use super::*;
use crate::api::{admin, operations};
use crate::operation::{COMMON_ERROR_STATUSES, OPERATOR_ERROR_STATUSES};

/// Returns the descriptions of the operations of both interfaces.
fn all() -> impl Iterator<Item = (Row, Parts)> {
    let all =
        [operations::describe, admin::describe].map(|describe| Descriptions::of(describe).all);
    all.into_iter().flatten()
}

#[test]
fn operation_has_an_argument_for_each_path_parameter() {
    for (row, parts) in all() {
        let arguments: Vec<&str> = parts
            .parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        let names: Vec<&str> = parameter_names(row.path).collect();
        assert_eq!(arguments, names, "{}", row.id);
    }
}

#[test]
fn operation_without_content_has_no_output() {
    for (row, parts) in all() {
        let is_empty = row.success == 204;
        assert_eq!(parts.answer.is_none(), is_empty, "{}", row.id);
    }
}

#[test]
fn operation_inputs_agree_with_method_and_errors() {
    for (row, parts) in all() {
        let (id, documents) = (&row.id, |status| row.error_statuses.contains(&status));
        let can_have_body = matches!(row.method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE");
        assert!(parts.body.is_none() || can_have_body, "{id}");
        assert!(parts.body.is_none() || documents(400), "{id}");
        let parameters = Value::from(parts.parameters.clone()).to_string();
        let has_condition = parameters.contains("parameters/If-Match");
        assert_eq!(has_condition, documents(412), "{id}");
    }
}

#[test]
fn operation_names_known_error_codes() {
    let errors = error_responses::errors();
    for (row, parts) in all() {
        let common = match row.public {
            Some(_) => COMMON_ERROR_STATUSES,
            None => OPERATOR_ERROR_STATUSES,
        };
        for code in parts.error_codes {
            let error = errors.iter().find(|error| error.code() == code);
            let status = error.map(|error| crate::api::status(error).as_u16());
            let is_own = |status| row.error_statuses.contains(&status) && !common.contains(&status);
            assert!(status.is_some_and(is_own), "{}: {code}", row.id);
        }
    }
}

#[test]
fn operation_reads_query_parameters_only_if_it_documents_400() {
    for (row, parts) in all() {
        let has_query = parts.parameters.iter().any(|parameter| {
            let shared = parameter["$ref"].as_str().unwrap_or_default();
            parameter["in"] == "query" || shared.ends_with("/limit")
        });
        assert!(
            !has_query || row.error_statuses.contains(&400),
            "{}",
            row.id
        );
    }
}
