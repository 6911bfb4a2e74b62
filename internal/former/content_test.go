package former

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

const second = int64(time.Second)

var now = account.Now{Instant: 1_800_000_000 * second, Wall: 1_800_000_000 * second}

// log makes events of a process of a short list, each some seconds ago.
type log struct {
	t *testing.T
	*Content
	seq int64
}

func newLog(t *testing.T) *log {
	l := &log{t: t, Content: New(now)}
	l.Quotas["m"], l.Quotas["n"] = state.Quota{MaxRPM: 100, MaxInFlight: 9}, state.Quota{MaxRPM: 100}
	return l
}

// add adds an event of process 1.
func (l *log) add(e Event, secondsAgo int64) *log {
	l.t.Helper()
	l.seq++
	if e.Seq, e.Wall = l.seq, now.Wall-secondsAgo*second; e.Process == 0 {
		e.Process = 1
	}
	if e.N == 0 {
		e.N = l.seq
	}
	if e.Model == "" && e.Kind != Reset {
		e.Model = "m"
	}
	if err := l.Add(&e); err != nil {
		l.t.Fatal(err)
	}
	return l
}

func (l *log) reserve(in int) *log {
	return l.add(Event{Kind: Reserve, Requests: 1, Count: state.Count{Input: in}}, 10)
}

func (l *log) state() *fleet.State {
	l.t.Helper()
	image, err := l.Image(1)
	if err != nil {
		l.t.Fatal(err)
	}
	s, err := fleet.Read(image, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	if s.Now() != now {
		l.t.Errorf("the image is of %v, want %v", s.Now(), now)
	}
	return s
}

// count is what counts of a model: requests and tokens of the minute, and calls in flight.
func count(s *fleet.State, model string) string {
	a := s.Engine.Account(model)
	if a == nil {
		return "0 0 0"
	}
	span := s.Engine.Span()
	return fmt.Sprint(a.Used(state.RPM, span, now), a.Used(state.TPM, span, now), a.InFlight)
}

func TestEvents(t *testing.T) {
	list, _ := json.Marshal([]int64{1, 2})
	for name, of := range map[string]struct {
		log  func(*log)
		want string // requests, tokens and calls in flight
	}{
		"nothing":            {func(*log) {}, "0 0 0"},
		"a use":              {func(l *log) { l.add(Event{Kind: Use, Requests: 1, Count: state.Count{Output: 5}}, 1) }, "1 5 0"},
		"tokens alone":       {func(l *log) { l.add(Event{Kind: Use, Count: state.Count{Output: 5}}, 1) }, "0 5 0"},
		"one that is over":   {func(l *log) { l.add(Event{Kind: Use, Requests: 1}, 61) }, "0 0 0"},
		"at the edge":        {func(l *log) { l.add(Event{Kind: Use, Requests: 1}, 60) }, "1 0 0"},
		"of an earlier time": {func(l *log) { l.add(Event{Kind: Use, Requests: 1, Age: 50 * second}, 20) }, "0 0 0"},
		"from the future":    {func(l *log) { l.add(Event{Kind: Use, Requests: 1}, -20) }, "1 0 0"},
		"an open call":       {func(l *log) { l.reserve(7) }, "1 7 1"},
		"the same again":     {func(l *log) { l.reserve(7).add(Event{Kind: Reserve, N: 1, Requests: 1}, 1) }, "2 7 1"},
		"released":           {func(l *log) { l.reserve(7).add(Event{Kind: Release, Ref: 1}, 1) }, "1 7 0"},
		"settled":            {func(l *log) { l.reserve(7).add(Event{Kind: Amend, Ref: 1, Count: state.Count{Input: 2}}, 1) }, "1 2 0"},
		"cancelled":          {func(l *log) { l.reserve(7).add(Event{Kind: Cancel, Ref: 1}, 1) }, "0 0 0"},
		"of another process": {func(l *log) { l.reserve(7).add(Event{Kind: Cancel, Process: 2, Ref: 1}, 1) }, "1 7 1"},
		"released together":  {func(l *log) { l.reserve(7).reserve(8).add(Event{Kind: ReleaseAll, Text: string(list)}, 1) }, "2 15 0"},
		"moved": {func(l *log) {
			l.reserve(7).add(Event{Kind: Move, Ref: 1, Requests: 1, Count: state.Count{Input: 7}}, 70)
		}, "0 0 1"},
		"moved, not known":    {func(l *log) { l.add(Event{Kind: Move, Ref: 1, Requests: 1, Count: state.Count{Input: 7}}, 1) }, "1 7 1"},
		"that, settled":       {func(l *log) { l.add(Event{Kind: Move, Ref: 1, Requests: 1}, 1).add(Event{Kind: Release, Ref: 1}, 1) }, "1 0 0"},
		"reset":               {func(l *log) { l.reserve(7).add(Event{Kind: Reset, Model: "m"}, 1) }, "0 0 1"},
		"another reset":       {func(l *log) { l.reserve(7).add(Event{Kind: Reset, Model: "n"}, 1) }, "1 7 1"},
		"all reset":           {func(l *log) { l.reserve(7).add(Event{Kind: Reset}, 1).reserve(3) }, "1 3 2"},
		"gone":                {func(l *log) { l.reserve(7).add(Event{Kind: Gone, Process: 2, Ref: 1}, 1) }, "1 7 0"},
		"gone, then settled":  {func(l *log) { l.reserve(7).add(Event{Kind: Gone, Ref: 1}, 1).add(Event{Kind: Cancel, Ref: 1}, 1) }, "0 0 0"},
		"of a dead process":   {func(l *log) { l.add(Event{Kind: Reserve, Process: 3, Requests: 1}, 10) }, "1 0 0"},
		"in line":             {func(l *log) { l.add(Event{Kind: Wait}, 1).add(Event{Kind: Evict, Ref: 1}, 1) }, "0 0 0"},
		"open for an hour":    {func(l *log) { l.add(Event{Kind: Reserve, Requests: 1, Age: 3600 * second}, 1) }, "0 0 1"},
		"of a longer minute":  {func(l *log) { l.Span = 2 * account.Minute; l.add(Event{Kind: Use, Requests: 1}, 110) }, "1 0 0"},
		"of the machine":      {func(l *log) { l.Mono = 500 * second; l.add(Event{Kind: Use, Requests: 1, Mono: 400 * second}, 1) }, "0 0 0"},
		"agreed with by that": {func(l *log) { l.Mono = 500 * second; l.add(Event{Kind: Use, Requests: 1, Mono: 440*second - 1}, 60) }, "1 0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.Processes[1] = Process{Silent: second, Lease: 10 * second}
			of.log(l)
			if got := count(l.state(), "m"); got != of.want {
				t.Errorf("%s, want %s", got, of.want)
			}
		})
	}
}

// A day is that of the last event that says one, behind those that the days have.
func TestDays(t *testing.T) {
	day := func(hoursAgo, count int64) state.DayUsage {
		return state.DayUsage{Start: now.Wall - hoursAgo*3600*second, Count: count, Tokens: 10 * count}
	}
	for name, of := range map[string]struct {
		log  func(*log)
		want string
	}{
		"none":            {func(*log) {}, "0 0"},
		"of the table":    {func(l *log) { l.Days["m"] = day(1, 3) }, "3 30"},
		"one that ended":  {func(l *log) { l.Days["m"] = day(25, 3) }, "0 0"},
		"from the future": {func(l *log) { l.Days["m"] = day(-5, 3) }, "3 30"},
		"of an event": {func(l *log) {
			l.Days["m"] = day(1, 3)
			l.add(Event{Kind: Use, Requests: 1, Day: day(1, 4), HasDay: true}, 1)
		}, "4 40"},
		"of a folded event": {func(l *log) {
			l.Days["m"], l.Folded = day(1, 3), 1
			l.add(Event{Kind: Use, Requests: 1, Day: day(1, 2), HasDay: true}, 1)
		}, "3 30"},
		"with an open call": {func(l *log) {
			l.add(Event{Kind: Reserve, Requests: 1, Day: day(1, 5), HasDay: true}, 1)
		}, "5 50"},
		"reset": {func(l *log) { l.Days["m"] = day(1, 3); l.add(Event{Kind: Reset, Model: "m"}, 1) }, "0 0"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.Processes[1] = Process{Lease: 10 * second}
			of.log(l)
			s, got := l.state(), "0 0"
			if a := s.Engine.Account("m"); a != nil {
				got = fmt.Sprint(a.Used(state.RPD, account.Minute, now), a.Used(state.TPD, account.Minute, now))
			}
			if got != of.want {
				t.Errorf("%s, want %s", got, of.want)
			}
		})
	}
}

// What classes with a reserve have used comes off what is kept for them.
func TestClassCharges(t *testing.T) {
	l := newLog(t)
	l.Classes = `{"live":{"ReservePercent":40},"batch":{"Weight":2}}`
	l.add(Event{Kind: Reserve, Requests: 1, Count: state.Count{Input: 3}, Text: "live"}, 1)
	l.add(Event{Kind: Release, Ref: 1}, 1).reserve(5)
	s := l.state()
	if got := count(s, "m"); got != "2 8 0" {
		t.Errorf("counts %s", got)
	}
	if u := s.Engine.Account("m").UseOf("live"); u == nil || u.Requests(0) != 1 {
		t.Errorf("the class has used %+v", u)
	}
}

// Until a minute after a log was lost nothing is admitted. The processes of before are members with
// their leases.
func TestProcesses(t *testing.T) {
	l := newLog(t)
	l.UsedAt = now.Wall - 20*second
	l.Processes[7] = Process{Silent: 4 * second, Lease: 10 * second}
	l.Processes[8] = Process{Silent: 50 * second, Lease: 60 * second}
	l.add(Event{Kind: Reserve, Process: 7, Requests: 1}, 1)
	s := l.state()
	if m := s.Member(7); m == nil || m.HeardAt != now.Instant-4*second || m.Lease != 10*second || s.Size() != 2 {
		t.Errorf("of %d members: %+v", s.Size(), m)
	}
	ask := func(after int64) bool {
		at := account.Now{Instant: now.Instant + after, Wall: now.Wall + after}
		req := engine.Request{Target: s.Engine.Resolve("n", "n"), Tokens: state.Count{Input: 1}}
		calls, v := s.Engine.Admit(nil, &engine.By{Span: account.Minute}, []engine.Request{req}, at)
		return len(calls) > 0 && v.Allowed
	}
	if ask(0) || ask(39*second) || !ask(41*second) {
		t.Error("what a lost log may have charged does not count for a minute")
	}
}

func TestTell(t *testing.T) {
	l := newLog(t)
	tell := func(kind Kind, model, text string) error {
		l.seq++
		return l.Tell(&Event{Seq: l.seq, Kind: kind, Model: model, Text: text})
	}
	for _, e := range []struct {
		kind        Kind
		model, text string
	}{
		{Quota, "a", `{"MaxRPM":5}`}, {Quota, "a", `{"MaxRPM":5,"Origin":"account","Is":{"MaxTPD":6}}`},
		{Quota, "b", `{"MaxRPM":5}`}, {Quota, "b", `{"Origin":"program"}`},
		{Classes, "", `{"x":{"Weight":2}}`}, {Classes, "a", `{"Of":1}`},
	} {
		if err := tell(e.kind, e.model, e.text); err != nil {
			t.Errorf("%s: %v", e.text, err)
		}
	}
	said := l.Said["a"]
	if account, _ := said.Get(state.Account); account.MaxTPD != 6 {
		t.Errorf("said %+v", said)
	}
	if said := l.Said["b"]; !said.IsEmpty() {
		t.Errorf("said %+v", said)
	}
	if l.Classes != `{"x":{"Weight":2}}` {
		t.Errorf("classes %s", l.Classes)
	}
	for _, text := range []string{"", "{", `{"MaxRPM":-1}`, `{"Later":1}`, `{"Origin":"learned"}`, `{"Origin":"x"}`} {
		if err := tell(Quota, "a", text); err == nil {
			t.Errorf("quota %q is accepted", text)
		}
	}
	if err := tell(Classes, "", "[]"); err == nil {
		t.Error("classes that are none are accepted")
	}
}

func TestDamagedEvents(t *testing.T) {
	for name, e := range map[string]Event{
		"no place": {Kind: Use, Process: 1}, "no process": {Seq: 1, Kind: Reserve}, "a process below zero": {Seq: 1, Process: -1, Kind: Use},
		"a later kind": {Seq: 1, Process: 1, Kind: Classes + 1}, "a kind between": {Seq: 1, Process: 1, Kind: 17}, "kind 0": {Seq: 1, Process: 1},
		"an age below zero": {Seq: 1, Process: 1, Kind: Use, Age: -1}, "no change of spend": {Seq: 1, Process: 1, Kind: Spend, Text: "x"},
	} {
		if err := New(now).Add(&e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A call has charged its model and its pools by events of their own.
func TestPools(t *testing.T) {
	l, pool := newLog(t), state.PoolName("p")
	l.Quotas[pool], l.Pools[pool] = state.Quota{MaxTPM: 100}, []string{"m"}
	l.Processes[1] = Process{Lease: 10 * second}
	l.reserve(7)
	for _, name := range []string{pool, state.PoolName("taken back")} {
		l.add(Event{Kind: Reserve, Model: name, Requests: 1, Count: state.Count{Input: 7}}, 10)
	}
	s := l.state()
	if m, p := count(s, "m"), count(s, pool); m != "1 7 1" || p != "1 7 1" {
		t.Errorf("counts %s, and of the pool %s", m, p)
	}
	if a := s.Engine.Account(state.PoolName("taken back")); a != nil {
		t.Errorf("a pool that was taken back: %+v", a.Usage())
	}
	if is, ok := s.Engine.Catalog.Pool(pool); !ok || is.Quota.MaxTPM != 100 || len(is.Members) != 1 {
		t.Errorf("the pool is %+v", is)
	}
}
