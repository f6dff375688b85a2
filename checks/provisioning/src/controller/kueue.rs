//! Kueue objects that the SDK does not pass to a check.

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

/// Calls Kueue's API for the objects of `kind`: the newest version, or the older one if the API
/// server does not serve it (Kueue 0.14).
pub(super) async fn served<T, F: Future<Output = kube::Result<T>>>(
    client: &Client,
    kind: &str,
    call: impl Fn(Api<DynamicObject>) -> F,
) -> kube::Result<T> {
    let api = |version| {
        let kind = GroupVersionKind::gvk("kueue.x-k8s.io", version, kind);
        Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
    };
    match call(api("v1beta2")).await {
        Err(kube::Error::Api(status)) if status.code == 404 => call(api("v1beta1")).await,
        result => result,
    }
}
