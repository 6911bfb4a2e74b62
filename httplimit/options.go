package httplimit

import (
	"fmt"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Options configure a [Handler]. Key is required, and Limits or InFlight. The functions are called
// from several goroutines at once, without locks held.
type Options struct {
	// Limiter counts: a *keyed.Limiter, or another one. With Settle it must be a [Holder]. Nil
	// means a keyed.Limiter of the Handler's own, for this process alone, with the defaults of
	// keyed.Options. One with an Origin must be the caller's, who closes it after the server has
	// stopped.
	Limiter Limiter

	// Key returns whose request it is: a tenant, a user, an API key that was verified. Whatever a
	// client can choose freely is no key. An empty key is refused with status 401, so that a
	// request without a tenant does not pass unlimited: return a name such as "anonymous" to let
	// such requests share one quota.
	Key func(*http.Request) string

	// Limits returns the limits of a key. The Key of each keyed.Request is filled with the key if
	// it is empty; set it where several keys share a quota, as the tenants of a company do. An
	// empty result means no limits. The Handler does not change or keep the result, so it may be
	// the same for all keys. An invalid limit answers the request with status 500. Nil means no
	// limits for any key.
	Limits func(key string) []keyed.Request

	// Cost returns the units that a request takes of a limit; for a limit in Settle, an estimate.
	// The limit has its Key and its own Cost. 0 or less charges nothing. Cost must not read the
	// request's body. Nil means the Cost of the limit itself, which is 1 if it is 0.
	Cost func(r *http.Request, limit keyed.Request) (units int)

	// Settle has the limits, by Namespace, whose cost is known only when the response has ended,
	// and the functions that know it: see [Settle], [Tokens] and [Report]. A nil function is for
	// limits that are told by Report alone. Limits of other namespaces are charged their cost
	// before the call, whatever becomes of it.
	Settle map[string]Settle

	// InFlight returns how many requests of a key may be served at the same time. 0 or less means
	// no limit. A request takes its place before its limits are asked, and gives it back when the
	// next handler returns or panics, also if it hijacked the connection. Nil means no limit for
	// any key.
	InFlight func(key string) int

	// Slots counts for InFlight. Handlers of several routes share a limit if they have the same
	// Slots. Nil means Slots of the Handler's own.
	Slots *Slots

	// Legacy also sets X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (seconds from
	// now) of the limit that RateLimit lists first. The last one is left out where RateLimit has
	// no t: of InFlight, and of a request that never fits.
	Legacy bool

	// Shadow serves each request, whatever the decision: to see what limits would do before they
	// are enforced. OnDecision and the fields RateLimit-Policy and RateLimit tell the decision.
	// Counts are those of an enforcing Handler: what it would refuse is not charged.
	Shadow bool

	// OnDecision is called for each request after its decision and before the next handler. It
	// must return quickly. Nil discards decisions.
	OnDecision func(Decision)

	// Refuse answers a request that is refused. Status, RetryAfter and the cause are in the
	// Decision; Retry-After and the other fields are set in w already. Nil answers with
	// Decision.Status and an error in JSON in OpenAI's shape.
	Refuse func(w http.ResponseWriter, r *http.Request, d Decision)
}

// Reason is the reason why a request does not fit.
type Reason string

const (
	// OverLimit means that one of the limits of the key has no room.
	OverLimit Reason = "limit"
	// OverInFlight means that as many requests of the key are served as InFlight allows.
	OverInFlight Reason = "in_flight"
	// NoKey means that Options.Key returned nothing.
	NoKey Reason = "no_key"
	// Failed means that the limiter returned an error: a limit is invalid, or it is closed.
	Failed Reason = "error"
)

// Decision is what a [Handler] decided about a request.
type Decision struct {
	// Request is the request. Its body must not be read.
	Request *http.Request
	// Key is the result of Options.Key. It may be a secret.
	Key string
	// OK reports that the request fits all limits, and was charged.
	OK bool
	// Reason is why the request does not fit; empty if OK.
	Reason Reason
	// Shadow reports that the request is served although it is not OK.
	Shadow bool
	// Status is the status of the refusal: 429, for NoKey 401, for Failed 500; 0 if OK.
	Status int
	// RetryAfter is the time after which the request would fit if nothing else came, as Retry-After
	// has it in seconds, rounded up: the longest of all limits that refuse. It is 1 s if only the
	// end of other requests helps. It is 0 if OK, and if waiting does not help.
	RetryAfter time.Duration
	// Limits are the limits that were asked, with their Key and their Cost, which is keyed.Free if
	// they are charged nothing. They and Decisions are empty for NoKey and OverInFlight.
	Limits []keyed.Request
	// Decisions has the decision of each of Limits. It is empty for Failed.
	Decisions []limit.Decision
	// InFlight is the number of requests of the key that are served, this one included if it is
	// OK; MaxInFlight is the result of Options.InFlight. Both are 0 without a limit.
	InFlight, MaxInFlight int
	// Err is the error of the limiter for Failed.
	Err error
}

// Never reports whether a limit can never admit the request, after any wait, because the request
// costs more than the limit.
func (d Decision) Never() bool {
	i := strictest(d.Decisions)
	return i >= 0 && d.Decisions[i].Never
}

// strictest returns the index of the decision that refuses for the longest time, which is for ever
// with Never, and -1 if all are OK.
func strictest(ds []limit.Decision) int {
	found := -1
	for i := range ds {
		if !ds[i].OK && (found < 0 || !ds[found].Never && (ds[i].Never || ds[i].RetryAfter > ds[found].RetryAfter)) {
			found = i
		}
	}
	return found
}

// validate panics if the options cannot work.
func (o *Options) validate() {
	_, holds := o.Limiter.(Holder)
	switch {
	case len(o.Settle) > 0 && !holds:
		panic(fmt.Sprintf("httplimit: Options.Limiter is a %T, want a Holder, because of Options.Settle", o.Limiter))
	case o.Key == nil:
		panic("httplimit: Options.Key is nil")
	case o.Limits == nil && o.InFlight == nil:
		panic("httplimit: Options.Limits and Options.InFlight are nil")
	}
}
