package replica

import (
	"context"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
)

// BenchmarkPair is Admit and Settle by 1,000 goroutines of one process, over a store that is
// 100 µs away.
func BenchmarkPair(b *testing.B) {
	s := memlog.New(memlog.Faults{Latency: 100 * time.Microsecond})
	log, err := s.Open(b.Context(), store.Options{Process: 1})
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(b.Context(), Options{Log: log, Process: 1, Lock: new(sync.Mutex)})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close(context.Background())
	r.Do(b.Context(), engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPM: 1 << 30}})
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
