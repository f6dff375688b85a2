// Package kueuecheck makes a function a webhook of kueue-check: a handler of net/http.
//
//	http.Handle("/review", kueuecheck.Handler{Review: window})
//
// Review is called for each Workload of a review. An error, or a panic, is one of this item: its
// state stays as it is, and it is reviewed again. The documents are described in
// checks/rule/README.md.
package kueuecheck

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// APIVersion is the version of the documents.
const APIVersion = "kueue-check.dev/v1alpha1"

const (
	largest   = 32 << 20
	tolerance = 5 * time.Minute
)

// Handler responds to reviews, and to the calls that allocate and release.
type Handler struct {
	// Review decides about one Workload.
	Review func(context.Context, Item, Review) (Verdict, error)
	// Key is the signing key (spec.signingKeyFile). With it, requests without a valid signature are
	// refused.
	Key string
	// Activate allocates for a reservation; it may return a Refused. Optional.
	Activate func(context.Context, Call) error
	// Release releases what is allocated for a reservation. Optional.
	Release func(context.Context, Call) error
	// Held returns the uids of the reservations for which something is allocated. Optional.
	Held func(context.Context) ([]string, error)
}

// Review is what all items of a request have in common.
type Review struct {
	AdmissionCheck string          `json:"admissionCheck"`
	Time           time.Time       `json:"time"`
	DryRun         bool            `json:"dryRun"`
	Config         json.RawMessage `json:"config"`
}

// Item is one Workload that holds quota.
type Item struct {
	UID           string       `json:"uid"`
	Workload      Workload     `json:"workload"`
	ReservedAt    time.Time    `json:"reservedAt"`
	WaitedSeconds uint64       `json:"waitedSeconds"`
	Attempt       uint32       `json:"attempt"`
	Checks        []CheckState `json:"checks"`
}

// Workload is a Workload.
type Workload struct {
	Namespace                   string            `json:"namespace"`
	Name                        string            `json:"name"`
	UID                         string            `json:"uid"`
	JobUID                      string            `json:"jobUid"`
	Owner                       *Owner            `json:"owner"`
	Role                        string            `json:"role"`
	CreatedAt                   *time.Time        `json:"createdAt"`
	Labels                      map[string]string `json:"labels"`
	Annotations                 map[string]string `json:"annotations"`
	Queue                       string            `json:"queue"`
	ClusterQueue                string            `json:"clusterQueue"`
	Priority                    int32             `json:"priority"`
	PriorityClass               string            `json:"priorityClass"`
	Admitted                    bool              `json:"admitted"`
	MaximumExecutionTimeSeconds *uint64           `json:"maximumExecutionTimeSeconds"`
	PodSets                     []PodSet          `json:"podSets"`
}

// Owner is the object that owns a Workload.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// PodSet is a pod set.
type PodSet struct {
	Name      string              `json:"name"`
	Count     uint32              `json:"count"`
	Increase  uint32              `json:"increase"`
	Resources map[string]Resource `json:"resources"`
}

// Resource is what a pod set requests of a resource, as decimal numbers.
type Resource struct {
	PerPod string `json:"perPod"`
	Total  string `json:"total"`
	Flavor string `json:"flavor"`
}

// CheckState is the state of another check.
type CheckState struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Verdict is the response for one Workload.
type Verdict struct {
	State               string         `json:"state"`
	Message             string         `json:"message,omitempty"`
	RetryAfterSeconds   uint64         `json:"retryAfterSeconds,omitempty"`
	PodSetUpdates       []PodSetUpdate `json:"podSetUpdates,omitempty"`
	RecheckAfterSeconds *uint64        `json:"recheckAfterSeconds,omitempty"`
	TTLSeconds          *uint64        `json:"ttlSeconds,omitempty"`
}

// PodSetUpdate is what is added to the pods of one pod set.
type PodSetUpdate struct {
	Name         string            `json:"name"`
	Labels       map[string]string `json:"labels,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Tolerations  []any             `json:"tolerations,omitempty"`
}

// Call is what an activation and a release are about.
type Call struct {
	UID            string `json:"uid"`
	AdmissionCheck string `json:"admissionCheck"`
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	JobUID         string `json:"jobUid"`
	Reason         string `json:"reason"`
}

// Refused is what Activate returns when nothing can be allocated now: the Workload stays Pending.
type Refused string

// Error is the reason.
func (refused Refused) Error() string { return string(refused) }

// Ready lets the job start.
func Ready(message string) Verdict { return Verdict{State: "Ready", Message: message} }

// Pending lets the Workload wait, and hold its quota.
func Pending(message string) Verdict { return Verdict{State: "Pending", Message: message} }

// Retry has Kueue evict and requeue the Workload. With a delay, it holds the quota until then.
func Retry(message string, after time.Duration) Verdict {
	return Verdict{State: "Retry", Message: message, RetryAfterSeconds: seconds(after)}
}

// Rejected has Kueue deactivate the Workload.
func Rejected(message string) Verdict { return Verdict{State: "Rejected", Message: message} }

// RecheckAfter is the same verdict with another review after delay.
func (verdict Verdict) RecheckAfter(delay time.Duration) Verdict {
	after := seconds(delay)
	verdict.RecheckAfterSeconds = &after
	return verdict
}

// TTL is the same verdict, which holds for that long while the Workload stays as it is.
func (verdict Verdict) TTL(ttl time.Duration) Verdict {
	holds := seconds(ttl)
	verdict.TTLSeconds = &holds
	return verdict
}

// Verify says whether header (Kueue-Check-Signature) signs body, recently.
func Verify(key, header string, body []byte, now time.Time) bool {
	parts := map[string]string{}
	for _, part := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	signed, err := strconv.ParseInt(parts["t"], 10, 64)
	given, malformed := hex.DecodeString(parts["v1"])
	if err != nil || malformed != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%d.", signed)
	mac.Write(body)
	return hmac.Equal(mac.Sum(nil), given) && now.Sub(time.Unix(signed, 0)).Abs() <= tolerance
}

type document struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Request    json.RawMessage `json:"request,omitempty"`
	Response   any             `json:"response,omitempty"`
}

type answer struct {
	UID string `json:"uid"`
	*Verdict
	Error string `json:"error,omitempty"`
}

// ServeHTTP responds to one request.
func (handler Handler) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, largest))
	if err != nil {
		write(response, http.StatusRequestEntityTooLarge, message("the request is too large"))
		return
	}
	signature := request.Header.Get("Kueue-Check-Signature")
	if handler.Key != "" && !Verify(handler.Key, signature, body, time.Now()) {
		write(response, http.StatusUnauthorized, message("the signature is missing, wrong or old"))
		return
	}
	status, answer := handler.respond(request, body)
	write(response, status, answer)
}

func (handler Handler) respond(request *http.Request, body []byte) (int, any) {
	ctx := request.Context()
	if request.Method == http.MethodGet {
		return handler.held(ctx)
	}
	var asked document
	if err := json.Unmarshal(body, &asked); err != nil || asked.APIVersion != APIVersion {
		return http.StatusBadRequest, message("this is no document of a WebhookCheck")
	}
	switch asked.Kind {
	case "AdmissionCheckReview":
		var review struct {
			Review
			Items []Item `json:"items"`
		}
		if err := json.Unmarshal(asked.Request, &review); err != nil {
			return http.StatusBadRequest, message(err.Error())
		}
		answers := make([]answer, 0, len(review.Items))
		for _, item := range review.Items {
			answers = append(answers, handler.answer(ctx, item, review.Review))
		}
		items := map[string]any{"items": answers}
		return http.StatusOK, document{APIVersion: APIVersion, Kind: asked.Kind, Response: items}
	case "AdmissionCheckActivation":
		return call(ctx, handler.Activate, asked.Request)
	case "AdmissionCheckRelease":
		return call(ctx, handler.Release, asked.Request)
	}
	return http.StatusNotFound, message("there is no " + asked.Kind + " here")
}

func (handler Handler) answer(ctx context.Context, item Item, review Review) (result answer) {
	defer func() {
		if problem := recover(); problem != nil {
			result = answer{UID: item.UID, Error: fmt.Sprintf("panic: %v", problem)}
		}
	}()
	verdict, err := handler.Review(ctx, item, review)
	if err != nil {
		return answer{UID: item.UID, Error: err.Error()}
	}
	if _, err := json.Marshal(verdict); err != nil {
		return answer{UID: item.UID, Error: err.Error()}
	}
	return answer{UID: item.UID, Verdict: &verdict}
}

func (handler Handler) held(ctx context.Context) (int, any) {
	if handler.Held == nil {
		return http.StatusNotFound, message("nothing is allocated here")
	}
	uids, err := handler.Held(ctx)
	if err != nil {
		return http.StatusInternalServerError, message(err.Error())
	}
	held := map[string]any{"uids": append([]string{}, uids...)}
	return http.StatusOK, document{APIVersion: APIVersion, Kind: "AdmissionCheckHeldList", Response: held}
}

func call(ctx context.Context, function func(context.Context, Call) error, request []byte) (int, any) {
	if function == nil {
		return http.StatusNotFound, message("this call is not supported here")
	}
	var call Call
	if err := json.Unmarshal(request, &call); err != nil {
		return http.StatusBadRequest, message(err.Error())
	}
	var refused Refused
	err := function(ctx, call)
	switch {
	case err == nil:
		return http.StatusNoContent, nil
	case errors.As(err, &refused):
		return http.StatusConflict, message(refused.Error())
	}
	return http.StatusInternalServerError, message(err.Error())
}

func message(text string) any { return map[string]string{"message": text} }

func write(response http.ResponseWriter, status int, answer any) {
	if answer == nil {
		response.WriteHeader(status)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"message": "the response is no JSON"}`)
	}
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(status)
	_, _ = response.Write(body)
}

// seconds rounds up: what is reviewed too early waits once more.
func seconds(duration time.Duration) uint64 {
	if duration <= 0 {
		return 0
	}
	return uint64((duration + time.Second - 1) / time.Second)
}
