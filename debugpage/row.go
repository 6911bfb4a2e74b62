package debugpage

import (
	"maps"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	// A model stays among those in use, and in front if it was blocked, for some time, so that
	// rows do not jump while someone reads them.
	activeFor = time.Minute
	firstFor  = 10 * time.Second
	// refusedFor is how long a refusal keeps a model among those in use.
	refusedFor = 5 * time.Minute

	// Moments that differ by less are the same: they are computed from ages.
	jitter    = 100 * time.Millisecond
	jitterAge = 5 * time.Second // of the oldest open call, which is known to some seconds
)

// row is a model on the page. But for its text, which is rendered when a viewer needs it, it does
// not change: a model that changes gets another row with the same id.
type row struct {
	id        uint64 // of the model on the page
	version   uint64 // of the content that first had it
	explained ratelimit.Explanation
	active    bool      // not folded
	first     bool      // among those in front
	inUse     time.Time // when the model was last in use
	blocked   time.Time // when it was last blocked

	once sync.Once
	text string
}

func newRow(id uint64, e *ratelimit.Explanation, version uint64) *row {
	r := &row{id: id, version: version, explained: *e}
	r.place(e)
	return r
}

// next returns the row of the model at a later moment: r itself if it shows the same.
func (r *row) next(e *ratelimit.Explanation, version uint64) *row {
	n := &row{id: r.id, version: version, explained: *e, inUse: r.inUse, blocked: r.blocked}
	n.place(e)
	if n.active == r.active && n.first == r.first && sameExplanation(&r.explained, e) {
		r.inUse, r.blocked = n.inUse, n.blocked
		return r
	}
	return n
}

// place says where on the page the model stands.
func (r *row) place(e *ratelimit.Explanation) {
	if inUse(e) {
		r.inUse = e.At
	}
	if isBlocked(e) {
		r.blocked = e.At
	}
	r.active = e.At.Sub(r.inUse) < activeFor
	r.first = e.At.Sub(r.blocked) < firstFor
}

// inUse reports whether there is something to see of the model.
func inUse(e *ratelimit.Explanation) bool {
	s := &e.Next.Stats
	return s.RPM|s.TPM|s.ExternalRPM|s.ExternalTPM|s.ExternalITPM|s.ExternalOTPM|e.InFlight|e.Waiting != 0 ||
		isBlocked(e) || e.LastRefusal != nil && e.At.Sub(e.LastRefusal.At) < refusedFor
}

// isBlocked reports whether a new request would not pass.
func isBlocked(e *ratelimit.Explanation) bool { return !e.Next.Allowed || e.Waiting > 0 }

// sameExplanation reports whether two explanations show the same: all but the moment itself, and
// what follows from it.
func sameExplanation(a, b *ratelimit.Explanation) bool {
	return a.Counted == b.Counted && a.Quota == b.Quota && a.Origin == b.Origin && a.Provider == b.Provider &&
		a.ProfileReadOn.Equal(b.ProfileReadOn) &&
		a.InFlight == b.InFlight && a.Waiting == b.Waiting && a.OpenOverMinute == b.OpenOverMinute &&
		a.CooldownUntil.Equal(b.CooldownUntil) && a.Cause == b.Cause &&
		a.Next.Allowed == b.Next.Allowed && a.Next.Never == b.Next.Never && a.Next.Code == b.Next.Code &&
		a.Next.Reason == b.Next.Reason && sameUse(&a.Next.Stats, &b.Next.Stats) &&
		(a.Next.RetryAfter > 0) == (b.Next.RetryAfter > 0) &&
		near(a.At.Add(a.Next.RetryAfter), b.At.Add(b.Next.RetryAfter), jitter, a.Next.RetryAfter > 0) &&
		sameOldest(a, b) &&
		sameRefusal(a.LastRefusal, b.LastRefusal) &&
		slices.EqualFunc(a.Limits, b.Limits, sameLimit) && sameFound(a.Found, b.Found) &&
		slices.EqualFunc(a.Budgets, b.Budgets, sameBudget) && maps.Equal(a.WaitingByClass, b.WaitingByClass) &&
		slices.EqualFunc(a.Pools, b.Pools, samePool) &&
		slices.EqualFunc(a.Line, b.Line, func(v, w ratelimit.Waiter) bool {
			return v.PromptTokens == w.PromptTokens && v.OutputTokens == w.OutputTokens && v.Class == w.Class &&
				near(a.At.Add(-v.Waited), b.At.Add(-w.Waited), jitter, true)
		})
}

// near reports whether two moments differ by less than a tolerance, or do not matter.
func near(a, b time.Time, tolerance time.Duration, matters bool) bool {
	return !matters || a.Sub(b).Abs() < tolerance
}

// sameUse compares what is shown of a model without limits.
func sameUse(a, b *ratelimit.ModelStats) bool { return a.RPM == b.RPM && a.TPM == b.TPM }

// sameOldest compares when the oldest open calls began, as far as that is known.
func sameOldest(a, b *ratelimit.Explanation) bool {
	if agesVague(a) || agesVague(b) || a.OldestOpen == 0 || b.OldestOpen == 0 {
		return agesVague(a) == agesVague(b) && (a.OldestOpen == 0) == (b.OldestOpen == 0)
	}
	return near(a.At.Add(-a.OldestOpen), b.At.Add(-b.OldestOpen), jitterAge, true)
}

// agesVague reports whether the age of the oldest open call may only say that it is over a minute.
func agesVague(e *ratelimit.Explanation) bool {
	return e.OpenOverMinute > 0 && e.OldestOpen < 90*time.Second
}

func sameRefusal(a, b *ratelimit.Refused) bool {
	if a == nil || b == nil {
		return a == b
	}
	return near(a.At, b.At, jitter, true) && a.Code == b.Code && a.Reason == b.Reason && a.RetryAfter == b.RetryAfter
}

// sameBudget compares what is shown of two budgets.
func sameBudget(a, b ratelimit.BudgetState) bool {
	return a.Limit == b.Limit && a.Max == b.Max && a.Spent == b.Spent && near(a.Until, b.Until, jitter, true)
}

// samePool compares what a model's row shows of a pool: its name, and whether it blocks.
func samePool(a, b ratelimit.PoolState) bool {
	state, why, _ := blockOf(a.Limits, a.Budgets, nil)
	other, reason, _ := blockOf(b.Limits, b.Budgets, nil)
	return a.Pool == b.Pool && state == other && why == reason
}

func sameLimit(a, b ratelimit.LimitState) bool {
	room, other := a.RoomAt, b.RoomAt
	a.RoomAt, b.RoomAt = time.Time{}, time.Time{}
	return a == b && room.IsZero() == other.IsZero() && near(room, other, jitter, true)
}
