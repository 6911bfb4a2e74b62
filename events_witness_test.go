// Events: a handler that checks each event as it comes, and counts, and the fields of each kind.

package ratelimit_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// callKey is the key of what tests put into the contexts of calls.
type callKey struct{}

func callNamed(ctx context.Context, name any) context.Context {
	return context.WithValue(ctx, callKey{}, name)
}

// told is an event as it came, with copies of what it points to.
type told struct {
	ratelimit.Event
	decision ratelimit.Decision
	quota    ratelimit.ModelQuota
	ctx      context.Context
	at       time.Time
}

func toldOf(ctx context.Context, e *ratelimit.Event) told {
	is := told{Event: *e, ctx: ctx, at: time.Now()}
	if e.Decision != nil {
		is.decision = *e.Decision
	}
	if e.Quota != nil {
		is.quota = *e.Quota
	}
	return is
}

// same reports whether an event still is what it was.
func (is *told) same(e *ratelimit.Event) bool {
	return *e == is.Event && (e.Decision == nil || *e.Decision == is.decision) && (e.Quota == nil || *e.Quota == is.quota)
}

// toldCall is what was told of one call.
type toldCall struct {
	queued, ended    bool // ended by a refusal, or because it passed
	decision         ratelimit.Decision
	admitted, closed int
	name             any    // in its context
	trail            string // the kinds
}

// witness is an EventHandler that checks what is told of each call, and by which fields.
type witness struct {
	t testing.TB
	// Set before the limiter is made.
	keeps  bool                                          // all that it is told
	spoils bool                                          // the event, when it has read it
	within func(ctx context.Context, e *ratelimit.Event) // is called in each event, and before it is looked at again

	complaints atomic.Int64

	mu    sync.Mutex
	n     map[ratelimit.EventKind]int
	sums  map[ratelimit.EventKind]ratelimit.Usage // settled
	calls map[uint64]*toldCall
	all   []told
	over  bool // the limiter is closed
}

func newWitness(t testing.TB) *witness {
	return &witness{
		t: t, n: make(map[ratelimit.EventKind]int), sums: make(map[ratelimit.EventKind]ratelimit.Usage),
		calls: make(map[uint64]*toldCall),
	}
}

// witnessOf returns one that keeps all that it is told.
func witnessOf(t testing.TB) *witness {
	w := newWitness(t)
	w.keeps = true
	return w
}

// complain reports a failure, unless there were many.
func (w *witness) complain(format string, args ...any) {
	if w.complaints.Add(1) <= 5 {
		w.t.Errorf(format, args...)
	}
}

// HandleEvent implements ratelimit.EventHandler.
func (w *witness) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	is := toldOf(ctx, e)
	if why := is.misfit(); why != "" {
		w.complain("%s: %s\n%+v", e.Kind, why, is.Event)
	}
	w.note(&is)
	if w.within != nil {
		w.within(ctx, e)
	}
	if !is.same(e) {
		w.complain("%s: it became another event while it was handled:\n%+v\nwas %+v", is.Kind, *e, is.Event)
	}
	if w.spoils {
		*e = ratelimit.Event{
			Kind: "spoilt", ID: 1 << 60, Model: "spoilt", Requested: "spoilt", Pool: "spoilt", Provider: "spoilt", Class: "spoilt", Cost: 1 << 40,
			Estimated: ratelimit.Usage{PromptTokens: 1 << 30}, Settled: ratelimit.Usage{OutputTokens: 1 << 30},
			Wait: time.Hour, Held: time.Hour, Err: context.Canceled, Cause: "spoilt", Until: time.Now(), By: "spoilt",
			Status: 999, Problem: "spoilt", RetryAfter: time.Hour, Nearest: "spoilt", System: "spoilt",
			Operation: "spoilt", Took: time.Hour,
			Decision: &ratelimit.Decision{Reason: "spoilt"}, Quota: &ratelimit.ModelQuota{MaxRPM: 1},
		}
	}
}

// note counts an event, and checks that it follows those before it of its call.
func (w *witness) note(is *told) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		w.complain("%s of %q was told after Close had returned", is.Kind, is.Model)
	}
	w.n[is.Kind]++
	sum := w.sums[is.Kind]
	sum.PromptTokens += is.Settled.PromptTokens
	sum.OutputTokens += is.Settled.OutputTokens
	w.sums[is.Kind] = sum
	if w.keeps {
		w.all = append(w.all, *is)
	}
	if is.ID == 0 {
		return
	}
	call := w.calls[is.ID]
	if call == nil {
		call = &toldCall{name: is.ctx.Value(callKey{})}
		w.calls[is.ID] = call
	}
	if why := call.follow(is); why != "" {
		w.complain("%s of call %d (%v): %s; before it came%s", is.Kind, is.ID, call.name, why, call.trail)
	}
	call.trail += " " + string(is.Kind)
}

// follow brings a call up to an event, and says what is wrong with it.
func (c *toldCall) follow(is *told) string {
	name := is.ctx.Value(callKey{})
	switch is.Kind {
	case ratelimit.EventExpired, ratelimit.EventReleased: // which nobody may have called for
		if name != nil && name != c.name {
			return fmt.Sprintf("the context is that of %v", name)
		}
	default:
		if name != c.name {
			return fmt.Sprintf("the context is that of %v", name)
		}
	}
	switch is.Kind {
	case ratelimit.EventQueued:
		if c.queued || c.ended || c.admitted > 0 {
			return "it comes first"
		}
		c.queued, c.decision = true, is.decision
	case ratelimit.EventAdmitted:
		if c.admitted++; c.ended {
			return "the call is over"
		}
		if c.queued != (is.Decision != nil) || !c.queued && is.Wait != 0 {
			return fmt.Sprintf("the decision is %v after %v, and the call was queued: %t", is.Decision, is.Wait, c.queued)
		}
		if c.queued && is.decision != c.decision {
			return fmt.Sprintf("the decision is %+v, was %+v", is.decision, c.decision)
		}
	case ratelimit.EventPassed, ratelimit.EventRefused:
		if c.ended || c.admitted > 0 {
			return "the call is over"
		}
		if is.Kind == ratelimit.EventPassed && !c.queued {
			return "it did not wait"
		}
		if is.Decision == nil && (c.queued || is.Err != context.Canceled && is.Err != context.DeadlineExceeded) {
			return fmt.Sprintf("it has no decision, and the error %v", is.Err)
		}
		if !c.queued && is.Wait != 0 {
			return fmt.Sprintf("it waited for %v, and was not queued", is.Wait)
		}
		c.ended = true
	case ratelimit.EventSettled, ratelimit.EventReleased, ratelimit.EventExpired:
		if c.closed++; c.closed > c.admitted {
			return "more reservations end than were made"
		}
	case ratelimit.EventRecorded:
		if c.queued || c.ended || c.admitted > 0 {
			return "it is a call of its own"
		}
		c.ended = true
	}
	return ""
}

// closes closes a limiter, after which nothing may come.
func (w *witness) closes(rl *ratelimit.RateLimiter) {
	w.t.Helper()
	if err := rl.Close(); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// count returns how many events of some kinds came.
func (w *witness) count(kinds ...ratelimit.EventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range kinds {
		n += w.n[kind]
	}
	return n
}

// settledSum returns what stays charged by the events of some kinds.
func (w *witness) settledSum(kinds ...ratelimit.EventKind) (sum ratelimit.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range kinds {
		sum.PromptTokens += w.sums[kind].PromptTokens
		sum.OutputTokens += w.sums[kind].OutputTokens
	}
	return sum
}

// open returns how many reservations are open, as the events have it.
func (w *witness) open() int {
	return w.count(ratelimit.EventAdmitted) - w.count(ratelimit.EventSettled, ratelimit.EventReleased, ratelimit.EventExpired)
}

// wantOpen compares that with what the test knows, at a quiet moment.
func (w *witness) wantOpen(want int) {
	w.t.Helper()
	if got := w.open(); got != want {
		w.t.Errorf("%d reservations are open by the events, want %d: %v", got, want, w.counts())
	}
}

// waitOpen waits until so many reservations are open, as the events have it, but not for ever.
func (w *witness) waitOpen(want int) {
	for began := time.Now(); w.open() > want && time.Since(began) < 10*time.Second; {
		time.Sleep(time.Millisecond)
	}
}

func (w *witness) counts() map[ratelimit.EventKind]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.n)
}

// lines returns what was told since the last time, of some kinds or of all but EventSaved.
func (w *witness) lines(kinds ...ratelimit.EventKind) []string { return linesOf(w.take(), kinds...) }

func linesOf(all []told, kinds ...ratelimit.EventKind) (lines []string) {
	numbers := make(map[uint64]int)
	for _, e := range all {
		if e.ID != 0 && numbers[e.ID] == 0 {
			numbers[e.ID] = len(numbers) + 1
		}
		if len(kinds) == 0 && e.Kind != ratelimit.EventSaved || slices.Contains(kinds, e.Kind) {
			lines = append(lines, e.line(numbers[e.ID]))
		}
	}
	return lines
}

// take returns what was told since the last time.
func (w *witness) take() []told {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// ofCalls is take for what was told of calls.
func (w *witness) ofCalls() []told {
	return slices.DeleteFunc(w.take(), func(is told) bool { return is.ID == 0 })
}

// want compares what was told since the last time, once nothing goes on in the bubble.
func (w *witness) want(lines ...string) {
	w.t.Helper()
	synctest.Wait()
	w.wantLines(w.lines(), lines)
}

func (w *witness) wantLines(got, want []string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// line says an event in one line: calls are numbered as they came.
func (is *told) line(call int) string {
	var b strings.Builder
	if call > 0 {
		fmt.Fprintf(&b, "#%d ", call)
	}
	b.WriteString(string(is.Kind))
	say := func(format string, v any) {
		if !reflect.ValueOf(v).IsZero() {
			fmt.Fprintf(&b, " "+format, v)
		}
	}
	usage := func(u ratelimit.Usage) string { return fmt.Sprintf("%d+%d", u.PromptTokens, u.OutputTokens) }
	say("%s", is.Model)
	if is.Requested != is.Model {
		say("as %s", is.Requested)
	}
	say("of %s", is.Provider)
	if set := fieldsOf[is.Kind]; set.has("Estimated") {
		say("%s", usage(is.Estimated))
	}
	if set := fieldsOf[is.Kind]; set.has("Settled") {
		say("used %s", usage(is.Settled))
	}
	say("after %v", is.Wait)
	say("held %v", is.Held)
	say("[%s]", is.decision.Code)
	say("cause %s", is.Cause)
	if !is.Until.IsZero() {
		say("for %v", is.Until.Sub(is.at))
	}
	if is.Kind == ratelimit.EventQuotaChanged {
		say("by %s", is.By)
		if is.Quota == nil {
			b.WriteString(" none")
		} else {
			fmt.Fprintf(&b, " rpm %d tpm %d", is.quota.MaxRPM, is.quota.MaxTPM)
		}
	}
	say("status %d", is.Status)
	say("%s", is.Problem)
	say("retry %v", is.RetryAfter)
	say("nearest %s", is.Nearest)
	say("%s", is.System)
	if is.Operation != "wait" { // which TestEventsOfWaitsAlone looks at
		say("%s", is.Operation)
	}
	if is.Err != nil {
		say("error: %v", is.Err.Error())
	}
	return b.String()
}

// eventFields are the fields that a kind may set, beside Kind, Model, Requested and Provider. Those
// that it always sets have an exclamation mark.
type eventFields []string

func (f eventFields) has(name string) bool {
	return slices.Contains(f, name) || slices.Contains(f, name+"!")
}

// fieldsOf is what event.go says of each kind.
var fieldsOf = map[ratelimit.EventKind]eventFields{
	ratelimit.EventQueued:   {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Decision!", "Operation"},
	ratelimit.EventAdmitted: {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Cost", "Wait", "Decision"},
	ratelimit.EventPassed:   {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Wait", "Decision!", "Operation"},
	ratelimit.EventRefused:  {"ID!", "Model!", "Requested!", "Pool", "Provider", "Class", "Estimated", "Wait", "Decision", "Err", "Operation"},
	ratelimit.EventSettled:  {"ID!", "Model!", "Requested!", "Provider", "Class", "Estimated", "Settled", "Cost", "Held"},
	ratelimit.EventReleased: {"ID!", "Model!", "Requested!", "Provider", "Class", "Estimated", "Settled", "Cost", "Held"},
	ratelimit.EventExpired:  {"ID!", "Model!", "Requested!", "Provider", "Class", "Estimated", "Settled", "Cost", "Held"},
	ratelimit.EventRecorded: {"ID!", "Model!", "Requested!", "Provider", "Settled", "Cost"},

	ratelimit.EventCooldownBegan:   {"Model!", "Requested!", "Pool", "Provider", "Cause!", "Until!"},
	ratelimit.EventCooldownEnded:   {"Model!", "Requested!", "Pool", "Provider", "Cause!"},
	ratelimit.EventQuotaChanged:    {"Model!", "Requested!", "Pool", "Provider", "Quota", "By!"},
	ratelimit.EventProviderRefused: {"Model!", "Requested!", "Provider", "Status", "Problem", "RetryAfter"},
	ratelimit.EventUnknownModel:    {"Model!", "Requested!", "Provider", "Nearest"},
	ratelimit.EventUncounted:       {"Model", "Requested", "Provider", "Path!", "Err!"},
	ratelimit.EventEvicted:         {"Model!", "Requested!", "Provider"},
	ratelimit.EventStoreDown:       {"System!", "Err!"},
	ratelimit.EventStoreUp:         {"System!"},
	ratelimit.EventSaved:           {"System!", "Operation!", "Took", "Err"},
}

// misfit says which field of an event is set that its kind does not name, or is zero where it must
// not be; empty for none.
func (is *told) misfit() string {
	set, known := fieldsOf[is.Kind]
	if !known {
		return "an unknown kind"
	}
	e := reflect.ValueOf(is.Event)
	for i := range e.NumField() {
		name := e.Type().Field(i).Name
		switch zero := e.Field(i).IsZero(); {
		case name == "Kind":
		case is.Pool != "" && is.Decision == nil && (name == "Model" || name == "Requested"):
			if !zero {
				return "an event of a pool has " + name
			}
		case zero && slices.Contains(set, name+"!"):
			return name + " is zero"
		case !zero && !set.has(name):
			return name + " is set"
		}
	}
	switch d := is.decision; {
	case is.Wait < 0 || is.Held < 0 || is.Took < 0 || is.RetryAfter < 0:
		return "a negative duration"
	case is.Settled.PromptTokens < 0 || is.Settled.OutputTokens < 0:
		return "negative tokens stay charged"
	case is.Decision != nil && (d.Allowed || d.Code == "" || d.Code == ratelimit.DecisionAllowed || d.Reason == ""):
		return "the decision allows it"
	case is.Kind == ratelimit.EventExpired && is.Settled != is.Estimated:
		return "it does not stay charged at its estimate"
	case is.Kind == ratelimit.EventReleased && is.Settled != (ratelimit.Usage{}) && is.Settled != is.Estimated:
		return "neither all of it is given back nor nothing"
	case is.ctx == nil:
		return "no context"
	}
	return ""
}
