# A WebhookCheck that Open Policy Agent decides. Its `spec.url` is
# https://OPA/v0/data/kueue/review: the API of OPA whose response is the document itself.
package kueue

import rego.v1

review := {
	"apiVersion": "kueue-check.dev/v1alpha1",
	"kind": "AdmissionCheckReview",
	"response": {"items": [answer(item) | some item in input.request.items]},
}

answer(item) := {"uid": item.uid, "state": "Ready", "message": "allowed by policy"} if {
	count(problems(item)) == 0
}

answer(item) := {"uid": item.uid, "state": "Pending", "message": message} if {
	found := problems(item)
	count(found) > 0
	message := concat("; ", found)
}

# The policy: what keeps a Workload from starting.
problems(item) := array.concat(without_team(item), large(item))

without_team(item) := [] if item.workload.labels.team != ""

else := ["the label `team` is missing"]

large(item) := [sprintf("%d pods are more than 64", [pods(item)])] if {
	pods(item) > 64
	item.workload.priority < 100
}

else := []

pods(item) := sum([pod_set.count | some pod_set in item.workload.podSets])
