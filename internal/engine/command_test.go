package engine_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// lived returns an engine with all that an engine can have, and the life that it had.
func lived(seed uint64, steps int) (*engine.Engine, *life) {
	e := engine.New(1, nil)
	l := newLife(seed, e)
	for range steps {
		for _, is := range l.entries() {
			o := e.Apply(is.now, is.process, is.n, is.command)
			l.heard(is, &o)
		}
	}
	return e, l
}

// Bytes are read as the command that they were written for, and every cut of them is refused.
func TestCommandsAreReadAsWritten(t *testing.T) {
	_, l := lived(3, 100)
	for range 3000 {
		c := l.entries()[0].command
		data := c.Append(nil)
		got, err := engine.Decode(data)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("%T is read as %+v, %v, want %+v", c, got, err, c)
		}
		for cut := range data {
			if _, err := engine.Decode(data[:cut]); err == nil {
				t.Fatalf("%T: the first %d of %d bytes are accepted", c, cut, len(data))
			}
		}
		if _, err := engine.Decode(append(data, 0)); err == nil {
			t.Fatalf("%T: a byte more is accepted", c)
		}
	}
}

func TestSizeOfCommands(t *testing.T) {
	by := engine.By{Span: account.Minute + second/4, HoldTTL: 600 * second}
	name := engine.Name{Asked: "claude-sonnet-4", Counted: "claude-sonnet-4"}
	for _, tt := range []struct {
		name    string
		command engine.Command
		want    int
	}{
		{"a request", engine.Admit{By: by, Wants: []engine.Want{{Name: name, Tokens: state.Count{Input: 1200, Output: 400}}}}, 40},
		{"its end", engine.Settle{ID: account.ID{Process: 3, N: 123456}, Used: state.Count{Input: 1180, Output: 350}}, 12},
		{"its cancellation", engine.Settle{ID: account.ID{Process: 3, N: 123456}, How: account.Cancelled}, 7},
	} {
		if got := len(tt.command.Append(nil)); got > tt.want {
			t.Errorf("%s takes %d bytes, want at most %d", tt.name, got, tt.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	by := engine.By{Span: account.Minute}
	want := engine.Want{Name: engine.Name{Asked: "a", Counted: "a"}}
	pool := engine.Name{Asked: "p", Counted: state.PoolName("p")}
	for _, tt := range []struct {
		name    string
		command engine.Command
	}{
		{"no requests", engine.Admit{By: by}},
		{"too many requests", engine.Admit{By: by, Wants: make([]engine.Want, 4097)}},
		{"a span below the minute", engine.Admit{By: engine.By{Span: second}, Wants: []engine.Want{want}}},
		{"a span above a day and a minute", engine.Admit{By: engine.By{Span: 25 * hour}, Wants: []engine.Want{want}}},
		{"a hold below zero", engine.Admit{By: engine.By{Span: account.Minute, HoldTTL: -1}, Wants: []engine.Want{want}}},
		{"a pool as a model", engine.Admit{By: by, Wants: []engine.Want{{Name: pool}}}},
		{"money below zero", engine.Admit{By: by, Wants: []engine.Want{{Name: want.Name, Most: -1}}}},
		{"no options", engine.Enter{By: by}},
		{"an option without requests", engine.Enter{By: by, Options: [][]engine.Want{nil}}},
		{"too few others", engine.Enter{By: by, Options: [][]engine.Want{{want}, {want}, {want}}, Others: make([]engine.InLine, 1)}},
		{"a deadline below zero", engine.Enter{By: by, Deadline: -1, Options: [][]engine.Want{{want}}}},
		{"a call at a place below zero", engine.Settle{ID: account.ID{Place: -1}}},
		{"an end of another kind", engine.Settle{How: account.Lost + 1}},
		{"usage below zero", engine.Settle{Used: state.Count{Input: -1}}},
		{"a cause of another form", engine.Cool{Cause: "Two words"}},
		{"a time beyond all", engine.Cool{Until: math.MaxInt64, Cause: "caller"}},
		{"a record of a pool", engine.Record{Name: pool, Span: account.Minute}},
		{"a refusal that took less than nothing", engine.Refuse{Name: want.Name, Refusal: account.ProviderRefusal{Took: -1}}},
		{"a class out of range", engine.SetClasses{Classes: map[string]state.Class{"a": {ReservePercent: 101}}}},
		{"models below zero", engine.SetMaxModels{Most: -1}},
		{"a fact of the future", engine.Charged{Name: want.Name, Ago: -1}},
	} {
		if c, err := engine.Decode(tt.command.Append(nil)); err == nil {
			t.Errorf("%s is accepted, as %+v", tt.name, c)
		}
	}
	if _, err := engine.Decode([]byte{200}); err == nil || !strings.HasPrefix(err.Error(), "decode command: invalid bytes") {
		t.Errorf("a command of another kind: %v", err)
	}
}

// hostile are commands that no program of ours sends.
func hostile() []engine.Command {
	most := state.Count{Input: math.MaxInt, Output: math.MaxInt}
	name := func(s string) engine.Name { return engine.Name{Asked: s, Counted: s} }
	want := func(s string) engine.Want {
		return engine.Want{Name: name(s), Tokens: most, Most: money.Max, Priced: true}
	}
	by := engine.By{Class: "live", Span: hour, HoldTTL: 1 << 61, MaxQueue: math.MaxInt}
	var many []engine.Want
	for range 2000 {
		many = append(many, want("a"), want("new"+strings.Repeat("x", len(many)%700)))
	}
	huge := state.Quota{
		MaxRPM: math.MaxInt, MaxTPM: math.MaxInt, MaxRPD: math.MaxInt, MaxTPD: math.MaxInt, MaxITPM: 1, MaxInFlight: math.MaxInt, Burst: 1,
		MaxSpendPerDay: money.Max, AdaptiveFloorRPM: 1_000_000_000, DayZone: "No/Where",
	}
	bad := state.Quota{MaxRPM: math.MinInt, Burst: -1, MaxSpendPerDay: -1, AdaptiveFloorInFlight: -1, AdaptiveCeilingRPM: math.MaxInt}
	report := state.ReportedLimit{Limit: math.MaxInt, Remaining: math.MaxInt, HasRemaining: true, Reset: math.MinInt64, Rounding: math.MaxInt}
	observe := engine.Observe{Name: name("a"), Span: hour}
	for of := range observe.Report.Limits {
		observe.Report.Limits[of] = report
	}
	return []engine.Command{
		engine.Admit{By: by, Wants: []engine.Want{want("a"), want("a"), want("")}},
		engine.Admit{By: by}, engine.Enter{By: by}, engine.Enter{By: by, Options: [][]engine.Want{nil, nil}},
		engine.Admit{By: by, Wants: many},
		engine.Enter{By: by, Options: [][]engine.Want{many[:300], {want("*")}}, Deadline: account.Never, Patient: account.Never},
		engine.Enter{By: by, Options: [][]engine.Want{{want("a")}, {want("b")}}, Others: []engine.InLine{{Class: "x", Flow: "y"}}},
		engine.Record{Name: name("a"), Span: hour, Used: most, Cost: money.Max},
		engine.Record{Name: name("*"), Span: account.Minute, Used: most, Cost: money.Max},
		engine.SetQuota{Counted: "a", Quota: huge}, engine.SetQuota{Counted: "", Quota: huge}, engine.SetQuota{Counted: "*", Quota: bad},
		engine.SetQuota{Counted: "a", Quota: bad}, engine.SetQuota{Counted: state.OtherAccount, Quota: huge},
		engine.SetQuota{Counted: state.PoolName("none"), Quota: huge}, engine.SetQuota{Counted: "*", Quota: huge},
		engine.SetPool{Counted: "no mark", Models: []string{"a"}}, engine.SetPool{Counted: state.PoolName(""), Models: nil, Quota: huge},
		engine.SetPool{Counted: state.PoolName("all"), Models: []string{"*", "*", ""}, Quota: huge}, engine.RemovePool{Counted: "a"},
		engine.Loaded{File: catalog.File{Pools: map[string][]string{state.PoolName("bare"): {"a"}, "a": {"a"}}}},
		engine.AddProfile{Profile: catalog.Profile{Rows: []catalog.Row{{Name: "a", Group: "g"}, {Name: "a", Group: "g"}, {Name: "", Group: ""}}}},
		engine.Cool{Name: name(state.PoolName("all")), Until: 1 << 62, Cause: "caller"}, engine.Cool{Name: name(state.OtherAccount), Until: 1 << 62},
		observe, engine.Observe{Name: name(state.PoolName("all")), Span: hour, Report: observe.Report},

		engine.Refuse{Name: name("a"), Refusal: account.ProviderRefusal{Took: 1 << 62, Wait: 1 << 62}},
		engine.Refuse{Name: name("f-1"), Refusal: account.ProviderRefusal{Overload: true, Took: 1 << 62, Wait: 1 << 62}},
		engine.Settle{ID: account.ID{Process: 1, N: 1}, Used: most, Cost: money.Max}, engine.Arrive{ID: account.ID{Process: 1}, At: math.MinInt64},
		engine.Leave{Process: math.MinInt64, N: math.MaxInt64, Places: 4096},
		engine.Reprice{}, engine.Reprice{Waiters: []engine.Repriced{{N: math.MinInt64}, {N: 1, Prices: []engine.Price{{Most: money.Max, Known: true}, {}}}}},
		engine.Charged{ID: account.ID{Process: 7}, Name: name("a"), Ago: 1 << 61, Tokens: most, Most: money.Max, Class: "live", Open: true, Hold: 1 << 61},
		engine.Charged{ID: account.ID{Process: 7}, Name: name("a"), Used: most, Cost: money.Max}, engine.Arrive{ID: account.ID{Process: 7}, At: math.MaxInt64},
		engine.Charged{ID: account.ID{Process: 8}, Name: name("f-1"), Tokens: most, Most: money.Max, Used: most, Cost: money.Max},
		engine.Bounds{Zone: "No/Where", Day: account.Span{Begin: math.MinInt64, End: math.MaxInt64}, Month: account.Span{Begin: math.MaxInt64}},
		engine.Bounds{}, engine.SetMaxModels{Most: 1}, engine.SetMaxModels{}, engine.SetMaxModels{Most: math.MaxInt},
		engine.SetClasses{Classes: map[string]state.Class{"live": {Weight: 1_000_000, ReservePercent: 100, MaxQueue: math.MaxInt, Ahead: true}}},
		engine.SetClasses{Classes: map[string]state.Class{"": {ReservePercent: 1000}}}, engine.Reset{}, engine.ForgetLearned{}, engine.Advance{},
	}
}

// No command panics, and whatever state it leads to has an image.
func TestHostileCommands(t *testing.T) {
	e, l := lived(5, 600)
	moments := []account.Now{
		{Instant: math.MinInt64, Wall: math.MaxInt64}, l.now, {Instant: 0, Wall: math.MinInt64}, {Instant: l.now.Instant + 1, Wall: l.now.Wall},
		{Instant: l.now.Instant + hour, Wall: 0}, {Instant: 1 << 61, Wall: 1 << 62}, {Instant: math.MaxInt64, Wall: math.MaxInt64}, {Instant: math.MaxInt64},
	}
	n := int64(1e6)
	for _, now := range moments {
		for _, c := range hostile() {
			n++
			e.Apply(now, n%5, n, c)
		}
		checkImage(t, e)
	}
}

// checkImage checks that the image of an engine is read as one of the same image.
func checkImage(t *testing.T, e *engine.Engine) {
	t.Helper()
	image := e.AppendImage(nil)
	again, err := engine.Read(image, nil)
	if err != nil {
		t.Fatal(err)
	}
	if is := again.AppendImage(nil); !bytes.Equal(is, image) {
		t.Fatalf("an image of %d bytes is written again as %d others, from %d on", len(image), len(is), differsAt(image, is))
	}
}

func FuzzDecode(f *testing.F) {
	_, l := lived(1, 50)
	for range 200 {
		f.Add(l.entries()[0].command.Append(nil))
	}
	for _, c := range hostile() {
		f.Add(c.Append(nil))
	}
	var decoder engine.Decoder // which keeps nothing of what it has read before
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := engine.Decode(data)
		same, sameErr := decoder.Read(wire.NewReader(data))
		if err != nil || sameErr != nil {
			if (err == nil) != (sameErr == nil) {
				t.Errorf("%q: %v, and by a Decoder %v", data, err, sameErr)
			}
			return
		}
		if again := same.Append(nil); !bytes.Equal(again, data) {
			t.Errorf("%q are accepted by a Decoder, and written as %q", data, again)
		}
		if again := c.Append(nil); !bytes.Equal(again, data) {
			t.Errorf("%q are accepted, and written as %q", data, again)
		}
	})
}

// junk is the time that passes, and the bytes of a command.
func FuzzApply(f *testing.F) {
	e, l := lived(5, 600)
	image := e.AppendImage(nil)
	for range 100 {
		all := l.entries()
		f.Add(int64(0), int64(1), all[0].command.Append(nil), l.entries()[0].command.Append(nil), l.entries()[0].command.Append(nil))
	}
	for _, c := range hostile() {
		f.Add(int64(math.MaxInt64), int64(math.MinInt64), c.Append(nil), c.Append(nil), engine.Advance{}.Append(nil))
	}
	f.Fuzz(func(t *testing.T, instant, wall int64, first, second, third []byte) {
		e, err := engine.Read(image, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := e.Last()
		applied := false
		for i, data := range [][]byte{first, second, third} {
			if c, err := engine.Decode(data); err == nil {
				now.Instant, now.Wall = now.Instant+instant/4, now.Wall+wall/4
				e.Apply(now, 5, 1e6+int64(i), c)
				applied = true
			}
		}
		if applied {
			checkImage(t, e)
		}
	})
}

func FuzzReadImage(f *testing.F) {
	for seed := range uint64(6) {
		e, _ := lived(seed, 30+100*int(seed))
		f.Add(e.AppendImage(nil))
	}
	f.Add(engine.New(1, nil).AppendImage(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := engine.Read(data, nil)
		if err != nil {
			return
		}
		checkImage(t, e)
		goOn(e, newLife(1, e), 30)
		checkImage(t, e)
	})
}
