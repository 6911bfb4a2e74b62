package replica

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
)

// bench is a store and the processes that share it.
type bench struct {
	*testing.T
	store *memlog.Store
	last  int64
	mu    sync.Mutex
	errs  []error
}

func inBubble(t *testing.T, f memlog.Faults, run func(b *bench)) {
	synctest.Test(t, func(t *testing.T) { run(&bench{T: t, store: memlog.New(f)}) })
}

func (b *bench) open(change ...func(*Options)) *Replica {
	b.Helper()
	b.last++
	log, err := b.store.Open(b.Context(), store.Options{Process: b.last})
	if err != nil {
		b.Fatal(err)
	}
	o := Options{Log: log, Process: b.last, Lock: new(sync.Mutex), LeaseTTL: 10 * time.Second, OnError: func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errs = append(b.errs, err)
	}}
	for _, c := range change {
		c(&o)
	}
	r, err := Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func (b *bench) told(is func(error) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, err := range b.errs {
		if is(err) {
			return true
		}
	}
	return false
}

var (
	oneWant = []engine.Want{{Name: engine.Name{Asked: "m", Counted: "m"}}}
	byMe    = engine.By{Span: account.Minute + int64(time.Second)}
)

func (b *bench) quota(r *Replica, q state.Quota) {
	b.Helper()
	if _, err := r.Do(b.Context(), engine.SetQuota{Counted: "m", Quota: q}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) admit(r *Replica) (account.ID, bool) {
	b.Helper()
	o, err := r.Do(b.Context(), engine.Admit{By: byMe, Wants: oneWant})
	if err != nil || len(o.Calls) == 0 {
		return account.ID{}, false
	}
	return o.Calls[0], true
}

// admitted returns how many of so many calls pass.
func (b *bench) admitted(r *Replica, tries int) (n int) {
	b.Helper()
	for range tries {
		if _, ok := b.admit(r); ok {
			n++
		}
	}
	return n
}

// wait returns how long a waiter waits.
func (b *bench) wait(r *Replica) time.Duration {
	b.Helper()
	began := time.Now()
	o, err := r.Do(b.Context(), engine.Enter{By: byMe, Deadline: r.Now().Instant + int64(time.Hour), Options: [][]engine.Want{oneWant}})
	if err != nil || len(o.Ended) != 1 || len(o.Ended[0].Calls) != 1 {
		b.Fatalf("a wait ends with %+v, %v", o, err)
	}
	return time.Since(began)
}

var slow = memlog.Faults{Latency: 2 * time.Millisecond}

// What a process holds is free soon after its death, where that can be seen; else after its lease.
func TestDeath(t *testing.T) {
	for _, tt := range []struct {
		name        string
		witness     bool
		least, most time.Duration
	}{
		{"seen", true, 0, 150 * time.Millisecond},
		{"not seen", false, 9 * time.Second, 13 * time.Second},
	} {
		f := slow
		f.Witness = tt.witness
		inBubble(t, f, func(b *bench) {
			first, second := b.open(), b.open()
			b.quota(first, state.Quota{MaxInFlight: 1})
			b.admit(first)
			time.Sleep(time.Second)
			b.store.Kill(first.process)
			if got := b.wait(second); got < tt.least || got > tt.most {
				t.Errorf("%s: the slot is free after %v", tt.name, got)
			}
		})
	}
}

// A waiter is served when room opens, whichever process made it, and not a moment sooner.
func TestTick(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		first, second := b.open(), b.open()
		b.quota(first, state.Quota{MaxRPM: 1})
		b.admit(first)
		at := first.Now().Instant
		b.wait(second)
		if took := time.Duration(second.Now().Instant - at); took < 61*time.Second-10*time.Millisecond || took > 61*time.Second+30*time.Millisecond {
			t.Errorf("served after %v, want a minute and the margin", took)
		}
	})
}

func TestCloseEndsWhatIsHeld(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		first, second := b.open(), b.open()
		b.quota(first, state.Quota{MaxInFlight: 1})
		b.admit(first)
		first.Close(b.Context())
		if got := b.wait(second); got > 50*time.Millisecond {
			t.Errorf("the slot is free after %v", got)
		}
		if _, err := first.Do(b.Context(), engine.Advance{}); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed replica: %v", err)
		}
	})
}

// A process that was closed is no member, and does not come back.
func TestCloseLeaves(t *testing.T) {
	for _, f := range []memlog.Faults{{}, slow} {
		inBubble(t, f, func(b *bench) {
			first, second := b.open(), b.open()
			b.admit(first)
			for range 5 {
				if err := first.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				time.Sleep(time.Second)
				second.Sync(b.Context())
				if n := second.state.Size(); n != 1 {
					b.Fatalf("%d members", n)
				}
				first = b.open()
			}
		})
	}
}

// A context is obeyed at once, also while the store hangs.
func TestContext(t *testing.T) {
	for _, down := range []bool{false, true} {
		inBubble(t, slow, func(b *bench) {
			first, second := b.open(), b.open()
			b.quota(first, state.Quota{MaxInFlight: 1})
			b.admit(first)
			if down {
				b.store.Down(time.Minute)
			}
			ctx, cancel := context.WithTimeout(b.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := second.Do(ctx, engine.Enter{By: byMe, Deadline: account.Never, Options: [][]engine.Want{oneWant}})
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 101*time.Millisecond {
				t.Errorf("store down %v: %v after %v", down, err, took)
			}
			time.Sleep(2 * time.Minute)
			first.mu.Lock()
			defer first.mu.Unlock()
			if calls, waiters := first.state.Engine.Of(second.process); len(calls)+len(waiters) > 0 {
				t.Errorf("store down %v: left are %v, %v", down, calls, waiters)
			}
		})
	}
}

// While the store is away each process goes on with its share, or not at all.
func TestAway(t *testing.T) {
	for _, closed := range []bool{false, true} {
		inBubble(t, slow, func(b *bench) {
			set := func(o *Options) { o.FailClosed = closed }
			all := []*Replica{b.open(set), b.open(set), b.open(set)}
			b.quota(all[0], state.Quota{MaxRPM: 12})
			for range 3 {
				b.admit(all[1])
			}
			b.store.Down(30 * time.Second)
			began := time.Now()
			admitted := 0
			for _, r := range all {
				admitted += b.admitted(r, 12)
			}
			if took := time.Since(began); took > 3*280*time.Millisecond {
				t.Errorf("closed %v: it took %v", closed, took)
			}
			if want := map[bool]int{false: 9, true: 0}[closed]; admitted != want {
				t.Errorf("closed %v: %d pass, want %d", closed, admitted, want)
			}
			if all[0].Err() == nil {
				t.Error("there is no error")
			}
			time.Sleep(35 * time.Second)
			if _, ok := b.admit(all[2]); ok == !closed {
				t.Errorf("closed %v: then one more passes: %v", closed, ok)
			}
			time.Sleep(time.Minute)
			if _, ok := b.admit(all[2]); !ok || all[0].Err() != nil {
				t.Errorf("closed %v: nobody goes on: %v", closed, all[0].Err())
			}
		})
	}
}

// News from another place count for nothing.
func TestNewsFromElsewhere(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		r := b.open()
		b.quota(r, state.Quota{MaxRPM: 1})
		other := store.Position{Log: r.at.Log, Seq: r.at.Seq - 1, Sum: 7}
		was := r.at
		r.hear(other, store.News{Entries: []store.Entry{{
			At: store.Position{Log: r.at.Log, Seq: r.at.Seq + 1}, Process: 9, N: 1, Command: fleet.Join{}.Append(nil),
		}}}, nil, time.Now())
		synctest.Wait()
		if r.state.Member(9) != nil || r.at != was {
			t.Error("an entry behind another place was applied")
		}
		r.hear(other, store.News{}, store.ErrLost, time.Now())
		if r.at != was {
			t.Error("a place where the process does not stand was lost")
		}
	})
}

// Whoever comes to another state than the image loads it, and says so.
func TestDigest(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		first, second := b.open(), b.open()
		b.quota(first, state.Quota{MaxRPM: 1})
		second.mu.Lock()
		second.state.Apply(&store.Entry{Process: 9, N: 1, Command: fleet.Join{}.Append(nil)})
		second.mu.Unlock()
		b.admit(first)
		if err := first.makeImage(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !b.told(func(err error) bool { var d *DigestError; return errors.As(err, &d) }) {
			t.Errorf("nobody is told: %v", b.errs)
		}
		second.mu.Lock()
		if second.state.Member(9) != nil || second.status != here {
			t.Error("the image was not loaded")
		}
		second.mu.Unlock()
		if _, ok := b.admit(second); ok {
			t.Error("it does not know of the charge")
		}
	})
}

// panics is an observer that panics at a quota.
type panics struct{ engine.Observer }

func (panics) Requoted(c catalog.Change) {
	if c.Name == "poison" {
		panic("poison")
	}
}
func (panics) Shown(*account.Account)              {}
func (panics) Asked([]engine.Request, account.Now) {}

// An entry that panics is tried again behind an image, and then skipped.
func TestPoison(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		set := func(o *Options) { o.Observer = panics{} }
		first, second := b.open(set), b.open(set)
		b.quota(first, state.Quota{MaxRPM: 2})
		_, err := first.Do(b.Context(), engine.SetQuota{Counted: "poison", Quota: state.Quota{MaxRPM: 1}})
		if err == nil {
			t.Error("the command has no error")
		}
		time.Sleep(time.Second)
		if !b.told(func(err error) bool {
			var p *PoisonError
			return errors.As(err, &p) && p.Skipped && strings.Contains(err.Error(), "poison")
		}) {
			t.Errorf("nobody is told: %v", b.errs)
		}
		if _, ok := b.admit(first); !ok {
			t.Error("the first does not go on")
		}
		if _, ok := b.admit(second); !ok {
			t.Error("the second does not go on")
		}
	})
}

// Images are saved as entries come, and a newcomer begins with the newest.
func TestImages(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		first, second := b.open(), b.open()
		b.quota(first, state.Quota{MaxRPM: 10_000})
		for range 8000 {
			id, _ := b.admit(second)
			second.Tell(engine.Settle{ID: id})
		}
		time.Sleep(5 * time.Second)
		if n := b.store.Len(); n > 14_000 {
			t.Errorf("the log has %d entries", n)
		}
		third := b.open()
		first.Fresh(b.Context(), 0)
		third.mu.Lock()
		defer third.mu.Unlock()
		first.mu.Lock()
		defer first.mu.Unlock()
		if got := third.state.Engine.Account("m").Requests(0); got != 8000 {
			t.Errorf("a newcomer knows of %d charges", got)
		}
		if third.state.Digest() != first.state.Digest() {
			t.Error("the states differ")
		}
	})
}

// The days of zones are told before they are needed, once.
func TestZones(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		told := 0
		set := func(o *Options) {
			o.Bounds = func(zone string, wall int64) (day, month account.Span) {
				told++
				at := time.Unix(0, wall).UTC()
				first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
				if month = (account.Span{Begin: first.UnixNano(), End: first.AddDate(0, 1, 0).UnixNano()}); zone == "" {
					return day, month
				}
				midnight := at.Truncate(24 * time.Hour)
				return account.Span{Begin: midnight.UnixNano(), End: midnight.AddDate(0, 0, 1).UnixNano()}, month
			}
		}
		first, second := b.open(set), b.open(set)
		b.quota(first, state.Quota{MaxRPD: 1, DayZone: "Etc/UTC"})
		for day := range 3 {
			for i, r := range []*Replica{first, second, first} {
				if _, ok := b.admit(r); ok != (i == 0) {
					t.Errorf("day %d: call %d passes: %v", day, i, ok)
				}
			}
			b.store.Jump(24 * time.Hour)
			time.Sleep(2 * time.Second)
		}
		if told > 12 {
			t.Errorf("told %d times", told)
		}
	})
}

// Nobody waits for long because the store goes away while a lost log is begun anew.
func TestAwayWhileLost(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		first, second := b.open(), b.open()
		b.quota(first, state.Quota{MaxRPM: 12})
		b.store.Empty()
		for loads := false; !loads; time.Sleep(50 * time.Microsecond) {
			second.mu.Lock()
			loads = second.status == catching
			second.mu.Unlock()
		}
		b.store.Down(time.Minute)
		for _, r := range []*Replica{first, second} {
			began := time.Now()
			if _, err := r.Do(b.Context(), engine.Admit{By: byMe, Wants: oneWant}); err != nil && !errors.Is(err, ErrAway) {
				t.Error(err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
		}
		time.Sleep(2 * time.Minute)
		for _, r := range []*Replica{first, second} {
			if _, ok := b.admit(r); !ok {
				t.Error("nobody goes on")
			}
		}
	})
}

// A newcomer that hears late what time it is knows how late that was.
func TestTimeIsHeardLate(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		first := b.open()
		second := b.open(func(o *Options) { o.Log = deaf{o.Log, time.Now().Add(2 * time.Second)} })
		if behind := first.Now().Instant - second.Now().Instant; behind > int64(100*time.Millisecond) || behind < -int64(100*time.Millisecond) {
			t.Errorf("the newcomer's clock is %v behind", time.Duration(behind))
		}
	})
}

// deaf is a log that loses all answers until a moment.
type deaf struct {
	store.Log
	until time.Time
}

func (d deaf) heard(news store.News, err error) (store.News, error) {
	if time.Now().Before(d.until) {
		return store.News{}, context.DeadlineExceeded
	}
	return news, err
}

func (d deaf) Append(ctx context.Context, after store.Position, batch []store.Entry) (store.News, error) {
	return d.heard(d.Log.Append(ctx, after, batch))
}

func (d deaf) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	return d.heard(d.Log.Read(ctx, after, wait, gather))
}

// Who asks for the news has heard all that was in the log, and a thousand cost two reads.
func TestFresh(t *testing.T) {
	f := slow
	f.Page = 1
	inBubble(t, f, func(b *bench) {
		first := b.open()
		count := &counting{Log: first.log}
		b.quota(first, state.Quota{MaxRPM: 100})
		second := b.open(func(o *Options) { count.Log = o.Log; o.Log = count })
		for range 5 {
			b.admit(first)
		}
		var all sync.WaitGroup
		was := count.reads()
		for range 1000 {
			all.Go(func() {
				if err := second.Fresh(b.Context(), 0); err != nil {
					t.Error(err)
				}
				second.mu.Lock()
				defer second.mu.Unlock()
				if got := second.state.Engine.Account("m").Requests(0); got != 5 {
					t.Errorf("it knows of %d charges", got)
				}
			})
		}
		all.Wait()
		if n := count.reads() - was; n > 30 {
			t.Errorf("there were %d reads", n)
		}
	})
}

// counting is a log that counts reads.
type counting struct {
	store.Log
	mu sync.Mutex
	n  int
}

func (c *counting) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.Log.Read(ctx, after, wait, gather)
}

func (c *counting) reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// readCounter is a log that counts its reads.
type readCounter struct {
	store.Log
	n atomic.Int64
}

func (l *readCounter) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	l.n.Add(1)
	return l.Log.Read(ctx, after, wait, gather)
}

// A process whose appends bring the news does not read them, too, unless somebody waits in line.
func TestBusyProcessReadsNothing(t *testing.T) {
	t.Run("near", func(t *testing.T) { busyReadsNothing(t, slow) })
	t.Run("far", func(t *testing.T) { busyReadsNothing(t, memlog.Faults{Latency: 20 * time.Millisecond}) })
}

func busyReadsNothing(t *testing.T, f memlog.Faults) {
	inBubble(t, f, func(b *bench) {
		log := new(readCounter)
		busy, other := b.open(func(o *Options) { log.Log = o.Log; o.Log = log }), b.open()
		b.quota(busy, state.Quota{MaxRPM: 10_000})
		was := log.n.Load()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond) // so that something is under way all the time
				for range 50 {
					b.record(busy, 1)
					b.record(other, 1)
				}
			})
		}
		all.Wait()
		// It would read 64 times or more near, and 124 far. A moment in which the scheduler lets
		// nothing be under way is one: of those there were up to 27.
		if n := log.n.Load() - was; n > 45 {
			t.Errorf("a busy process has read %d times", n)
		}
		time.Sleep(time.Second)
		busy.mu.Lock()
		got := busy.state.Engine.Account("m").Requests(0)
		busy.mu.Unlock()
		if got != 2000 {
			t.Errorf("an idle one knows of %d calls, want 2000", got)
		}
	})
}
