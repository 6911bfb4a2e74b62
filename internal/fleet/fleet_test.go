package fleet_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = 1000 * minute
	lease  = 30 * second
)

// log is a log whose entries are applied at once.
type log struct {
	*testing.T
	state *fleet.State
	seq   int64
	n     map[int64]int64
	now   int64 // of the store's clock
	all   []store.Entry
}

func newLog(t *testing.T) *log {
	return &log{T: t, state: fleet.New(engine.New(1, nil)), n: make(map[int64]int64), now: start}
}

// say applies a command of a process, which expects the time that it is.
func (l *log) say(process int64, c fleet.Command) fleet.Result {
	return l.expecting(process, c, l.now)
}

func (l *log) expecting(process int64, c fleet.Command, expect int64) fleet.Result {
	l.n[process]++
	return l.entry(store.Entry{Process: process, N: l.n[process], Expect: expect, Command: c.Append(nil)})
}

func (l *log) entry(e store.Entry) fleet.Result {
	l.seq++
	e.At, e.Stamp = store.Position{Log: 1, Seq: l.seq}, store.Stamp{Instant: l.now, Wall: l.now}
	l.all = append(l.all, e)
	return l.state.Apply(&e)
}

func (l *log) join(processes ...int64) {
	for _, p := range processes {
		l.say(p, fleet.Join{Lease: lease, Rules: fleet.Rules})
	}
}

func (l *log) pass(span int64) { l.now += span }

func (l *log) quota(q state.Quota) {
	l.say(1, fleet.Verb{Command: engine.SetQuota{Counted: "m", Quota: q}})
}

var (
	by    = engine.By{Span: account.Minute}
	wants = []engine.Want{{Name: engine.Name{Asked: "m", Counted: "m"}, Tokens: state.Count{Input: 1}}}
)

func (l *log) admit(process int64) bool {
	return l.say(process, fleet.Verb{Command: engine.Admit{By: by, Wants: wants}}).Outcome.Verdict.Allowed
}

// admits returns how many of so many requests pass.
func (l *log) admits(process int64, tries int) (n int) {
	for range tries {
		if l.admit(process) {
			n++
		}
	}
	return n
}

// The log's time follows the store's clock as long as that counts on, and the sender's when it does
// not.
func TestTime(t *testing.T) {
	for _, tt := range []struct {
		name            string
		passes, expects int64 // since the last entry
		knows           bool
		want            int64
	}{
		{"the stamp is as expected", 10 * second, 10 * second, true, 10 * second},
		{"the sender is a little late", 10 * second, 9600 * 1e6, true, 10 * second},
		{"the sender is a little early", 10 * second, 10400 * 1e6, true, 10 * second},
		{"the clock was set an hour ahead", 3610 * second, 10 * second, true, 10 * second},
		{"the clock was set an hour back", -3590 * second, 10 * second, true, 10 * second},
		{"the clock was set ahead, and the sender knows nothing", 3610 * second, 0, false, 0},
		{"the clock was set ahead, and the sender is behind", 3610 * second, -second, true, 0},
		{"the clock was set back, and the sender knows nothing", -3590 * second, 0, false, 0},
		{"the sender knows nothing, and little time passed", second / 4, 0, false, second / 4},
	} {
		l := newLog(t)
		l.join(1)
		l.pass(5 * minute)
		was := l.say(1, fleet.Alive{}).Now.Instant
		l.pass(tt.passes)
		expect := int64(0)
		if tt.knows {
			expect = was + tt.expects
		}
		got := l.expecting(1, fleet.Alive{}, expect).Now.Instant - was
		if got != tt.want {
			t.Errorf("%s: %v pass, want %v", tt.name, time.Duration(got), time.Duration(tt.want))
		}
		l.pass(7 * second)
		if next := l.expecting(1, fleet.Alive{}, was+got+7*second).Now.Instant; next != was+got+7*second {
			t.Errorf("%s: then 7 s are %v", tt.name, time.Duration(next-was-got))
		}
	}
}

func TestEntriesCountOnce(t *testing.T) {
	l := newLog(t)
	if got := l.say(1, fleet.Alive{}); got.Kind != fleet.Stranger {
		t.Errorf("before a Join: %v", got.Kind)
	}
	l.join(1)
	for _, tt := range []struct {
		n       int64
		command []byte
		want    fleet.Kind
	}{
		{5, fleet.Alive{}.Append(nil), fleet.Applied},
		{5, fleet.Alive{}.Append(nil), fleet.Repeated},
		{4, fleet.Alive{}.Append(nil), fleet.Repeated},
		{6, []byte{200}, fleet.Damaged},
		{6, nil, fleet.Damaged},
		{6, []byte{0}, fleet.Damaged},
		{6, fleet.Bye{}.Append(nil), fleet.Applied},
		{7, fleet.Alive{}.Append(nil), fleet.Stranger},
		{6, fleet.Join{}.Append(nil), fleet.Repeated},
		{7, fleet.Join{}.Append(nil), fleet.Applied},
		{8, fleet.Alive{}.Append(nil), fleet.Applied},
	} {
		if got := l.entry(store.Entry{Process: 1, N: tt.n, Command: tt.command}); got.Kind != tt.want {
			t.Errorf("entry %d %q: %v, want %v", tt.n, tt.command, got.Kind, tt.want)
		}
	}
}

// A number that was skipped was not heard, for whoever loads an image, too.
func TestHeard(t *testing.T) {
	l := newLog(t)
	said := func(n int64, c fleet.Command) {
		l.n[1] = n - 1
		l.say(1, c)
	}
	said(3, fleet.Join{Lease: lease, Rules: fleet.Rules})
	for _, n := range []int64{4, 6, 5, 10, 9, 10} { // what comes late is not heard any more
		said(n, fleet.Alive{})
	}
	check := func(s *fleet.State, all bool) {
		t.Helper()
		for n, want := range []bool{false, false, false, true, true, false, true, false, false, false, true, false} {
			if want = want || !all && n <= 10; n > 0 && s.Member(1).Heard(int64(n)) != want {
				t.Errorf("number %d: heard %v, want %v", n, !want, want)
			}
		}
	}
	check(l.state, true)
	check(l.again(), true)
	if l.state.Member(2).Heard(1) {
		t.Error("a command of an unknown process was heard")
	}
	l.say(2, fleet.Join{Lease: lease, Rules: fleet.Rules - 1}) // who cannot read what was skipped
	check(l.state, true)
	check(l.again(), false)
}

// Nothing has come of a waiter that was not served: its number was as good as not heard.
func TestHeardOfWaiters(t *testing.T) {
	for _, isServed := range []bool{false, true} {
		l := newLog(t)
		l.join(1, 2)
		l.quota(state.Quota{MaxInFlight: 1})
		l.admit(1)
		held := account.ID{Process: 1, N: l.n[1]}
		l.say(2, fleet.Verb{Command: engine.Enter{By: by, Deadline: l.now + second, Options: [][]engine.Want{wants}}})
		n := l.n[2]
		if isServed {
			l.say(1, fleet.Verb{Command: engine.Settle{ID: held}})
		}
		l.pass(second * 3 / 2)
		l.say(1, fleet.Verb{Command: engine.Settle{ID: held}})
		for range 2 {
			l.say(2, fleet.Verb{Command: engine.Enter{By: by, Deadline: l.now, Options: [][]engine.Want{wants}}})
		}
		if m := l.again().Member(2); m.Heard(n) != isServed || m.Heard(l.n[2]) || !m.Heard(n-1) {
			t.Errorf("served %v: heard %v, of a later one that came too late %v", isServed, m.Heard(n), m.Heard(l.n[2]))
		}
	}
}

// What was skipped long ago is forgotten.
func TestHeardIsBounded(t *testing.T) {
	const runs = 3000
	l := newLog(t)
	l.say(1, fleet.Join{Lease: lease, Rules: fleet.Rules})
	for i := range int64(runs) {
		l.entry(store.Entry{Process: 1, N: 3 + 2*i, Command: fleet.Alive{}.Append(nil)})
	}
	if size := len(l.state.AppendImage(nil)); size > 3000 {
		t.Errorf("the image has %d bytes", size)
	}
	if m := l.again().Member(1); !m.Heard(2) || m.Heard(2*runs) || m.N != 2*runs+1 {
		t.Errorf("number 2: heard %v, want true; number %d: heard %v, want false", m.Heard(2), 2*runs, m.Heard(2*runs))
	}
}

// again returns the state of the image.
func (l *log) again() *fleet.State {
	l.Helper()
	image := l.state.AppendImage(nil)
	s, err := fleet.Read(image, nil)
	if err != nil {
		l.Fatal(err)
	}
	if !bytes.Equal(s.AppendImage(nil), image) {
		l.Error("the image of the loaded state is another one")
	}
	return s
}

// A number is kept for a lease and a window after its process has left.
func TestNumbersOutliveTheirProcess(t *testing.T) {
	for _, tt := range []struct {
		after int64
		want  fleet.Kind
	}{{lease + minute, fleet.Repeated}, {lease + minute + second, fleet.Stranger}} {
		l := newLog(t)
		l.join(1, 2)
		l.say(2, fleet.Bye{})
		l.pass(tt.after)
		l.say(1, fleet.Alive{})
		if got := l.entry(store.Entry{Process: 2, N: 2, Command: fleet.Alive{}.Append(nil)}); got.Kind != tt.want {
			t.Errorf("%v after Bye: %v, want %v", time.Duration(tt.after), got.Kind, tt.want)
		}
	}
}

// What all members know is in force.
func TestRules(t *testing.T) {
	l := newLog(t)
	for i, tt := range []struct {
		says fleet.Command
		want int
	}{
		{fleet.Alive{}, fleet.Rules}, // of no member
		{fleet.Join{Lease: lease, Rules: fleet.Rules + 1}, fleet.Rules},
		{fleet.Join{Lease: lease, Rules: fleet.Rules - 1}, fleet.Rules - 1},
		{fleet.Join{Lease: lease, Rules: fleet.Rules}, fleet.Rules - 1},
	} {
		l.say(int64(i+1), tt.says)
		if got := l.state.Rules(); got != tt.want {
			t.Errorf("after %T %d: rules %d, want %d", tt.says, i, got, tt.want)
		}
	}
	l.say(3, fleet.Bye{})
	if got := l.state.Rules(); got != fleet.Rules {
		t.Errorf("without the older program: rules %d, want %d", got, fleet.Rules)
	}
}

func TestGone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		says  func(l *log)
		want  bool // the slot is free
		again bool // and its process is a member
	}{
		{"silent", func(l *log) { l.say(1, fleet.Gone{Process: 2, N: l.n[2]}) }, true, false},
		{"it has spoken since", func(l *log) { n := l.n[2]; l.say(2, fleet.Alive{}); l.say(1, fleet.Gone{Process: 2, N: n}) }, false, true},
		{"of an unknown one", func(l *log) { l.say(1, fleet.Gone{Process: 3}) }, false, true},
		{"nobody says so, for long", func(l *log) { l.pass(20 * minute) }, false, true},
		{"nobody says so, for longer", func(l *log) { l.pass(25 * minute) }, true, false},
		{"it says good bye", func(l *log) { l.say(2, fleet.Bye{}) }, true, false},
	} {
		l := newLog(t)
		l.join(1, 2)
		l.quota(state.Quota{MaxInFlight: 1})
		l.admit(2)
		tt.says(l)
		if got := l.admit(1); got != tt.want {
			t.Errorf("%s: the slot is free: %v", tt.name, got)
		}
		if m := l.state.Member(2); (m != nil && !m.Left) != tt.again {
			t.Errorf("%s: the process is %+v", tt.name, m)
		}
	}
}

// Until a member has answered an outage by its name, its share is withheld.
func TestOutage(t *testing.T) {
	for _, tt := range []struct {
		name string
		says func(l *log, outage int64)
		want int // of 10, for 4 members
	}{
		{"nobody has answered", func(*log, int64) {}, 0},
		{"one has", func(l *log, outage int64) { l.say(1, fleet.Answer{Outage: outage}) }, 1},
		{"two have", func(l *log, outage int64) {
			l.say(1, fleet.Answer{Outage: outage})
			l.say(2, fleet.Answer{Outage: outage})
		}, 4},
		{"one has, twice", func(l *log, outage int64) {
			l.say(1, fleet.Answer{Outage: outage})
			l.say(1, fleet.Answer{Outage: outage})
		}, 1},
		{"another outage", func(l *log, outage int64) { l.say(1, fleet.Answer{Outage: outage - 1}) }, 0},
		{"something else", func(l *log, _ int64) { l.say(1, fleet.Alive{}); l.say(2, fleet.Tick{}) }, 0},
		{"a newer outage", func(l *log, outage int64) {
			l.say(1, fleet.Answer{Outage: outage})
			l.say(2, fleet.Outage{})
			l.say(2, fleet.Answer{Outage: outage})
		}, 0},
		{"one has left", func(l *log, _ int64) { l.say(2, fleet.Bye{}) }, 1},
		{"one is gone, and may have used it", func(l *log, _ int64) { l.say(1, fleet.Gone{Process: 2, N: l.n[2]}) }, 0},
		{"its lease and a window are over", func(l *log, _ int64) { l.pass(lease + minute) }, 10},
		{"not quite", func(l *log, _ int64) { l.pass(lease + minute - second) }, 0},
	} {
		l := newLog(t)
		l.join(1, 2, 3, 4)
		l.quota(state.Quota{MaxRPM: 10})
		l.say(1, fleet.Outage{})
		tt.says(l, l.seq)
		if got := l.admits(1, 20); got != tt.want {
			t.Errorf("%s: %d pass, want %d", tt.name, got, tt.want)
		}
	}
}

// Waiters of a silent process are passed over, and keep their places.
func TestSleepers(t *testing.T) {
	l := newLog(t)
	l.join(1, 2)
	l.quota(state.Quota{MaxInFlight: 1})
	l.admit(1)
	held := account.ID{Process: 1, N: l.n[1]}
	enter := fleet.Verb{Command: engine.Enter{By: by, Deadline: account.Never, Options: [][]engine.Want{wants}}}
	first, second := l.say(2, enter), l.say(1, enter)
	if !first.Outcome.Waits || !second.Outcome.Waits {
		t.Fatal("they do not wait")
	}
	served := func(r fleet.Result) (processes []int64) {
		for _, end := range r.Outcome.Ended {
			processes = append(processes, end.ID.Process)
			held = end.Calls[0]
		}
		return processes
	}
	l.pass(fleet.Nap)
	l.say(1, fleet.Alive{})
	if got := served(l.say(1, fleet.Verb{Command: engine.Settle{ID: held}})); !slices.Equal(got, []int64{1}) {
		t.Fatalf("served are %v, want the one that is awake", got)
	}
	l.say(1, enter)
	l.say(2, fleet.Alive{})
	if got := served(l.say(1, fleet.Verb{Command: engine.Settle{ID: held}})); !slices.Equal(got, []int64{2}) {
		t.Errorf("served are %v, want the one that came first", got)
	}
}

// Whoever is served by what follows from an entry hears of it, whatever the entry is.
func TestServedBefore(t *testing.T) {
	ten := []engine.Want{{Name: wants[0].Name, Tokens: state.Count{Input: 10}}}
	enter := func(w []engine.Want) fleet.Verb {
		return fleet.Verb{Command: engine.Enter{By: by, Deadline: account.Never, Options: [][]engine.Want{w}}}
	}
	for _, tt := range []struct {
		name  string
		quota state.Quota
		// serves returns the entry by which a waiter of process 2 is served.
		serves func(l *log) fleet.Result
	}{
		{"a member is silent for too long", state.Quota{MaxInFlight: 1}, func(l *log) fleet.Result {
			l.admit(3)
			l.say(2, enter(wants))
			for range fleet.Silence/second - 1 {
				l.pass(second)
				l.say(2, fleet.Alive{})
			}
			l.pass(second)
			return l.say(2, fleet.Alive{})
		}},
		{"a fact tells that the head was served", state.Quota{MaxTPM: 10}, func(l *log) fleet.Result {
			l.admit(3)
			l.say(1, enter(ten))
			head := account.ID{Process: 1, N: l.n[1]}
			l.say(2, enter(wants))
			return l.say(3, fleet.Verb{Command: engine.Charged{ID: head, Name: wants[0].Name, Tokens: state.Count{Input: 1}}})
		}},
		{"its process leaves", state.Quota{MaxInFlight: 1}, func(l *log) fleet.Result {
			l.admit(3)
			l.say(2, enter(wants))
			return l.say(3, fleet.Bye{})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLog(t)
			for p := range int64(3) {
				l.say(p+1, fleet.Join{Lease: int64(time.Hour)})
			}
			l.quota(tt.quota)
			r := tt.serves(l)
			waiter := account.ID{Process: 2, N: 2} // behind its Join
			if l.state.Engine.Waiter(waiter.Process, waiter.N) != nil {
				t.Fatalf("%v still waits", waiter)
			}
			if !slices.ContainsFunc(r.Outcome.Ended, func(e engine.Ended) bool { return e.ID == waiter && len(e.Calls) == 1 }) {
				t.Errorf("the outcome tells of %+v, want of %v", r.Outcome.Ended, waiter)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	told := engine.Charged{ID: account.ID{Process: 9, N: 4}, Name: wants[0].Name, Ago: 10 * second, Tokens: state.Count{Input: 1}, Open: true}
	l := newLog(t)
	l.join(1)
	l.quota(state.Quota{MaxRPM: 1, MaxInFlight: 3})
	l.say(1, fleet.Verb{Command: told})
	if m := l.state.Member(9); m == nil || m.Left || m.Lease != lease {
		t.Errorf("whoever made a call that is open is %+v", m)
	}
	if l.admit(1) {
		t.Error("the call is not charged")
	}
	l.pass(50*second + 1)
	if !l.admit(1) {
		t.Error("the call is not charged as of then")
	}
	l.join(5)
	l.say(5, fleet.Bye{})
	told.ID.Process = 5
	l.say(1, fleet.Verb{Command: told})
	if calls, _ := l.state.Engine.Of(5); len(calls) > 0 {
		t.Error("a process that has left holds a slot")
	}
}

// live says something at random.
func (l *log) live(r *rand.Rand) {
	p := 1 + r.Int64N(5)
	l.pass(r.Int64N([]int64{1e6, second, 10 * second, minute, 30 * minute}[r.IntN(5)]))
	if r.IntN(20) == 0 {
		l.pass(-l.now % (2 * minute))
	}
	last := account.ID{Process: 1 + r.Int64N(5)}
	last.N = 1 + r.Int64N(l.n[last.Process]+1)
	commands := []fleet.Command{
		fleet.Join{Lease: lease * r.Int64N(3), MaxModels: r.IntN(3)}, fleet.Alive{}, fleet.Tick{}, fleet.Outage{},
		fleet.Gone{Process: last.Process, N: l.n[last.Process]}, fleet.Answer{Outage: l.seq - r.Int64N(4)},
		fleet.Verb{Command: engine.Admit{By: by, Wants: wants}},
		fleet.Verb{Command: engine.Enter{By: by, Deadline: l.now + minute, Options: [][]engine.Want{wants}}},
		fleet.Verb{Command: engine.Settle{ID: last, Used: state.Count{Input: r.IntN(9)}}},
		fleet.Verb{Command: engine.Charged{ID: last, Name: wants[0].Name, Ago: r.Int64N(minute), Open: r.IntN(2) == 0, How: account.Lost}},
		fleet.Verb{Command: engine.Leave{Process: last.Process, N: last.N, Places: 1}},
	}
	if r.IntN(60) == 0 {
		commands = []fleet.Command{fleet.Bye{}}
	}
	l.expecting(p, commands[r.IntN(len(commands))], l.now-r.Int64N(2)*r.Int64N(minute))
}

// A state that was loaded from an image goes on as the one that it shows.
func TestReplay(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := newLog(t)
		l.join(1, 2, 3)
		l.quota(state.Quota{MaxRPM: 5, MaxInFlight: 3})
		var loaded *fleet.State
		for i := range 400 {
			if i == 100 {
				loaded = l.again()
			}
			l.live(r)
			if loaded == nil {
				continue
			}
			e := l.all[len(l.all)-1]
			if loaded.Apply(&e); loaded.Digest() != l.state.Digest() || loaded.Now() != l.state.Now() {
				t.Fatalf("seed %d: entry %d has another outcome", seed, i)
			}
		}
		if !bytes.Equal(loaded.AppendImage(nil), l.state.AppendImage(nil)) {
			t.Fatalf("seed %d: the states differ", seed)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range []fleet.Command{
		fleet.Join{Lease: lease, MaxModels: 3, Rules: 1}, fleet.Alive{}, fleet.Gone{Process: -4, N: 9}, fleet.Bye{}, fleet.Outage{},
		fleet.Answer{Outage: 300}, fleet.Tick{}, fleet.Saved{Seq: 7, Digest: 1 << 60}, fleet.Verb{Command: engine.Advance{}},
	} {
		f.Add(c.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := fleet.Decode(data)
		if err != nil {
			return
		}
		if again := c.Append(nil); !bytes.Equal(again, data) {
			t.Errorf("%q is read as %+v, written as %q", data, c, again)
		}
	})
}

func FuzzRead(f *testing.F) {
	l := newLog(nil)
	l.join(1, 2)
	l.quota(state.Quota{MaxRPM: 5, MaxInFlight: 3})
	l.admit(1)
	l.say(2, fleet.Outage{})
	f.Add(l.state.AppendImage(nil))
	for p := range int64(3) {
		l.n[p+1] += p
		l.say(p+1, fleet.Join{Lease: lease, Rules: fleet.Rules})
	}
	f.Add(l.state.AppendImage(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := fleet.Read(data, nil)
		if err != nil {
			return
		}
		s.Apply(&store.Entry{At: store.Position{Seq: 1}, Process: 1, N: 1 << 40, Stamp: store.Stamp{Wall: start}, Command: fleet.Outage{}.Append(nil)})
		if _, err := fleet.Read(s.AppendImage(nil), nil); err != nil {
			t.Error(err)
		}
	})
}
