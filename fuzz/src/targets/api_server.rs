//! The simulated API server: requests, patches, protobuf and selectors of any client.

use std::sync::Arc;

use futures::FutureExt;
use http::Request;
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use kueue_check_apiserver::{ApiRequest, ApiServer, Patch, Resource, TimeSource, Verb};
use kueue_check_kueue_model::definitions;
use serde_json::{Value, json};

use super::{Form, LARGE, Outcome, Target, magnitude, outcome, shape};
use crate::mutate::split;
use crate::target::DictionaryWords::{Of, One};

/// The maximum number of requests that are sent for one input.
const REQUESTS_AT_MOST: usize = 12;

fn server() -> ApiServer {
    let now: TimeSource = Arc::new(|| Timestamp::from_second(1_795_000_000).unwrap_or_default());
    ApiServer::with_definitions(now, definitions::kueue())
}

pub(super) const REQUESTS: Target = Target {
    name: "requests",
    about: "HTTP requests to the simulated API server, one after another",
    form: Form::Parts,
    dictionary: &[
        One("GET "),
        One("POST "),
        One("PUT "),
        One("PATCH "),
        One("DELETE "),
        Of("
            /api/v1/namespaces/default/configmaps /api/v1/namespaces/default/pods/a
            /apis/kueue.x-k8s.io/v1beta2/ workloads /status /apis/batch/v1/namespaces/default/jobs
            /openapi/v3 /apis ? & watch=true fieldManager=a force=true dryRun=All limit=1 continue=
            labelSelector= fieldSelector=metadata.name%3Da resourceVersion=1
            resourceVersionMatch=Exact fieldValidation=Strict propagationPolicy=Foreground
            includeObject=Object timeoutSeconds=1 allowWatchBookmarks=true sendInitialEvents=true
        "),
        One("Content-Type: application/json"),
        One("Content-Type: application/yaml"),
        One("Content-Type: application/json-patch+json"),
        One("Content-Type: application/merge-patch+json"),
        One("Content-Type: application/apply-patch+yaml"),
        One("Content-Type: application/strategic-merge-patch+json"),
        One("Content-Type: application/vnd.kubernetes.protobuf"),
        One("Accept: application/json;as=Table;g=meta.k8s.io;v=v1"),
        One("Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        Of("
            apiVersion v1 kind ConfigMap metadata name generateName namespace labels annotations
            finalizers ownerReferences uid resourceVersion managedFields deletionTimestamp
            generation data spec status preconditions propagationPolicy op replace add remove test
            path /metadata/labels value $patch $retainKeys $setElementOrder/containers *a
        "),
        One("&a "),
        One("<<: "),
        One("!!"),
    ],
    memory: LARGE,
    run: requests,
};

fn requests(input: &[u8]) -> Outcome {
    let server = server();
    let client = RUNTIME.with(|runtime| {
        let _inside = runtime.enter();
        server.client()
    });
    let mut codes = Vec::new();
    for part in split(input).iter().take(REQUESTS_AT_MOST) {
        let Some(request) = request(part) else {
            codes.push((0, String::new()));
            continue;
        };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let plain = !request.headers().contains_key("accept");
        let watches = uri.query().unwrap_or_default().contains("watch");
        let before = server.resource_version();
        let sent = RUNTIME.with(|runtime| runtime.block_on(client.send(request)));
        let Ok(response) = sent else {
            panic!("{method} {uri} has no response: {sent:?}");
        };
        let code = response.status().as_u16();
        if watches {
            // The response of a watch has no end.
            codes.push((code, String::new()));
            continue;
        }
        let Some(Ok(body)) = response.into_body().collect().now_or_never() else {
            panic!("{method} {uri}: the response does not end");
        };
        let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        assert_expected_code(code, &body);
        // For a path that no kind has, the response is a text.
        if code >= 400 && !body.is_null() {
            assert_eq!(body["kind"], "Status", "{method} {uri}: {body}");
            assert_eq!(body["code"], code, "{method} {uri}: {body}");
            assert!(body["message"].is_string(), "{method} {uri}: {body}");
            assert!(
                server.resource_version() == before || method == http::Method::DELETE,
                "{method} {uri} is refused and writes: {body}"
            );
        } else if plain && !uri.query().unwrap_or_default().contains("dryRun") {
            is_what_is_read(&server, &method, uri.path(), &body);
        }
        codes.push((code, shape(body["message"].as_str().unwrap_or_default())));
    }
    outcome(codes)
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let Ok(runtime) = runtime else {
            panic!("there is no runtime: {runtime:?}");
        };
        runtime
    };
}

/// Messages with which the real server, too, returns 500. They are rejections of its library for
/// server-side apply, and versions that are not a number.
const SERVER_ERRORS: [&str; 2] = ["failed to create typed patch object", "strconv.ParseUint"];

/// Panics unless the code is one that the server returns.
#[track_caller]
fn assert_expected_code(code: u16, body: &Value) {
    let message = body["message"].as_str().unwrap_or_default();
    let known = SERVER_ERRORS.iter().any(|error| message.contains(error));
    assert!(
        (200..=422).contains(&code) || (code == 500 && known),
        "{code}: {body}"
    );
}

/// Returns the request in a part: method and path, headers, and after an empty line the body.
fn request(part: &[u8]) -> Option<Request<Body>> {
    let end = part.windows(2).position(|window| window == b"\n\n");
    let (head, body) = end.map_or((part, &b""[..]), |end| (&part[..end], &part[end + 2..]));
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name.trim(), value.trim());
    }
    request.body(Body::from(body.to_vec())).ok()
}

/// Asserts that a read returns the object that a write returned.
fn is_what_is_read(server: &ApiServer, method: &http::Method, path: &str, body: &Value) {
    if !["POST", "PUT", "PATCH"].contains(&method.as_str()) || !body["metadata"]["uid"].is_string()
    {
        return;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return,
    };
    let (["namespaces", _, plural, ..] | [plural, ..]) = rest else {
        return;
    };
    if path.contains('%') {
        return;
    }
    let (namespace, name) = (&body["metadata"]["namespace"], &body["metadata"]["name"]);
    let (namespace, name) = (
        namespace.as_str().unwrap_or_default(),
        name.as_str().unwrap_or_default(),
    );
    let resource = Resource::new(group, version, *plural);
    let Some(read) = server.get(&resource, namespace, name) else {
        // A write can remove the last finalizer of an object that is being deleted.
        assert!(
            !body["metadata"]["deletionTimestamp"].is_null(),
            "{method} {path}: {body} is not there"
        );
        return;
    };
    assert_eq!(
        &read, body,
        "{method} {path}: what is read, and what was returned"
    );
}

pub(super) const PATCHES: Target = Target {
    name: "patches",
    about: "an object and patches of it: JSON, merge, strategic merge, server-side apply",
    form: Form::Json,
    dictionary: &[Of("
        object patches type json merge strategic apply manager a b force subresource status body
        apiVersion v1 batch/v1 kind ConfigMap Pod Job Workload LocalQueue kueue.x-k8s.io/v1beta2
        metadata name labels annotations finalizers managedFields resourceVersion data spec
        containers image ports containerPort protocol env tolerations podSets count admissionChecks
        conditions lastTransitionTime 2026-11-21T09:00:00Z message state Ready op add remove replace
        move copy test path from /data/a /metadata/labels/x~1y /spec/podSets/- value $patch delete
        replace merge $deleteFromPrimitiveList/finalizers $setElementOrder/containers $retainKeys
        f:metadata k:{\"name\":\"a\"}
    ")],
    memory: LARGE,
    run: patches,
};

fn patches(input: &[u8]) -> Outcome {
    let Ok(tree) = serde_json::from_slice::<Value>(input) else {
        return 0;
    };
    let mut object = tree["object"].clone();
    let Some(resource) = resource(&object) else {
        return 1;
    };
    if !object["metadata"].is_object() {
        return 2;
    }
    object["metadata"]["name"] = json!("a");
    let server = server();
    let about = |verb| ApiRequest::new(verb, &resource).namespace("default");
    let made = server.call(&about(Verb::Create).body(object));
    let mut seen = vec![(
        made.code,
        shape(made.body["message"].as_str().unwrap_or_default()),
    )];
    for patch in tree["patches"]
        .as_array()
        .into_iter()
        .flatten()
        .take(REQUESTS_AT_MOST)
    {
        let form = match patch["type"].as_str() {
            Some("json") => Patch::Json,
            Some("merge") => Patch::Merge,
            Some("strategic") => Patch::Strategic,
            _ => Patch::Apply,
        };
        let mut call = about(Verb::Patch(form))
            .name("a")
            .body(patch["body"].clone());
        let manager = patch["manager"].as_str();
        if form == Patch::Apply || manager.is_some() {
            call = call.query("fieldManager", manager.unwrap_or("a"));
        }
        if form == Patch::Apply && patch["force"] == true {
            call = call.query("force", "true");
        }
        if patch["subresource"] == "status" {
            call = call.subresource("status");
        }
        let before = server.get(&resource, "default", "a");
        let response = server.call(&call);
        assert_expected_code(response.code, &response.body);
        let after = server.get(&resource, "default", "a");
        if response.code >= 400 {
            assert_eq!(
                after, before,
                "a refused patch changes the object: {}",
                response.body
            );
        } else if let Some(after) = &after {
            assert_eq!(
                after, &*response.body,
                "what is read, and what was returned"
            );
            managers_are_well_formed(after);
            if form == Patch::Apply && !has_an_empty_part(&patch["body"]) {
                // Applying the same object again changes nothing.
                let again = server.call(&call);
                assert_eq!((again.code, &*again.body), (200, after), "applied again");
            }
        }
        let message = response.body["message"].as_str().unwrap_or_default();
        seen.push((response.code, shape(message)));
    }
    let managers = server.get(&resource, "default", "a");
    let managers = managers.map_or(0, |object| list(&object["metadata"]["managedFields"]).len());
    outcome((seen, managers))
}

/// Returns true if a part of it is null or empty. The server keeps nothing of such a part that can
/// be owned.
fn has_an_empty_part(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty() || members.values().any(has_an_empty_part),
        Value::Array(elements) => elements.is_empty() || elements.iter().any(has_an_empty_part),
        _ => false,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn resource(object: &Value) -> Option<Resource> {
    let kinds = [
        ("", "v1", "ConfigMap", "configmaps"),
        ("", "v1", "Pod", "pods"),
        ("batch", "v1", "Job", "jobs"),
        ("kueue.x-k8s.io", "v1beta2", "Workload", "workloads"),
        ("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"),
    ];
    let kind = object["kind"].as_str()?;
    let (group, version, _, plural) = kinds.iter().find(|(_, _, known, _)| *known == kind)?;
    Some(Resource::new(*group, *version, *plural))
}

/// Asserts that each manager owns fields once, and that the fields are a tree.
fn managers_are_well_formed(object: &Value) {
    let entries = list(&object["metadata"]["managedFields"]);
    let mut owners = Vec::new();
    for entry in entries {
        let owner = (
            entry["manager"].as_str().unwrap_or_default(),
            entry["operation"].as_str().unwrap_or_default(),
            entry["apiVersion"].as_str().unwrap_or_default(),
            entry["subresource"].as_str().unwrap_or_default(),
        );
        assert!(!owners.contains(&owner), "{owner:?} twice in {entries:?}");
        owners.push(owner);
        assert!(entry["fieldsV1"].is_object(), "{entry}");
    }
}

pub(super) const PROTOBUF: Target = Target {
    name: "protobuf",
    about: "objects in protobuf, as Go clients write them",
    form: Form::Bytes,
    dictionary: &[
        One("k8s\0"),
        One("\n\x02v1"),
        One("\x12\x03Pod"),
        One("\x12\tConfigMap"),
        One("\n\x01a"),
        Of("\x12\x01b \u{10}\u{7f} \u{8}\u{1} \x1a\0 \"\0 \u{10}\u{7f}\u{7f}\u{7f}\u{7f}"),
    ],
    memory: LARGE,
    run: protobuf,
};

fn protobuf(input: &[u8]) -> Outcome {
    let server = server();
    let client = RUNTIME.with(|runtime| {
        let _inside = runtime.enter();
        server.client()
    });
    let mut seen = Vec::new();
    for path in [
        "/api/v1/namespaces/default/pods",
        "/apis/batch/v1/namespaces/default/jobs",
    ] {
        let request = Request::post(path)
            .header("content-type", "application/vnd.kubernetes.protobuf")
            .body(Body::from(input.to_vec()));
        let Ok(request) = request else { return 0 };
        let sent = RUNTIME.with(|runtime| runtime.block_on(client.send(request)));
        let Ok(response) = sent else {
            panic!("{path} has no response: {sent:?}");
        };
        let code = response.status().as_u16();
        let Some(Ok(body)) = response.into_body().collect().now_or_never() else {
            panic!("{path}: the response does not end");
        };
        let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        assert_expected_code(code, &body);
        if code == 201 {
            is_what_is_read(&server, &http::Method::POST, path, &body);
        }
        let members = body["spec"].as_object().map_or(0, serde_json::Map::len);
        seen.push((
            code,
            shape(body["message"].as_str().unwrap_or_default()),
            members,
        ));
    }
    outcome(seen)
}

pub(super) const SELECTOR: Target = Target {
    name: "selector",
    about: "label and field selectors: what is selected, and what a deletion takes",
    form: Form::Bytes,
    dictionary: &[
        One(" in "),
        One(" notin "),
        Of("( ) , = == != !"),
        One(" > "),
        One(" < "),
        Of("team red blue a metadata.name metadata.namespace example.com/ \\, \\="),
    ],
    memory: LARGE,
    run: selector,
};

fn selector(input: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(input) else {
        return 0;
    };
    let mut seen = Vec::new();
    for parameter in ["labelSelector", "fieldSelector"] {
        let server = server();
        let maps = Resource::new("", "v1", "configmaps");
        let about = |verb| ApiRequest::new(verb, &maps).namespace("default");
        for (name, labels) in [
            ("a", json!({"team": "red", "size": "3"})),
            ("b", json!({"team": "blue"})),
            ("c", json!({})),
        ] {
            let object = json!({"metadata": {"name": name, "labels": labels}});
            assert_eq!(server.call(&about(Verb::Create).body(object)).code, 201);
        }
        let names = |body: &Value| -> Vec<String> {
            let names = list(&body["items"]).iter();
            names
                .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
                .collect()
        };
        let listed = server.call(&about(Verb::List).query(parameter, text));
        let deleted = server.call(&about(Verb::DeleteCollection).query(parameter, text));
        assert_eq!(
            listed.code, deleted.code,
            "{text}: {} {}",
            listed.body, deleted.body
        );
        let left = names(&server.call(&about(Verb::List)).body);
        if listed.code == 200 {
            let selected = names(&listed.body);
            assert!(left.iter().all(|name| !selected.contains(name)), "{text}");
            assert_eq!(left.len() + selected.len(), 3, "{text}");
            seen.push((200, String::new(), selected));
        } else {
            assert_eq!(listed.code, 400, "{text}: {}", listed.body);
            assert_eq!(left.len(), 3, "{text}");
            let message = listed.body["message"].as_str().unwrap_or_default();
            seen.push((400, shape(message), Vec::new()));
        }
    }
    outcome((seen, magnitude(text.len())))
}
