use super::get::Document;
use crate::auth::{Access, Role};
use crate::routes::Endpoint;
use crate::schema;
use http::Method;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Ref, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, HttpMethod, RefOr};

const SCHEME: &str = "token";

#[derive(OpenApi)]
#[openapi(
    info(title = "Oncefold admin API", description = "What was received, what became of it, and what to do about it."),
    components(schemas(
        schema::Source,
        schema::SourcePage,
        schema::Event,
        schema::EventPage,
        schema::Failure,
        schema::EventChange,
        schema::Attempt,
        schema::VerifiedBy,
        schema::DeadLetter,
        schema::DeadLetterPage,
        schema::DeadLetterGroup,
        schema::DeadLetterGroupPage,
        schema::Discard,
        schema::Entity,
        schema::EntityPage,
        schema::HistoryItem,
        schema::HistoryPage,
        schema::Rejected,
        schema::RejectedPage,
        schema::Problem,
    ))
)]
struct Frame;

/// The whole document.
pub fn document(endpoints: Vec<Endpoint>) -> Document {
    let mut document = Frame::openapi();
    for Endpoint { method, path, access, operation } in endpoints {
        let method = if method == Method::POST { HttpMethod::Post } else { HttpMethod::Get };
        document.paths.add_path_operation(path, vec![method], documented(operation, access));
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("A token of [admin] tokens"));
    document
        .components
        .get_or_insert_default()
        .security_schemes
        .insert(SCHEME.to_owned(), RefOr::T(SecurityScheme::Http(bearer.build())));
    Document(document.to_json().unwrap_or_default().into())
}

/// An operation with what its access implies: its security and problems, and the key of a change.
fn documented(mut operation: Operation, access: Access) -> Operation {
    let mut problems = vec![];
    if let Access::AtLeast(role) = access {
        operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>(SCHEME, [])]);
        problems.extend([("401", "No token, or none that is known"), ("503", "The database is away")]);
        if role == Role::Operator {
            operation.parameters.get_or_insert_default().push(RefOr::T(idempotency_key()));
            problems.extend([
                ("403", "The token only allows looking"),
                ("413", "The body is too large"),
                ("422", "The Idempotency-Key was used for another request"),
            ]);
        }
    }
    for (status, meaning) in problems {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(problem(meaning)));
    }
    operation
}

fn problem(meaning: &str) -> Response {
    let content = Content::new(Some(RefOr::Ref(Ref::from_schema_name("Problem"))));
    ResponseBuilder::new().description(meaning).content("application/problem+json", content).build()
}

fn idempotency_key() -> Parameter {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some("1 to 255 visible ASCII characters: the same key gives the original answer for 24 h"))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}
