package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/lines"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// room is an engine whose calls wait, by their names.
type room struct {
	*testing.T
	e      *engine.Engine
	now    account.Now
	names  map[*lines.Waiter]string
	served []string
	calls  []*account.Call
}

func newRoom(t *testing.T, quotas map[string]state.Quota, classes map[string]state.Class) *room {
	r := &room{T: t, e: engine.New(0, nil), now: at(0), names: make(map[*lines.Waiter]string)}
	for name, q := range quotas {
		r.e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change {
			if members, isPool := strings.CutPrefix(name, "pool of "); isPool {
				return c.SetPool(state.PoolName(members), strings.Fields(members), q)
			}
			return c.SetQuota(name, q)
		}, r.now)
	}
	r.e.SetClasses(classes, r.now)
	return r
}

// option is one request for each of some models.
func (r *room) option(class, flow string, models ...string) engine.Option {
	o := engine.Option{By: engine.By{Span: account.Minute, Class: class, Flow: flow}}
	for _, m := range models {
		o.Requests = append(o.Requests, engine.Request{Target: r.e.Resolve(m, m), Tokens: state.Count{Input: 1}})
	}
	return o
}

func (r *room) enter(name string, change func(*lines.Waiter), options ...engine.Option) *lines.Waiter {
	w := engine.NewWaiter(options...)
	if change != nil {
		change(w)
	}
	r.names[w] = name
	r.e.Enter(w, r.now)
	r.follow()
	return w
}

func (r *room) follow() {
	for _, w := range r.e.Done() {
		if w.Served != nil {
			r.served = append(r.served, r.names[w])
			r.calls = append(r.calls, w.Calls...)
		} else {
			r.served = append(r.served, "no "+r.names[w])
		}
	}
}

// end ends the oldest call.
func (r *room) end() {
	c := r.calls[0]
	r.calls = r.calls[1:]
	r.e.Settle(c, account.Committed, state.Count{Input: 1}, 0, r.now)
	r.follow()
}

// sleep lets time pass as the owner of an engine does.
func (r *room) sleep(d time.Duration) {
	until := at(0)
	until.Instant, until.Wall = r.now.Instant+int64(d), r.now.Wall+int64(d)
	for r.e.Due() <= until.Instant {
		due := max(r.e.Due(), r.now.Instant)
		r.now = account.Now{Instant: due, Wall: r.now.WallAt(due)}
		r.e.Advance(r.now)
		r.follow()
	}
	r.now = until
}

func (r *room) want(served ...string) {
	r.Helper()
	if !slices.Equal(r.served, served) {
		r.Errorf("served %v, want %v", r.served, served)
	}
	r.served = nil
}

var oneSlot = map[string]state.Quota{"m": {MaxInFlight: 1}}

func TestFirstComeFirstServed(t *testing.T) {
	r := newRoom(t, oneSlot, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		r.enter(name, nil, r.option("", "", "m"))
	}
	r.want("a")
	r.end()
	r.want("b")
	r.end()
	r.end()
	r.want("c", "d")
}

func TestFlowsTakeTurns(t *testing.T) {
	r := newRoom(t, oneSlot, nil)
	for _, name := range []string{"0", "x1", "x2", "x3", "y1"} {
		r.enter(name, nil, r.option("", name[:1], "m"))
	}
	for range 4 {
		r.end()
	}
	r.want("0", "x1", "y1", "x2", "x3")
}

func TestClassesShareByWeight(t *testing.T) {
	r := newRoom(t, oneSlot, map[string]state.Class{"heavy": {Weight: 3}, "light": {}})
	r.enter("0", nil, r.option("light", "", "m"))
	for range 40 {
		r.enter("light", nil, r.option("light", "", "m"))
		r.enter("heavy", nil, r.option("heavy", "", "m"))
	}
	for range 20 {
		r.end()
	}
	heavy := 0
	for _, name := range r.served[1:] {
		if name == "heavy" {
			heavy++
		}
	}
	if heavy != 15 {
		t.Errorf("%d of 20 services are of the class of weight 3, want 15", heavy)
	}
}

func TestAheadGoesFirstButNotForEver(t *testing.T) {
	r := newRoom(t, oneSlot, map[string]state.Class{"ahead": {Ahead: true}, "": {}})
	r.enter("0", nil, r.option("", "", "m"))
	r.enter("other", nil, r.option("", "", "m"))
	for range 12 {
		r.enter("ahead", nil, r.option("ahead", "", "m"))
	}
	for range 12 {
		r.end()
	}
	if at := slices.Index(r.served, "other"); at != 10 {
		t.Errorf("the other one is served as number %d: %v", at, r.served)
	}
}

func TestHeadThatWaitsForTheDayStopsItsClassOnly(t *testing.T) {
	r := newRoom(t, map[string]state.Quota{"m": {MaxTPD: 3, MaxRPM: 1}}, map[string]state.Class{"a": {}, "b": {}})
	large := r.option("a", "", "m")
	large.Requests[0].Tokens.Input = 3
	r.enter("0", nil, r.option("b", "", "m"))
	r.enter("large", nil, large)
	r.enter("small", nil, r.option("b", "", "m"))
	r.sleep(2 * time.Minute)
	r.want("0", "small")
	r.sleep(25 * time.Hour)
	r.want("large")
}

func TestQueueIsBounded(t *testing.T) {
	r := newRoom(t, oneSlot, map[string]state.Class{"c": {MaxQueue: 1}})
	two := func(w *lines.Waiter) { w.MaxQueue = 2 }
	r.enter("0", two, r.option("", "", "m"))
	r.enter("1", two, r.option("c", "", "m"))
	w := r.enter("2", two, r.option("c", "", "m"))
	r.want("0", "no 2")
	if w.Why.Kind != lines.QueueFull {
		t.Errorf("refused as %d", w.Why.Kind)
	}
	r.enter("3", two, r.option("", "", "m"))
	r.enter("4", two, r.option("", "", "m"))
	r.want("no 4")
}

func TestWaiterThatLeavesMakesWay(t *testing.T) {
	r := newRoom(t, map[string]state.Quota{"a": {MaxInFlight: 1}, "b": {MaxInFlight: 1}}, nil)
	r.enter("0", nil, r.option("", "", "a"))
	both := r.enter("both", nil, r.option("", "", "a", "b"))
	r.enter("b", nil, r.option("", "", "b"))
	r.want("0") // b stands behind both
	r.e.Leave(both, r.now)
	r.follow()
	r.want("b")
}

func TestServedWaiterThatLeavesGivesBack(t *testing.T) {
	r := newRoom(t, oneSlot, nil)
	w := r.enter("0", nil, r.option("", "", "m"))
	r.e.Leave(w, r.now)
	r.calls = nil
	r.enter("1", nil, r.option("", "", "m"))
	r.want("0", "1")
}

func TestWaiterDeniedByItsModelKeepsNobodyOutOfThePool(t *testing.T) {
	r := newRoom(t, map[string]state.Quota{"a": {MaxInFlight: 1}, "b": {MaxRPM: 9}, "pool of a b": {MaxInFlight: 2}}, nil)
	r.enter("a", nil, r.option("", "", "a"))
	r.enter("a waits", nil, r.option("", "", "a"))
	r.enter("b", nil, r.option("", "", "b"))
	r.want("a", "b")
	r.enter("b waits", nil, r.option("", "", "b"))
	r.end()
	r.want("a waits")
	r.end()
	r.want("b waits")
}

func TestAnyOf(t *testing.T) {
	quotas := map[string]state.Quota{"a": {MaxInFlight: 1}, "b": {MaxInFlight: 1}}
	r := newRoom(t, quotas, nil)
	any := func() []engine.Option { return []engine.Option{r.option("", "", "a"), r.option("", "", "b")} }
	r.enter("1", nil, any()...)
	r.enter("2", nil, any()...)
	w := r.enter("3", nil, any()...)
	r.want("1", "2")
	r.calls[0], r.calls[1] = r.calls[1], r.calls[0]
	r.end() // of b
	r.want("3")
	if w.Served != w.Candidates[1] {
		t.Error("it was not served by the candidate that opened")
	}

	r = newRoom(t, quotas, nil)
	r.enter("1", nil, r.option("", "", "a"))
	w = r.enter("2", func(w *lines.Waiter) { w.Patient = r.now.Instant + 5e9 }, any()...)
	r.sleep(5*time.Second - 1)
	r.want("1")
	r.sleep(1)
	r.want("2")
	if w.Served != w.Candidates[1] {
		t.Error("patience did not end with the second candidate")
	}
}

func TestDeadlineThatCannotBeMet(t *testing.T) {
	r := newRoom(t, map[string]state.Quota{"m": {MaxRPM: 1}}, nil)
	r.enter("0", nil, r.option("", "", "m"))
	soon := func(w *lines.Waiter) { w.Deadline = r.now.Instant + 10e9 }
	r.enter("1", soon, r.option("", "", "m"))
	r.want("0") // the open call may be cancelled
	r.e.Arrive(r.calls[0], r.now.Instant, r.now)
	r.follow()
	r.want("no 1") // its request is not given back any more
	w := r.enter("2", soon, r.option("", "", "m"))
	if r.want("no 2"); w.Why.Kind != lines.Late {
		t.Errorf("refused as %d", w.Why.Kind)
	}
}

func TestReservationExpires(t *testing.T) {
	r := newRoom(t, oneSlot, nil)
	o := r.option("", "", "m")
	o.By.HoldTTL = 10e9
	r.enter("0", nil, o)
	r.enter("1", nil, r.option("", "", "m"))
	r.sleep(10*time.Second - 1)
	r.want("0")
	r.sleep(1)
	r.want("1")
	lost := r.calls[0]
	r.e.Settle(lost, account.Cancelled, state.Count{}, 0, r.now) // whoever held it does not know yet
	r.enter("2", nil, r.option("", "", "m"))
	r.want()
}

func TestClassesThatChangePutWaitersInOrderAnew(t *testing.T) {
	r := newRoom(t, oneSlot, nil)
	for _, name := range []string{"0", "1", "2"} {
		r.enter(name, nil, r.option(name, "", "m"))
	}
	r.e.SetClasses(map[string]state.Class{"2": {Ahead: true}}, r.now)
	r.end()
	r.end()
	r.want("0", "2", "1")
}
