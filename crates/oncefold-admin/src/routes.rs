//! The table of endpoints. One entry makes the route, its access and its documentation, so that none of the three
//! can be forgotten.

use crate::api::SharedApi;
use crate::auth::{self, Access, Role};
use crate::mutation::{self, BODY_BYTES_MAX};
use crate::problem::Problem;
use crate::v1::{dead_letters, entities, events, openapi, rejected, sources};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use utoipa::openapi::path::Operation;

/// One endpoint.
pub struct Endpoint {
    /// Its method.
    pub method: Method,
    /// Its path, parameters in braces.
    pub path: String,
    /// What it asks of its caller.
    pub access: Access,
    /// Its documentation.
    pub operation: Operation,
}

/// Endpoints on their way to becoming a router.
pub struct Routes {
    api: SharedApi,
    router: Router<SharedApi>,
    /// What was added.
    pub endpoints: Vec<Endpoint>,
}

macro_rules! add {
    ($routes:ident.$verb:ident: $($($module:ident)::+),+ $(,)?) => {
        $($routes.$verb::<$($module)::+::__path_handle, _, _>($($module)::+::handle);)+
    };
}

/// Every endpoint there is.
pub fn all(api: &SharedApi) -> Routes {
    let mut routes = Routes { api: api.clone(), router: Router::new(), endpoints: Vec::new() };
    add!(routes.open: openapi::get);
    add!(routes.look:
        sources::list,
        events::list, events::get, events::body,
        dead_letters::list, dead_letters::groups, dead_letters::get,
        entities::list, entities::get, entities::history,
        rejected::list,
    );
    add!(routes.change: events::replay, dead_letters::replay, dead_letters::discard);
    routes
}

impl Routes {
    /// A GET that asks for no token.
    fn open<P: utoipa::Path, H: Handler<T, SharedApi>, T: 'static>(&mut self, handler: H) {
        self.add::<P>(Method::GET, Access::Open, get(handler));
    }

    /// A GET for viewers.
    fn look<P: utoipa::Path, H: Handler<T, SharedApi>, T: 'static>(&mut self, handler: H) {
        self.add::<P>(Method::GET, Access::AtLeast(Role::Viewer), get(handler));
    }

    /// A POST for operators.
    fn change<P: utoipa::Path, H: Handler<T, SharedApi>, T: 'static>(&mut self, handler: H) {
        let changing = post(handler).route_layer(from_fn_with_state(self.api.clone(), mutation::run));
        self.add::<P>(Method::POST, Access::AtLeast(Role::Operator), changing);
    }

    fn add<P: utoipa::Path>(&mut self, method: Method, access: Access, route: MethodRouter<SharedApi>) {
        let guarded = match access {
            Access::Open => route,
            Access::AtLeast(role) => {
                route.route_layer(from_fn_with_state((self.api.clone(), role), auth::authenticate))
            }
        };
        let router = std::mem::take(&mut self.router);
        self.router = router.route(&P::path(), guarded);
        self.endpoints.push(Endpoint { method, path: P::path(), access, operation: P::operation() });
    }

    /// The router, which answers everything else with a problem.
    pub fn into_router(self) -> Router {
        let document = openapi::document(self.endpoints);
        self.router
            .method_not_allowed_fallback(wrong_method)
            .fallback(no_such_path)
            .layer(axum::Extension(document))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(map_response(private))
            .with_state(self.api)
    }
}

async fn no_such_path(uri: Uri) -> Problem {
    let path = crate::problem::excerpt(uri.path());
    Problem::not_found(format!("there is nothing at `{path}`; /api/v1/openapi.json lists what there is"))
}

/// `Allow` is added by the router.
async fn wrong_method(method: Method) -> Problem {
    let detail = format!("{} is not possible here", crate::problem::excerpt(method.as_str()));
    Problem::of(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

/// Nothing of this may stay in a cache, and no browser may guess what it is.
async fn private(response: Response) -> Response {
    let no_store = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    let no_sniff = [(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))];
    (no_store, no_sniff, response).into_response()
}
