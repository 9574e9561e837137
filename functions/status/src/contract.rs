//! Published contract, `openapi.yaml`, in the version that this build contains.

use api::{Problem, Reason, path_parameter};

/// OpenAPI document of the API, as JSON.
pub const DOCUMENT: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

/// All paths of `openapi.yaml` with their methods, including the paths of other functions.
pub const ROUTES: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/routes.rs"));

/// Returns the problem for a request without a route: 405 if the path has other methods, otherwise
/// 404.
pub(crate) fn unrouted(method: &str, path: &str) -> Problem {
    match ROUTES.iter().find(|(template, _)| path_parameter(template, path).is_some()) {
        Some((_, methods)) if !methods.contains(&method) => {
            let allowed = methods.join(", ");
            Problem::new(Reason::MethodNotAllowed, format!("this path takes {allowed}"))
                .header("allow", allowed)
        }
        _ => Problem::new(
            Reason::RouteNotFound,
            "there is nothing at this path; GET /docs shows what there is",
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn another_method_is_405_with_the_right_ones_and_another_path_404() {
        for (path, methods) in ROUTES {
            let problem = unrouted("BREW", path);
            assert_eq!(problem.reason, Reason::MethodNotAllowed, "{path}");
            assert_eq!(problem.headers, [("allow", methods.join(", "))], "{path}");
        }
        for path in ["/", "", "/messages", "/messages/produce/", "/test", "/MESSAGES/PRODUCE", "//docs"] {
            assert_eq!(unrouted("POST", path).reason, Reason::RouteNotFound, "{path}");
        }
    }

    #[test]
    fn the_contract_has_this_build_s_version_and_every_reason_and_code() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        let listed = |schema: &str| -> Vec<String> {
            serde_json::from_value(document["components"]["schemas"][schema]["anyOf"][0]["enum"].clone())
                .unwrap()
        };
        let reasons: Vec<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        let mut codes: Vec<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        codes.dedup();
        assert_eq!(listed("ErrorReason"), reasons);
        assert_eq!(listed("ErrorCode"), codes);
    }

    #[test]
    fn examples_of_problems_say_what_the_code_says() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let responses = document["components"]["responses"].as_object().unwrap();
        for (name, response) in responses {
            // The other responses are API Gateway's own.
            let Some(problem) = response["content"].get("application/problem+json") else { continue };
            for example in problem["examples"].as_object().unwrap().values().map(|example| &example["value"])
            {
                let reason = Reason::ALL.iter().find(|reason| example["reason"] == reason.as_str()).unwrap();
                assert_eq!(example["title"], reason.title(), "{name}");
                assert_eq!(example["code"], reason.code(), "{name}");
                assert_eq!(example["status"], reason.status(), "{name}");
            }
        }
    }
}
