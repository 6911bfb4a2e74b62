package replica

import (
	"context"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
)

// benched returns a process with a quota for "m", over a store of its own.
func benched(b *testing.B, faults memlog.Faults, q state.Quota) *Replica {
	b.Helper()
	log, err := memlog.New(faults).Open(b.Context(), store.Options{Process: 1})
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(b.Context(), Options{Log: log, Process: 1, Lock: new(sync.Mutex)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close(context.Background()) })
	r.Do(b.Context(), engine.SetQuota{Counted: "m", Quota: q})
	return r
}

// BenchmarkPair is Admit and Settle by 1,000 goroutines of one process, over a store that is
// 100 µs away.
func BenchmarkPair(b *testing.B) {
	r := benched(b, memlog.Faults{Latency: 100 * time.Microsecond}, state.Quota{MaxRPM: 1 << 30})
	b.ReportAllocs()
	b.SetParallelism(500)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			o, err := r.Do(b.Context(), engine.Admit{By: engine.By{Span: account.Minute + int64(time.Second)}, Wants: oneWant})
			if err != nil || len(o.Calls) == 0 {
				b.Errorf("%+v, %v", o, err)
				return
			}
			r.Do(b.Context(), engine.Settle{ID: o.Calls[0]})
		}
	})
}

// BenchmarkHear is what a pair of another process costs: an Admit and a Settle, heard in pages.
func BenchmarkHear(b *testing.B) {
	const page = 500
	r := benched(b, memlog.Faults{}, state.Quota{MaxRPM: 1 << 30, MaxInFlight: 1 << 20})
	r.mu.Lock() // so that nothing else happens
	defer r.mu.Unlock()
	next := func(n int64, c fleet.Command) store.Entry {
		e := store.Entry{At: r.at, Process: 9, N: n, Expect: r.clock.expected(), Command: c.Append(nil)}
		e.At.Seq += n
		e.Stamp.Wall = time.Now().UnixNano()
		return e
	}
	r.advance(r.at, &store.News{Entries: []store.Entry{next(1, fleet.Join{Lease: int64(time.Minute)})}}, time.Now())
	b.ReportAllocs()
	by := engine.By{Span: account.Minute + int64(time.Second)}
	entries, n := make([]store.Entry, 2*page), int64(1)
	for pairs := 0; pairs < b.N; pairs += page {
		b.StopTimer()
		first := n
		for i := range page {
			n = first + int64(i) + 1
			entries[i] = next(int64(i)+1, fleet.Verb{Command: engine.Admit{By: by, Wants: oneWant}})
			entries[page+i] = next(page+int64(i)+1, fleet.Verb{Command: engine.Settle{ID: account.ID{Process: 9, N: n}}})
			entries[i].N, entries[page+i].N = n, n+page
		}
		n += page
		b.StartTimer()
		r.advance(r.at, &store.News{Entries: entries}, time.Now())
	}
}
