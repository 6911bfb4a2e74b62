package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
)

// sums is a life of three processes that all live on, and what goes wrong in it.
type sums struct {
	name     string
	faults   func(seed uint64) memlog.Faults
	most     int // incidents
	slots    int // MaxInFlight, for which some calls wait; 0 for none
	troubles []memlog.Trouble
	failed   []uint64 // seeds whose sums were wrong once
}

var sumKinds = []sums{
	{name: "outages", faults: quiet, most: 3, troubles: []memlog.Trouble{memlog.AllAway, memlog.OneAway}},
	{name: "lost", faults: uneven, most: 3, troubles: []memlog.Trouble{memlog.EndLost}, failed: []uint64{97}},
	{name: "emptied", faults: uneven, most: 3, troubles: []memlog.Trouble{memlog.Emptied}},
	{name: "often", faults: uneven, most: 20, troubles: []memlog.Trouble{memlog.EndLost, memlog.AllAway, memlog.OneAway}, failed: []uint64{225, 402, 1035}},
	{name: "hostile", faults: memlog.Hostile, most: 3, troubles: []memlog.Trouble{memlog.AllAway, memlog.OneAway}},
	{name: "failovers", faults: memlog.Hostile, most: 20, troubles: []memlog.Trouble{memlog.EndLost, memlog.AllAway, memlog.OneAway}, failed: []uint64{1308, 3175, 4778, 5381}},
	{name: "lines", faults: uneven, most: 20, slots: 2, troubles: []memlog.Trouble{memlog.EndLost, memlog.AllAway, memlog.OneAway}, failed: []uint64{56, 172, 226}},
	{name: "hostile lines", faults: memlog.Hostile, most: 20, slots: 2, troubles: []memlog.Trouble{memlog.EndLost, memlog.AllAway, memlog.OneAway}, failed: []uint64{479}},
}

// What is counted in the end is what was admitted: each call once, whatever went wrong meanwhile.
func TestSums(t *testing.T) {
	for _, k := range sumKinds {
		t.Run(k.name, func(t *testing.T) {
			for seed := range uint64(seeds()) {
				k.live(t, firstSeed()+seed)
			}
			for _, seed := range k.failed {
				k.live(t, seed)
			}
		})
	}
}

func (k *sums) live(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 7))
		s := memlog.New(k.faults(seed))
		var all []*Replica
		for process := range int64(3) {
			all = append(all, openForSums(t, s, process+1))
			time.Sleep(time.Second)
		}
		all[0].Do(t.Context(), engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPD: 1e9, MaxInFlight: k.slots}})
		time.Sleep(time.Second)
		script := memlog.Script(seed, time.Minute, 1+random.IntN(k.most), k.troubles...)
		for i := range script {
			script[i].Span = min(script[i].Span, time.Duration(random.Int64N(int64(5*time.Second))))
		}
		var admitted atomic.Int64
		var done sync.WaitGroup
		done.Go(func() { s.Play(t.Context(), script) })
		for _, r := range all {
			for i := range uint64(2) {
				done.Go(func() { k.call(t, r, rand.New(rand.NewPCG(seed+uint64(r.process)<<32, i)), &admitted) })
			}
		}
		done.Wait()
		time.Sleep(10 * time.Second)
		for _, r := range all {
			for tries := 0; r.Sync(t.Context()) != nil && tries < 100; tries++ {
				time.Sleep(time.Second)
			}
			if is := countOf(r); is != fmt.Sprint(admitted.Load(), " and 0") {
				t.Errorf("%s, seed %d: process %d counts %s in flight, and %d were admitted", k.name, seed, r.process, is, admitted.Load())
			}
		}
		for _, r := range all {
			r.Close(t.Context())
		}
	})
}

func openForSums(t *testing.T, s *memlog.Store, process int64) *Replica {
	for {
		log, err := s.Open(t.Context(), store.Options{Process: process})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), Options{Log: log, Process: process, Lock: new(sync.Mutex), LeaseTTL: time.Hour})
		if err == nil {
			return r
		}
		log.Close()
		time.Sleep(time.Second)
	}
}

// call makes calls of all kinds: without a reservation, with one, and with one that waits for a
// slot, whose caller may go before it has one.
func (k *sums) call(t *testing.T, r *Replica, random *rand.Rand, admitted *atomic.Int64) {
	name, used := engine.Name{Asked: "m", Counted: "m"}, state.Count{Input: 1}
	by, wants := engine.By{Span: account.Minute}, []engine.Want{{Name: name, Tokens: used}}
	longest := 100 * time.Millisecond
	if k.slots > 0 {
		longest = 3 * time.Second
	}
	for range 60 {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		var ids []account.ID
		switch {
		case random.IntN(2) == 0:
			admitted.Add(1)
			r.Do(t.Context(), engine.Record{Name: name, Span: account.Minute, Used: used})
		case k.slots == 0 || random.IntN(2) == 0:
			out, _ := r.Do(t.Context(), engine.Admit{By: by, Wants: wants})
			ids = out.Calls
		default:
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(2*time.Second))))
			out, _ := r.Do(ctx, engine.Enter{By: by, Deadline: r.Now().Instant + random.Int64N(int64(time.Second)), Options: [][]engine.Want{wants}})
			if cancel(); len(out.Ended) > 0 {
				ids = out.Ended[0].Calls
			}
		}
		if len(ids) > 0 {
			admitted.Add(1)
			time.Sleep(time.Duration(random.Int64N(int64(longest))))
			r.Tell(engine.Settle{ID: ids[0], How: account.Committed, Used: used})
		}
	}
}

// countOf returns how many calls a process counts, and how many are in flight.
func countOf(r *Replica) string {
	r.options.Lock.Lock()
	defer r.options.Lock.Unlock()
	a := r.state.Engine.Account("m")
	requests, _, _ := a.DayUsed(r.clock.now().Wall)
	return fmt.Sprint(requests, " and ", a.InFlight)
}
