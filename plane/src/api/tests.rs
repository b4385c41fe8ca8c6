//! The table of who may call what, against the endpoints that are served.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::identity::table::{Need, TABLE};

/// Method and path of everything that is routed; routes and description are made from one list.
fn served() -> BTreeSet<(String, String)> {
    let description = serde_json::to_value(super::rest().1).unwrap();
    let of = |(path, methods): (&String, &serde_json::Value)| {
        let methods = methods.as_object().unwrap().keys();
        let verbs = methods.filter(|name| ["get", "post", "put", "patch", "delete"].contains(&name.as_str()));
        verbs.map(|name| (name.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    description["paths"].as_object().unwrap().iter().flat_map(of).collect()
}

fn listed() -> BTreeSet<(String, String)> {
    TABLE.iter().map(|row| (row.method.to_owned(), row.path.to_owned())).collect()
}

#[test]
fn every_endpoint_has_one_row_and_every_row_an_endpoint() {
    let (served, listed) = (served(), listed());
    let missing: Vec<_> = served.difference(&listed).collect();
    let left: Vec<_> = listed.difference(&served).collect();
    assert!(missing.is_empty(), "write a row in plane/src/identity/table.rs for {missing:?}");
    assert!(left.is_empty(), "remove the row from plane/src/identity/table.rs of {left:?}");
    assert_eq!(listed.len(), TABLE.len(), "an endpoint has two rows");
}

#[test]
fn a_row_needs_what_its_path_names() {
    for row in TABLE {
        let names = |parameter: &str| row.path.contains(parameter);
        let fits = match row.need {
            Need::Nothing | Need::Token | Need::PlatformAdmin => true,
            Need::TenantAdmin => names("{tenant}"),
            Need::Project(_) | Need::TenantAdminOfProject => names("{project}"),
            Need::OwnOperation => names("{project}") && names("{operation_id}"),
            Need::Node | Need::NodeAdmin => names("{node}"),
        };
        assert!(fits, "{} {}", row.method, row.path);
        let owned = ["{project}", "{tenant}", "{node}"].into_iter().any(names);
        let open = matches!(row.need, Need::Nothing | Need::Token);
        assert!(!(owned && open), "{} {} is somebody's, and everybody may call it", row.method, row.path);
    }
}

#[test]
fn no_two_endpoints_have_one_name_in_the_audit_trail() {
    let actions: BTreeSet<_> = TABLE.iter().map(|row| row.action).collect();
    assert_eq!(actions.len(), TABLE.len());
    assert!(actions.iter().all(|action| action.contains('.')));
}

fn page() -> String {
    let mut text = String::from(
        "# Roles\n\n\
         Who may call which endpoint. This page is written by a test from the table that the plane enforces\n\
         (`plane/src/identity/table.rs`); an endpoint without a row is not served.\n\n\
         A token has one role: `platform_admin`; `tenant_admin` of one organisation; `project_admin`, `project_member`\n\
         or `project_viewer` of one project. Outside of what a token is for there is nothing: the answer is `404`, with\n\
         the same words as for a name that nobody has. Inside, a role that is too low is answered `403`, and the\n\
         attempt is in the audit trail under the name of the action.\n\n\
         | endpoint | scope | who | action |\n|---|---|---|---|\n",
    );
    for row in TABLE {
        let (scope, roles) = (row.need.scope(), row.need.roles());
        let _ = writeln!(text, "| `{} {}` | {scope} | {roles} | `{}` |", row.method, row.path, row.action);
    }
    text
}

#[test]
fn the_page_of_roles_is_what_the_plane_enforces() {
    crate::reference::holds("roles.md", &page(), "the_page_of_roles");
}
