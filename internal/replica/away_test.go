package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

var errBroken = errors.New("broken")

// broken is a log some of whose calls fail.
type broken struct {
	store.Log
	mu      sync.Mutex
	appends func(after store.Position, batch []store.Entry) error // what it returns is the answer, if not nil
	reads   error
}

func (l *broken) set(appends func(store.Position, []store.Entry) error, reads error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appends, l.reads = appends, reads
}

func (l *broken) Append(ctx context.Context, after store.Position, batch []store.Entry) (store.News, error) {
	l.mu.Lock()
	appends := l.appends
	l.mu.Unlock()
	if appends != nil {
		if err := appends(after, batch); err != nil {
			return store.News{}, err
		}
	}
	return l.Log.Append(ctx, after, batch)
}

func (l *broken) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	news, err := l.Log.Read(ctx, after, wait, gather)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads != nil {
		return store.News{}, l.reads
	}
	return news, err
}

// openBroken opens a process over a broken log, which works at first.
func (b *bench) openBroken() (*Replica, *broken) {
	l := new(broken)
	return b.open(func(o *Options) { l.Log = o.Log; o.Log = l }), l
}

// record records calls without a reservation.
func (b *bench) record(r *Replica, n int) {
	b.Helper()
	c := engine.Record{Name: oneWant[0].Name, Span: byMe.Span, Used: state.Count{Input: 1}}
	for range n {
		if _, err := r.Do(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// wantRequests checks how many requests processes know of, once all have heard everything.
func (b *bench) wantRequests(want int, all ...*Replica) {
	b.Helper()
	time.Sleep(3 * time.Second)
	for i, r := range all {
		r.mu.Lock()
		if got := r.state.Engine.Account("m").Requests(0); got != want || r.status != here {
			b.Errorf("process %d knows of %d requests, want %d; its status is %d", i, got, want, r.status)
		}
		r.mu.Unlock()
	}
}

// What a process has sent before it was cut off counts once, whenever it arrives.
func TestSentBeforeAnOutage(t *testing.T) {
	for _, tt := range []struct {
		name         string
		before, late bool // it arrives at once; or in front of what is sent first afterwards
	}{
		{name: "never arrives"},
		{name: "has arrived", before: true},
		{name: "arrives on the way home", late: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, slow, func(b *bench) {
				other := b.open()
				r, l := b.openBroken()
				b.quota(r, state.Quota{MaxRPM: 1000})
				b.record(r, 2)
				_, _ = b.admit(r)
				var held []store.Entry
				var at store.Position
				l.set(func(after store.Position, batch []store.Entry) error {
					held, at = batch, after
					if tt.before {
						l.Log.Append(b.Context(), after, batch)
					}
					return errBroken
				}, errBroken)
				r.Tell(engine.Record{Name: oneWant[0].Name, Span: byMe.Span, Used: state.Count{Input: 1}})
				id, _ := b.admit(r)
				r.Do(b.Context(), engine.Settle{ID: id, How: account.Committed, Used: state.Count{Input: 1}})
				b.record(r, 3)
				r.mu.Lock()
				if r.status != cutOff {
					t.Error("it is not cut off")
				}
				r.mu.Unlock()
				l.set(func(store.Position, []store.Entry) error {
					if tt.late && held != nil {
						l.Log.Append(b.Context(), at, held)
						held = nil
					}
					return nil
				}, nil)
				b.wantRequests(8, r, other)
			})
		})
	}
}

// A process that can read the log, but append nothing to it, goes on with its share. It is back as
// soon as it can append, and has charged all once.
func TestAppendsAreRefused(t *testing.T) {
	for name, answer := range map[string]error{"refused": store.ErrNotWritten, "not answered": errBroken} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, slow, func(b *bench) {
				other := b.open()
				r, l := b.openBroken()
				b.quota(r, state.Quota{MaxRPM: 1000})
				for round := range 2 {
					l.set(func(store.Position, []store.Entry) error { return answer }, nil)
					var busy sync.WaitGroup
					busy.Go(func() { // so that there is something to read
						for range 40 {
							b.record(other, 1)
							time.Sleep(20 * time.Millisecond)
						}
					})
					began := time.Now()
					if o, err := r.Do(b.Context(), engine.Admit{By: byMe, Wants: oneWant}); err != nil || !o.Alone || len(o.Calls) != 1 {
						t.Errorf("an admission ends with %+v, %v", o, err)
					}
					if took := time.Since(began); took > 2*r.timeout {
						t.Errorf("it took %v", took)
					}
					b.record(r, 1)
					busy.Wait()
					time.Sleep(20 * time.Second)
					if r.Err() == nil {
						t.Error("there is no error")
					}
					if _, ok := b.admit(other); !ok {
						t.Error("the other one does not go on")
					}
					l.set(nil, nil)
					b.wantRequests(43*(round+1), r, other)
					if r.Err() != nil {
						t.Errorf("it is not back: %v", r.Err())
					}
				}
			})
		})
	}
}

// A reader that waits for what the process has told last does not wait for a log that goes away.
func TestReadersDoNotWaitForALogThatIsAway(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		r, l := b.openBroken()
		b.quota(r, state.Quota{MaxRPM: 1})
		l.set(func(store.Position, []store.Entry) error {
			time.Sleep(r.timeout)
			return errBroken
		}, errBroken)
		r.Tell(engine.Leave{Process: r.process, N: 1})
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := r.Fresh(ctx, 0); err != nil || time.Since(began) > r.timeout+30*time.Millisecond {
			t.Errorf("a reader waits for %v: %v", time.Since(began), err)
		}
	})
}

// A process that is cut off goes by the quota that it is told meanwhile.
func TestQuotaOfAnOutage(t *testing.T) {
	for name, before := range map[string]state.Quota{
		"the first": {}, "a lower one": {MaxRPM: 10}, "a higher one": {MaxRPM: 1}, "the same": {MaxRPM: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, slow, func(b *bench) {
				r, l := b.openBroken()
				if before != (state.Quota{}) {
					b.quota(r, before)
				}
				l.set(func(store.Position, []store.Entry) error { return errBroken }, errBroken)
				b.quota(r, state.Quota{MaxRPM: 3})
				if n := b.admitted(r, 10); n != 3 {
					t.Errorf("%d calls pass during the outage, want 3", n)
				}
				l.set(nil, nil)
				b.wantRequests(3, r)
				if _, ok := b.admit(r); ok {
					t.Error("a fourth call passes afterwards")
				}
				time.Sleep(2 * time.Minute)
				l.set(func(store.Position, []store.Entry) error { return errBroken }, errBroken)
				time.Sleep(10 * time.Second)
				if _, ok := b.admit(r); !ok {
					t.Error("no call passes in the next outage")
				}
			})
		})
	}
}

// Who begins a log anew leaves the others the room for what only they have heard.
func TestLossOfWhatOneHasHeard(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		first, second := b.open(), b.open()
		b.quota(first, state.Quota{MaxRPM: 4})
		b.admit(first)
		time.Sleep(time.Second)
		b.store.Cut(first.process, 100*time.Millisecond)
		if _, ok := b.admit(second); !ok {
			t.Fatal("the second process is refused")
		}
		b.store.Cut(second.process, 2*time.Second)
		b.store.LoseEnd(2)
		time.Sleep(200 * time.Millisecond)
		n := 2 + b.admitted(first, 4)
		if n != 3 {
			t.Errorf("%d of 4 calls pass before the other process has told its own", n)
		}
		b.wantRequests(n, first, second)
		if _, ok := b.admit(first); !ok {
			t.Error("afterwards the last one does not pass")
		}
	})
}
