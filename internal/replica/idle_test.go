package replica

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// polled is a log that is looked at in intervals, as a file is, and keeps the last of them.
type polled struct {
	store.Log
	mu     sync.Mutex
	gather time.Duration
}

func (p *polled) Traits() store.Traits {
	return store.Traits{MaxStale: 1, Contact: time.Minute, Steady: true}
}

func (p *polled) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	p.mu.Lock()
	p.gather = gather
	p.mu.Unlock()
	return p.Log.Read(ctx, after, min(wait, max(gather, time.Millisecond)), gather)
}

// An idle process looks at a log ever more rarely in which nothing happens, and often again as soon
// as something does.
func TestIdle(t *testing.T) {
	inBubble(t, memlog.Faults{}, func(b *bench) {
		log := new(polled)
		idle, other := b.open(func(o *Options) { log.Log = o.Log; o.Log = log }), b.open()
		rests := func(when string, least, most time.Duration) {
			t.Helper()
			log.mu.Lock()
			defer log.mu.Unlock()
			if log.gather < least || log.gather > most {
				t.Errorf("%s it rests for %v, want %v to %v", when, log.gather, least, most)
			}
		}
		b.quota(other, state.Quota{MaxRPM: 1})
		time.Sleep(2 * time.Second)
		rests("beside a busy one", time.Second, time.Second)
		time.Sleep(9 * time.Minute)
		rests("in a quiet log", longestRest, longestRest)
		b.admit(other)
		time.Sleep(longestRest + 2*time.Second)
		rests("after news", time.Second, 2*time.Second)
		idle.mu.Lock()
		if n := idle.state.Engine.Account("m").Requests(0); n != 1 {
			t.Errorf("it knows of %d calls", n)
		}
		idle.mu.Unlock()

		time.Sleep(8 * time.Minute)
		b.admit(other)
		go idle.Do(b.Context(), engine.Enter{By: byMe, Deadline: idle.Now().Instant + int64(time.Hour), Options: [][]engine.Want{oneWant}})
		time.Sleep(time.Second)
		synctest.Wait()
		rests("while it waits in line", 0, 0)
	})
}

// However many have died of late, a newcomer begins soon, what a dead one holds is free soon after
// its lease, and images are saved.
func TestManyDead(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		for range 100 / min(racetest.Factor, 2) {
			r := b.open()
			time.Sleep(time.Millisecond)
			b.store.Kill(r.process)
		}
		began := time.Now()
		first, last := b.open(), b.open()
		b.quota(first, state.Quota{MaxInFlight: 1})
		b.admit(last)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("newcomers wait for %v", took)
		}
		b.store.Kill(last.process)
		if took := b.wait(first); took > 12*time.Second {
			t.Errorf("a slot is free after %v, with a lease of 10 s", took)
		}
		b.quota(first, state.Quota{})
		time.Sleep(time.Minute)
		b.record(first, 16_000)
		time.Sleep(5 * time.Second)
		if n := b.store.Len(); n > 14_000 {
			t.Errorf("the log has %d entries", n)
		}
	})
}
