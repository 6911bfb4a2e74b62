package engine_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Room is kept of a model without a quota of its own for a class that has asked for it, or is not,
// whether or not somebody has looked at the model meanwhile.
func TestLooksDecideNoReserve(t *testing.T) {
	for _, tt := range []struct {
		name  string
		asks  func(r *room, look func())
		keeps bool
	}{
		{"a call is cancelled", func(r *room, look func()) {
			r.cancel(r.admit("first", account.Minute))
			look()
		}, true},
		{"it is refused after that", func(r *room, look func()) {
			r.cancel(r.admit("first", account.Minute))
			look()
			r.sleep(40 * time.Second)
			if c := r.admit("first", account.Minute, "m", "full"); c != nil {
				r.Fatal("two models pass of which one is full")
			}
			r.sleep(40 * time.Second)
			look()
		}, true},
		{"a minute passes", func(r *room, look func()) {
			r.cancel(r.admit("first", account.Minute))
			r.sleep(time.Minute + 1)
			look()
		}, false},
		{"a minute passes, and a longer one comes", func(r *room, look func()) {
			r.cancel(r.admit("first", account.Minute))
			r.sleep(time.Minute + 1)
			look()
			r.cancel(r.admit("", 2*account.Minute, "slot"))
		}, false},
		{"a waiter goes", func(r *room, look func()) {
			slot := r.admit("", account.Minute, "slot")
			w := r.enter("w", nil, r.option("first", "", "m", "slot"))
			r.e.Leave(w, r.now)
			r.cancel(slot)
			look()
		}, false},
		{"it is there for a cooldown that is over", func(r *room, look func()) {
			r.say("m", state.Quota{MaxRPM: 4})
			r.admit("first", account.Minute, "m", "full")
			r.e.Cool("m", "m", r.now.Wall+int64(time.Second), "", r.now)
			r.e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.RemoveQuota("m") }, r.now)
			r.sleep(2 * time.Second)
			look()
		}, false},
		{"it loses its place", func(r *room, look func()) {
			r.say("*", state.Quota{})
			r.cancel(r.admit("first", account.Minute))
			r.admit("", account.Minute, "n")
			r.e.SetMaxModels(1)
			r.admit("", account.Minute)
			look()
			r.e.SetMaxModels(0)
			r.say("*", state.Quota{MaxRPM: 4})
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, looks := range []bool{false, true} {
				r := newRoom(t, map[string]state.Quota{
					"*": {MaxRPM: 4}, "full": {MaxRPM: 1}, "slot": {}, "pool of slot": {MaxInFlight: 1},
				}, map[string]state.Class{"first": {ReservePercent: 50}})
				r.admit("", account.Minute, "full")
				tt.asks(r, func() {
					if a := r.e.Account("m"); looks && a != nil {
						r.e.Tidy(a, r.now)
					}
				})
				passed := 0
				for r.admit("", r.e.Span()) != nil {
					passed++
				}
				if keeps := passed == 2; keeps != tt.keeps {
					t.Errorf("with looks %v: %d of 4 calls of others pass", looks, passed)
				}
			}
		})
	}
}

// admit asks for one call of each model, m without any, and returns the first; nil where it is
// refused.
func (r *room) admit(class string, span int64, models ...string) *account.Call {
	if len(models) == 0 {
		models = []string{"m"}
	}
	o := r.option(class, "", models...)
	o.By.Span = span
	calls, v := r.e.Admit(nil, &o.By, o.Requests, r.now)
	if !v.Allowed {
		return nil
	}
	return calls[0]
}

func (r *room) say(name string, q state.Quota) {
	r.e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.SetQuota(name, q) }, r.now)
}

func (r *room) cancel(c *account.Call) {
	r.e.Settle(c, account.Cancelled, state.Count{}, 0, r.now)
	r.follow()
}

// A model without a quota of its own begins a search for its limits where there is room for one,
// whether or not somebody has looked at it after it was there for something else.
func TestLooksDecideNoSearch(t *testing.T) {
	for _, looks := range []bool{false, true} {
		r := newRoom(t, map[string]state.Quota{"*": {MaxInFlight: 2, AdaptiveFloorInFlight: 1}}, nil)
		r.e.SetMaxModels(1)
		refuse := func(name string) bool {
			target := r.e.Resolve(name, name)
			return r.e.Refuse(&target, account.ProviderRefusal{Overload: true}, r.now)
		}
		if !refuse("first") {
			t.Fatal("the refusal of a call lowers nothing")
		}
		r.e.Cool("second", "second", r.now.Wall+int64(time.Second), "", r.now)
		r.sleep(2 * time.Second)
		if looks {
			r.e.Tidy(r.e.Account("second"), r.now)
		}
		if refuse("second") {
			t.Errorf("with looks %v: a search begins for which there is no room", looks)
		}
	}
}
