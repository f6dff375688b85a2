//! Authentication and authorization of the admin endpoint, by Kubernetes.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long a decision of the API server is cached. A revoked permission ends after the first.
const ALLOWED: Duration = Duration::from_secs(60);
const DENIED: Duration = Duration::from_secs(10);

/// How many decisions are cached.
const MAX_CACHED: usize = 1_000;

/// How many callers are under review at one time.
const REVIEWS: usize = 4;

/// How long one review may take.
const REVIEW: Duration = Duration::from_secs(3);

/// Authorizes requests: the API server reviews the token of a request, and whether its user may
/// read the path. controller-runtime's secure metrics endpoint does the same.
pub(super) struct Access {
    client: Client,
    decisions: Mutex<HashMap<ReviewedAction, (Outcome, Instant)>>,
    reviews: Semaphore,
}

/// The user and the action under review. The token itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ReviewedAction {
    token: [u8; 32],
    verb: String,
    path: String,
}

/// The user of a request, as the API server reports it: an extension of authorized requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User(pub(crate) Arc<str>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Allowed(User),
    /// The user is authenticated and has no permission.
    Forbidden,
    /// The token belongs to no user.
    Unauthenticated,
}

/// Why the API server made no decision.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("cannot create {0}; the program needs permission to create it")]
    Api(&'static str, #[source] kube::Error),
    #[error("cannot create {0}: no response within {REVIEW:?}")]
    Late(&'static str),
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            decisions: Mutex::default(),
            reviews: Semaphore::new(REVIEWS),
        }
    }

    async fn outcome(&self, token: &str, action: &ReviewedAction) -> Result<Outcome, ReviewError> {
        if let Some(outcome) = self.cached(action) {
            return Ok(outcome);
        }
        // It is never closed.
        let _turn = self.reviews.acquire().await;
        // Another request may have cached the same decision meanwhile.
        if let Some(outcome) = self.cached(action) {
            return Ok(outcome);
        }
        let outcome = match self.authenticate(token).await? {
            None => Outcome::Unauthenticated,
            Some(user) => {
                let name = User(user.username.as_deref().unwrap_or_default().into());
                if self.may(user, action).await? {
                    Outcome::Allowed(name)
                } else {
                    Outcome::Forbidden
                }
            }
        };
        self.cache_outcome(action, outcome.clone());
        Ok(outcome)
    }

    fn cached(&self, action: &ReviewedAction) -> Option<Outcome> {
        let decisions = self
            .decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (outcome, until) = decisions.get(action)?;
        (Instant::now() < *until).then(|| outcome.clone())
    }

    /// Caches a decision. Many made-up tokens do not displace decisions that allow.
    fn cache_outcome(&self, action: &ReviewedAction, outcome: Outcome) {
        let now = Instant::now();
        let mut decisions = self
            .decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if decisions.len() >= MAX_CACHED {
            decisions.retain(|_, (outcome, until)| {
                matches!(outcome, Outcome::Allowed(_)) && now < *until
            });
        }
        let lasts = match outcome {
            Outcome::Allowed(_) => ALLOWED,
            Outcome::Forbidden | Outcome::Unauthenticated => DENIED,
        };
        if decisions.len() < MAX_CACHED {
            decisions.insert(action.clone(), (outcome, now + lasts));
        }
    }

    async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let review = reviewed("TokenReview", api.create(&parameters, &review)).await?;
        let status = review.status.unwrap_or_default();
        let authenticated = status.authenticated.unwrap_or(false);
        Ok(authenticated.then(|| status.user.unwrap_or_default()))
    }

    async fn may(&self, user: UserInfo, action: &ReviewedAction) -> Result<bool, ReviewError> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(action.path.clone()),
                    verb: Some(action.verb.clone()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let review = reviewed("SubjectAccessReview", api.create(&parameters, &review)).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }
}

async fn reviewed<T>(
    kind: &'static str,
    review: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ReviewError> {
    match timeout(REVIEW, review).await {
        Ok(review) => review.map_err(|error| ReviewError::Api(kind, error)),
        Err(_) => Err(ReviewError::Late(kind)),
    }
}

/// Passes on requests that the API server allows.
pub(super) async fn authorize(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(token) = bearer(&request) else {
        return denial(StatusCode::UNAUTHORIZED);
    };
    let action = ReviewedAction {
        token: fingerprint(token),
        verb: request.method().as_str().to_ascii_lowercase(),
        path: permission_path(request.uri().path()).to_owned(),
    };
    match access.outcome(token, &action).await {
        Ok(Outcome::Allowed(user)) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Ok(Outcome::Forbidden) => denial(StatusCode::FORBIDDEN),
        Ok(Outcome::Unauthenticated) => denial(StatusCode::UNAUTHORIZED),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "cannot authorize a request of the admin endpoint");
            denial(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

/// Returns the path for which a user needs permission. Kubernetes' own role
/// `system:public-info-viewer` allows `/livez` and `/readyz` for everyone. Here `/readyz` has
/// reasons, which `/diagnostics` has too.
fn permission_path(path: &str) -> &str {
    match path {
        "/livez" | "/readyz" => "/diagnostics",
        other => other,
    }
}

fn denial(status: StatusCode) -> Response {
    let text = match status {
        StatusCode::UNAUTHORIZED => {
            "send the token of a user of the cluster: Authorization: Bearer TOKEN\n"
        }
        StatusCode::FORBIDDEN => {
            "the user has no permission for this path with this method: bind a ClusterRole with nonResourceURLs and the verb (get, put)\n"
        }
        _ => "the API server has made no decision; the log has the reason\n",
    };
    let mut response = (status, text).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let scheme = header::HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

fn bearer(request: &Request) -> Option<&str> {
    let value = request
        .headers()
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty()).then_some(token)
}

fn fingerprint(token: &str) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    fingerprint
}

#[cfg(test)]
mod tests;
