//! The schemas of the documents, generated from their types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{Call, HeldList, ReviewRequest, ReviewResponse};

/// Returns the JSON Schema (draft 2020-12) of all documents, which are in its `$defs`.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    for add in ADD {
        add(&mut generator);
    }
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The documents of WebhookCheck, kueue-check.dev/v1alpha1",
        "anyOf": [
            {"$ref": "#/$defs/ReviewRequest"},
            {"$ref": "#/$defs/ReviewResponse"},
            {"$ref": "#/$defs/Call"},
            {"$ref": "#/$defs/HeldList"},
        ],
        "$defs": definitions,
    })
}

/// Returns the `OpenAPI` 3.1 description of a service: its operations and their documents.
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let settings = settings.with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    for add in ADD {
        add(&mut generator);
    }
    let schemas: Map<String, Value> = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "A service that decides when Kueue's Workloads may start",
            "description": "What a WebhookCheck of kueue-check calls. Paths are examples: `spec.url`, `spec.activatePath`, `spec.releasePath` and `spec.heldPath` name them.",
            "version": "v1alpha1",
        },
        "paths": {
            "/review": {"post": {
                "operationId": "review",
                "summary": "May these Workloads start? Allocates nothing, and may be repeated.",
                "parameters": [reference("signature")],
                "requestBody": document("ReviewRequest"),
                "responses": {"200": {"description": "A verdict for each item.", "content": content("ReviewResponse")}, "default": failure()},
            }},
            "/activate": {"post": {
                "operationId": "activate",
                "summary": "Allocates for a Workload that was called Ready, before Ready is written.",
                "parameters": [reference("signature"), reference("idempotencyKey")],
                "requestBody": document("Call"),
                "responses": {
                    "2XX": {"description": "It is allocated."},
                    "409": {"description": "It cannot be allocated now: the Workload stays Pending, with the field `message` of the body.",
                        "content": {"application/json": {"schema": {"type": "object", "properties": {"message": {"type": "string"}}}}}},
                    "default": failure(),
                },
            }},
            "/release": {"post": {
                "operationId": "release",
                "summary": "Releases what is allocated for a reservation that is over. Repeated until it returns a status below.",
                "parameters": [reference("signature"), reference("idempotencyKey")],
                "requestBody": document("Call"),
                "responses": {
                    "2XX": {"description": "Nothing is allocated any more."},
                    "404": {"description": "Nothing was allocated."},
                    "410": {"description": "Nothing is allocated any more."},
                    "default": {"description": "It is called again."},
                },
            }},
            "/held": {"get": {
                "operationId": "held",
                "summary": "The reservations for which something is allocated.",
                "parameters": [reference("signature")],
                "responses": {"200": {"description": "Their uids.", "content": content("HeldList")}, "default": failure()},
            }},
        },
        "components": {
            "parameters": {
                "signature": {"name": "Kueue-Check-Signature", "in": "header", "required": false, "schema": {"type": "string"},
                    "description": "`t=SECONDS,v1=HEX`: the HMAC-SHA256 of `SECONDS.BODY` with the key of `spec.signingKeyFile`, and the seconds since 1970 at which it was signed. A body of GET is empty."},
                "idempotencyKey": {"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"},
                    "description": "The reservation: the same for each repetition of a call."},
            },
            "schemas": schemas,
        },
    })
}

type Add = fn(&mut SchemaGenerator);

/// The documents; the types that they contain are added with them.
const ADD: [Add; 4] = [
    add::<ReviewRequest>,
    add::<ReviewResponse>,
    add::<Call>,
    add::<HeldList>,
];

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

fn reference(parameter: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{parameter}")})
}

fn content(schema: &str) -> Value {
    json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}})
}

fn document(schema: &str) -> Value {
    json!({"required": true, "content": content(schema)})
}

fn failure() -> Value {
    json!({"description": "There is no result: states stay as they are, and the request is repeated. 429 and 503 may set the delay by Retry-After."})
}
