package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// replica is an engine that follows a log.
type replica struct {
	name   string
	e      *engine.Engine
	digest engine.Digest
}

func (r *replica) apply(t *testing.T, is entry, data []byte) engine.Outcome {
	c := is.command
	if data != nil {
		var err error
		if c, err = engine.Decode(data); err != nil {
			t.Fatalf("%s: %+v: %v", r.name, is.command, err)
		}
	}
	o := r.e.Apply(is.now, is.process, is.n, c)
	r.digest = r.digest.After(&o)
	return o
}

// reload replaces the engine by that of its image.
func (r *replica) reload(t *testing.T) {
	image := r.e.AppendImage(nil)
	e, err := engine.Read(image, nil)
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	if again := e.AppendImage(nil); !bytes.Equal(again, image) {
		t.Fatalf("%s: an image of %d bytes is written again as others, from %d on", r.name, len(image), differsAt(image, again))
	}
	r.e = e
}

func differsAt(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// readAll reads whatever can be read.
func readAll(l *rand.Rand, e *engine.Engine, now account.Now) {
	now.Instant += l.Int64N(3 * second)
	now.Wall += l.Int64N(3*hour) - hour
	by := engine.By{Class: classes[l.IntN(len(classes))], Span: account.Minute + l.Int64N(second)}
	var reqs []engine.Request
	for range 1 + l.IntN(3) {
		name := models[l.IntN(len(models))]
		if t, ok := e.Find(name, name); ok {
			reqs = append(reqs, engine.Request{Target: t, Tokens: state.Count{Input: 5}, Priced: true, Most: 100})
		}
	}
	e.Judge(nil, &by, reqs, now)
	e.Zones(now.Wall, func(string) {})
	for a := range e.Accounts {
		for of := range state.Dimensions {
			a.Used(of, by.Span, now)
		}
		a.IsIdle(now, by.Span)
		a.SlotLimit(now)
		a.Found.View().Found(now.Instant)
		a.Spend.OfDay(now.Wall)
		a.LastAt()
		e.FindPools(&engine.Target{Account: a, Counted: a.Name, Asked: a.Name})
	}
	for range e.Open {
	}
	e.Due()
}

// isKnownAgain reports whether an entry that was applied is ignored when it comes again.
func isKnownAgain(e *engine.Engine, t entry, o *engine.Outcome) bool {
	switch c := t.command.(type) {
	case engine.Admit:
		return len(o.Calls) > 0 && e.Call(o.Calls[0]) != nil
	case engine.Enter:
		return e.Waiter(t.process, t.n) != nil
	case engine.Charged:
		return c.Open || e.Call(c.ID) == nil
	case engine.Settle, engine.Leave:
		return true
	}
	return false
}

// The same commands lead to the same outcomes and the same image: applied directly, through bytes,
// by an engine that is loaded from an image now and then, beside reads, and with entries that come
// twice. Each engine has maps of its own, so their order decides nothing.
func TestReplay(t *testing.T) {
	seeds, steps := uint64(6), 1200
	if testing.Short() || racetest.Factor > 1 {
		seeds = 2
	}
	if os.Getenv("RATELIMIT_LONG") != "" {
		seeds, steps = 300, 5000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { replay(t, seed, steps) })
	}
}

func replay(t *testing.T, seed uint64, steps int) {
	direct := &replica{name: "direct", e: engine.New(1, nil)}
	plain := &replica{name: "through bytes", e: engine.New(1, nil)}
	loaded := &replica{name: "loaded from an image", e: engine.New(1, nil)}
	twice := &replica{name: "fed twice", e: engine.New(1, nil)}
	read := &replica{name: "with reads between", e: engine.New(1, nil)}
	l := newLife(seed, direct.e)
	other := rand.New(rand.NewPCG(seed, 2))
	for i := 0; i < steps; i++ {
		for _, is := range l.entries() {
			o := direct.apply(t, is, nil)
			l.heard(is, &o)
			data := is.command.Append(nil)
			for _, r := range []*replica{plain, loaded, twice, read} {
				got := r.apply(t, is, data)
				if r.digest != direct.digest {
					t.Fatalf("entry %d, %T %+v\n%s: %+v\nwant %+v", i, is.command, is.command, r.name, got, o)
				}
			}
			if isKnownAgain(twice.e, is, &o) {
				c, _ := engine.Decode(data)
				if again := twice.e.Apply(is.now, is.process, is.n, c); !again.Ignored {
					t.Fatalf("entry %d, %+v comes twice: %+v", i, is.command, again)
				}
			}
			readAll(other, read.e, is.now)
			if i < 300 || other.IntN(30) == 0 {
				loaded.reload(t)
			}
			if other.IntN(100) == 0 {
				same(t, i, direct.e.AppendImage(nil), loaded, twice, read)
			}
		}
	}
	same(t, steps, direct.e.AppendImage(nil), plain, loaded, twice, read)
}

func same(t *testing.T, i int, image []byte, all ...*replica) {
	t.Helper()
	for _, r := range all {
		if is := r.e.AppendImage(nil); !bytes.Equal(is, image) {
			t.Fatalf("entry %d: the image %s has %d bytes, want %d; differs at %d", i, r.name, len(is), len(image), differsAt(is, image))
		}
	}
}

// An engine that is loaded from an image before each entry decides as one that never was. Each log
// was once decided in two ways.
func TestLoadedBeforeEachEntry(t *testing.T) {
	at := func(d int64) account.Now { return account.Now{Instant: 1e15 + d, Wall: 1_711_900_000e9 + d} }
	name := func(s string) engine.Name { return engine.Name{Asked: s, Counted: s} }
	admit := func(span int64, model string) engine.Command {
		return engine.Admit{By: engine.By{Span: span}, Wants: []engine.Want{{Name: name(model)}}}
	}
	enter := func(patient int64, models ...string) engine.Command {
		c := engine.Enter{By: engine.By{Span: account.Minute}, Deadline: account.Never, Patient: patient}
		for _, m := range models {
			c.Options = append(c.Options, []engine.Want{{Name: name(m)}})
		}
		return c
	}
	once := state.Quota{MaxRPM: 1}
	zone := engine.Bounds{Zone: "Europe/Berlin", Day: account.Span{Begin: at(-hour).Wall, End: at(hour).Wall}}
	zone.Month = zone.Day
	for _, tt := range []struct {
		name string
		log  []entry
		want string // the code of the last verdict
	}{
		{"a charge that counted for nobody any more, for a longer minute", []entry{
			{at(0), 1, 1, engine.SetQuota{Counted: "m", Quota: once}},
			{at(0), 1, 2, engine.Record{Name: name("m"), Span: account.Minute}},
			{at(60*second + 1), 1, 3, engine.Advance{}},
			{at(60*second + 2), 1, 4, admit(2*account.Minute, "m")},
		}, "ok"},
		{"a model without an account, in a zone that becomes known", []entry{
			{at(0), 1, 1, engine.SetQuota{Counted: "m-*", Quota: state.Quota{MaxRPM: 1, DayZone: "Europe/Berlin"}}},
			{at(0), 1, 2, admit(account.Minute, "m-1")},
			{at(0), 1, 3, zone},
			{at(0), 1, 4, admit(account.Minute, "m-1")},
		}, "ok"},
		{"the quota of all other models", []entry{
			{at(0), 1, 1, admit(account.Minute, "m")},
			{at(0), 1, 2, engine.SetQuota{Counted: "*", Quota: once}},
			{at(0), 1, 3, admit(account.Minute, "m")},
		}, "rpm_exceeded"},
		{"a pool of a file that has no quota of it", []entry{
			{at(0), 1, 1, engine.Loaded{File: catalog.File{Pools: map[string][]string{state.PoolName("p"): {"m"}}}}},
			{at(0), 1, 2, admit(account.Minute, "m")},
		}, "unknown_model"},
		{"a call that moves in buckets which hold it at the price of another quota", []entry{
			{at(0), 1, 1, engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPM: 60, Burst: 30 * time.Second}}},
			{at(0), 1, 2, admit(account.Minute, "m")},
			{at(second), 1, 3, engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPM: 7, Burst: 30 * time.Second}}},
			{at(3 * second), 1, 4, engine.Arrive{ID: account.ID{Process: 1, N: 2}, At: at(2 * second).Instant}},
			{at(6 * second), 1, 5, engine.Arrive{ID: account.ID{Process: 1, N: 2}, At: at(5 * second).Instant}},
			{at(6 * second), 1, 6, admit(account.Minute, "m")},
		}, "ok"},
		{"a second choice that has got a quota since it was asked for", []entry{
			{at(0), 1, 1, engine.SetQuota{Counted: "a", Quota: once}},
			{at(0), 1, 2, engine.SetQuota{Counted: "m-*", Quota: state.Quota{MaxRPM: 5}}},
			{at(0), 1, 3, admit(account.Minute, "a")},
			{at(0), 1, 4, enter(at(second).Instant, "a", "m-1")},
			{at(0), 1, 5, engine.SetQuota{Counted: "m-1", Quota: once}},
			{at(second), 1, 6, engine.Advance{}},
			{at(second), 1, 7, admit(account.Minute, "m-1")},
		}, "rpm_exceeded"},
	} {
		direct, loaded := &replica{name: "direct", e: engine.New(1, nil)}, &replica{name: "loaded", e: engine.New(1, nil)}
		var got engine.Outcome
		for i, is := range tt.log {
			got = direct.apply(t, is, nil)
			if other := loaded.apply(t, is, nil); direct.digest != loaded.digest {
				t.Errorf("%s: entry %d: loaded %+v, want %+v", tt.name, i, other, got)
			}
			loaded.reload(t)
		}
		if got.Verdict.Code != tt.want {
			t.Errorf("%s: %+v, want %s", tt.name, got.Verdict, tt.want)
		}
		same(t, len(tt.log), direct.e.AppendImage(nil), loaded)
	}
}

// The end of a call that another process tells than the one that has made it is a fact, too.
func TestEndIsToldOnce(t *testing.T) {
	at := func(d int64) account.Now { return account.Now{Instant: 1e15 + d, Wall: 1_711_900_000e9 + d} }
	e := engine.New(1, nil)
	name := engine.Name{Asked: "m", Counted: "m"}
	e.Apply(at(0), 1, 1, engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPM: 10}})
	e.Apply(at(1), 1, 2, engine.Admit{By: engine.By{Span: account.Minute}, Wants: []engine.Want{{Name: name}}})
	id := account.ID{Process: 1, N: 2}
	e.Apply(at(2), 2, 1, engine.Settle{ID: id})
	if o := e.Apply(at(3), 1, 3, engine.Charged{ID: id, Name: name}); !o.Ignored {
		t.Error("the process that has made the call tells it anew")
	}
	if n := e.Account("m").Used(state.RPM, account.Minute, e.Last()); n != 1 {
		t.Errorf("one call counts as %d", n)
	}
}

// A fact is told by several processes, and only goes on.
func TestFactsGoOn(t *testing.T) {
	at := func(d int64) account.Now { return account.Now{Instant: 1e15 + d, Wall: 1_711_900_000e9 + d} }
	used := func(e *engine.Engine) string {
		a, now := e.Account("m"), e.Last()
		if a == nil {
			return "nothing"
		}
		return fmt.Sprintf("%d requests, %d tokens, %d in flight", a.Used(state.RPM, account.Minute, now), a.Used(state.TPM, account.Minute, now), a.InFlight)
	}
	open := engine.Charged{
		ID: account.ID{Process: 2, N: 7}, Name: engine.Name{Asked: "m", Counted: "m"}, Ago: 20 * second, Tokens: state.Count{Input: 100}, Open: true,
	}
	committed, cancelled, old := open, open, open
	committed.Open, committed.Used = false, state.Count{Input: 30}
	cancelled.Open, cancelled.How = false, account.Cancelled
	old.Ago = 61 * second
	for _, tt := range []struct {
		name    string
		facts   []engine.Charged
		ignored bool // the last
		want    string
	}{
		{"an open call", []engine.Charged{open}, false, "1 requests, 100 tokens, 1 in flight"},
		{"an open call, twice", []engine.Charged{open, open}, true, "1 requests, 100 tokens, 1 in flight"},
		{"one that has ended", []engine.Charged{committed}, false, "1 requests, 30 tokens, 0 in flight"},
		{"an open one that ends", []engine.Charged{open, committed}, false, "1 requests, 30 tokens, 0 in flight"},
		{"an end, and the beginning late", []engine.Charged{committed, open}, true, "1 requests, 30 tokens, 0 in flight"},
		{"an end, twice", []engine.Charged{open, committed, committed}, true, "1 requests, 30 tokens, 0 in flight"},
		{"two ends: the first holds", []engine.Charged{open, committed, cancelled}, true, "1 requests, 30 tokens, 0 in flight"},
		{"one that was cancelled", []engine.Charged{cancelled}, false, "0 requests, 0 tokens, 0 in flight"},
		{"one of more than a minute ago", []engine.Charged{old}, false, "0 requests, 0 tokens, 1 in flight"},
	} {
		e := engine.New(1, nil)
		e.Apply(at(0), 1, 1, engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPM: 10}})
		var o engine.Outcome
		for i, c := range tt.facts {
			o = e.Apply(at(int64(i)*second), 1, int64(i+2), c)
		}
		if got := used(e); got != tt.want || o.Ignored != tt.ignored {
			t.Errorf("%s: %s, ignored %t, want %s, %t", tt.name, got, o.Ignored, tt.want, tt.ignored)
		}
		e.Apply(at(40*second+1), 1, 99, engine.Advance{})
		if n := e.Account("m").Used(state.RPM, account.Minute, e.Last()); n != 0 {
			t.Errorf("%s: %d requests count a minute after the call", tt.name, n)
		}
	}
}
