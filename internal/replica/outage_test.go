package replica

import (
	"context"
	"errors"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// However long an outage lasts, a process keeps the calls that it has charged, and no more: not
// what providers have said meanwhile, nor waiters that have gone. When the log knows the calls,
// they are forgotten.
func TestLongOutage(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		r, other := b.open(), b.open()
		b.quota(r, state.Quota{MaxRPM: 1000, MaxInFlight: 4})
		const rounds = 400
		b.store.Down(20 * time.Second)
		wants := []engine.Want{{Name: engine.Name{Asked: "full", Counted: "full"}}}
		if _, err := other.Do(b.Context(), engine.SetQuota{Counted: "full", Quota: state.Quota{MaxInFlight: 1}}); err != nil {
			t.Fatal(err)
		}
		r.Do(b.Context(), engine.SetQuota{Counted: "full", Quota: state.Quota{MaxInFlight: 1}})
		name := oneWant[0].Name
		for i := range rounds {
			id, ok := b.admit(r)
			if !ok {
				t.Fatalf("call %d does not pass", i)
			}
			ctx, cancel := context.WithTimeout(b.Context(), time.Millisecond)
			if _, err := r.Do(ctx, engine.Enter{By: byMe, Deadline: account.Never, Options: [][]engine.Want{wants}}); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			now := r.Now()
			r.Tell(engine.Arrive{ID: id, At: now.Instant})
			r.Tell(engine.Observe{Name: name, Span: byMe.Span})
			r.Tell(engine.Refuse{Name: name})
			r.Tell(engine.Cool{Name: engine.Name{Asked: "cool", Counted: "cool"}, Until: now.Wall + int64(time.Hour), Cause: "caller"})
			r.Do(b.Context(), engine.Settle{ID: id, How: account.Committed, Used: state.Count{Input: 1}})
		}
		r.mu.Lock()
		if r.status != cutOff || len(r.asks.of) > 5 || len(r.asks.queue) > 5 || len(r.alone.charges.of) != rounds {
			t.Errorf("status %d, %d commands are to be told, %d of them in the queue; %d charges", r.status, len(r.asks.of), len(r.asks.queue), len(r.alone.charges.of))
		}
		r.mu.Unlock()
		time.Sleep(25 * time.Second)
		b.wantRequests(rounds, r, other)
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.alone.charges.of) + len(r.alone.charges.from); n != 0 || len(r.asks.of) != 0 {
			t.Errorf("left are %d of the charges, and %d commands", n, len(r.asks.of))
		}
	})
}

// A cooldown of an outage is not shortened by another one, and ends with a reset. So it is where
// the log hears of them.
func TestCooldownsOfAnOutage(t *testing.T) {
	const long, short = time.Hour, time.Second
	for _, tt := range []struct {
		name string
		say  []time.Duration // until when; 0 is a reset
		ends time.Duration
	}{
		{"one", []time.Duration{long}, long},
		{"a shorter one behind it", []time.Duration{long, short}, long},
		{"a longer one behind it", []time.Duration{short, long}, long},
		{"reset", []time.Duration{long, 0}, 0},
		{"reset, and a shorter one", []time.Duration{long, 0, 30 * time.Minute}, 30 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, slow, func(b *bench) {
				r, other := b.open(), b.open()
				b.quota(r, state.Quota{MaxRPM: 1000})
				b.store.Down(20 * time.Second)
				b.admit(r)
				wall := r.Now().Wall
				for _, d := range tt.say {
					if d == 0 {
						r.Tell(engine.Reset{Counted: "m"})
					} else {
						r.Tell(engine.Cool{Name: oneWant[0].Name, Until: wall + int64(d), Cause: "caller"})
					}
				}
				time.Sleep(2 * time.Second)
				if _, passes := b.admit(r); passes != (tt.ends == 0) {
					t.Errorf("while the log is away a call passes: %t", passes)
				}
				time.Sleep(30 * time.Second)
				b.quota(other, state.Quota{MaxRPM: 2000}) // which all hear
				other.mu.Lock()
				defer other.mu.Unlock()
				cools := other.state.Engine.Account("m").CoolUntil
				if want := wall + int64(tt.ends); cools != want && tt.ends != 0 || cools > 0 && tt.ends == 0 {
					t.Errorf("then it cools until %v, want %v", time.Duration(cools-wall), tt.ends)
				}
			})
		})
	}
}

// A call that was admitted by a share counts from when it arrived at its provider, once the log is
// back.
func TestArrivedInAnOutage(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		r, other := b.open(), b.open()
		b.quota(r, state.Quota{MaxRPM: 1000})
		b.store.Down(40 * time.Second)
		id, ok := b.admit(r)
		time.Sleep(30 * time.Second)
		arrived := r.Now().Instant
		r.Tell(engine.Arrive{ID: id, At: arrived})
		r.Tell(engine.Arrive{ID: id, At: arrived + int64(time.Hour)}) // not in the future
		r.Do(b.Context(), engine.Settle{ID: id, How: account.Committed})
		time.Sleep(20 * time.Second)
		b.wantRequests(1, r, other)
		other.mu.Lock()
		defer other.mu.Unlock()
		a := other.state.Engine.Account("m")
		if n := a.Requests(arrived - 1); !ok || n != 1 {
			t.Errorf("%d requests since the call arrived", n)
		}
	})
}

// A log that says after the whole time of a call that it did not take what was sent is away the
// second time. Once may be a process that was stopped meanwhile.
func TestRefusedAfterAll(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		r, l := b.openBroken()
		b.quota(r, state.Quota{MaxRPM: 1000})
		l.set(func(store.Position, []store.Entry) error {
			time.Sleep(r.timeout)
			return store.ErrNotWritten
		}, nil)
		began := time.Now()
		o, err := r.Do(b.Context(), engine.Admit{By: byMe, Wants: oneWant})
		if took := time.Since(began); err != nil || !o.Alone || took > 2*r.timeout+30*time.Millisecond || took < 2*r.timeout {
			t.Errorf("%+v, %v after %v", o, err, took)
		}
	})
}

// What was applied is told to a log that has lost it only where that cannot know it: nobody looks
// at the rest, of which there may be very much.
func TestPagesThatAreKnown(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		r, other := b.open(), b.open()
		b.quota(r, state.Quota{MaxInFlight: 1})
		b.record(r, 5)
		b.wait(other)
		r.Fresh(b.Context(), 0)
		r.mu.Lock()
		defer r.mu.Unlock()
		p := &r.journal.pages[0]
		if knows := r.knowsPages(); !knows(p) {
			t.Errorf("%+v is not known", p.numbers)
		}
		me := r.state.Member(r.process)
		for name, change := range map[string]func(numbers map[int64]reach){
			"a number that was not heard":  func(numbers map[int64]reach) { numbers[r.process] = reach{1, me.N + 1} },
			"a process that is not known":  func(numbers map[int64]reach) { numbers[99] = reach{1, 1} },
			"one whose numbers go further": func(numbers map[int64]reach) { numbers[other.process] = reach{1, 1 << 40} },
		} {
			changed := page{numbers: map[int64]reach{r.process: {me.N, me.N}}}
			change(changed.numbers)
			if knows := r.knowsPages(); knows(&changed) {
				t.Errorf("%s is known", name)
			}
		}
	})
}
