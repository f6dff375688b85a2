//! The kubeconfig for kubectl.

use std::net::SocketAddr;

/// Returns a kubeconfig for a server on that address, without credentials.
pub(super) fn text(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: demo\nclusters:\n- name: demo\n  cluster:\n    server: http://{address}\ncontexts:\n- name: demo\n  context:\n    cluster: demo\n    user: demo\n    namespace: default\nusers:\n- name: demo\n  user: {{}}\n"
    )
}
