package bench

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// TestLargeLog tells how long the lock of a limiter is held while it begins a log anew that was
// emptied, with many live charges, and how long a newcomer takes to open a log with many more. It
// takes minutes: RATELIMIT_LONG=1 asks for it.
func TestLargeLog(t *testing.T) {
	needLong(t)
	t.Run("emptied", func(t *testing.T) {
		address := startServer(t)
		client := newClient(t, address)
		rl := newPatientLimiter(t, address, "large", 10*time.Second)
		other := newPatientLimiter(t, address, "large", 10*time.Second) // which begins no log
		charge(t, rl, 300_000)
		other.Persist()
		watch := watchLock(func() { rl.QuotaFor("m") })
		watchOther := watchLock(func() { other.Err() })
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := rl.Acquire(t.Context(), "m", 1, 1); err != nil { // which finds that it is gone
			t.Fatal(err)
		}
		took := time.Since(began)
		time.Sleep(2 * time.Second)
		t.Logf("300,000 live charges, and an emptied store: it takes %v to begin it anew, and the lock is held for at most %v, and %v by another limiter",
			took, watch(), watchOther())
		if n := newPatientLimiter(t, address, "large", 10*time.Second).Stats("m").RPM; n != 300_001 {
			t.Errorf("the new log has %d charges", n)
		}
	})
	t.Run("opened", func(t *testing.T) {
		address := startServer(t)
		rl := newPatientLimiter(t, address, "large", 10*time.Second)
		charge(t, rl, 2_000_000)
		live := rl.Stats("m").RPM
		rl.Close()
		rl = nil
		before := heap()
		began := time.Now()
		other := newPatientLimiter(t, address, "large", 10*time.Second)
		took := time.Since(began)
		t.Logf("%d live charges: a new process opens in %v, its heap is %.0f MB then", live, took, (heap()-before)/1e6)
		runtime.KeepAlive(other)
	})
}

// charge records requests, as fast as it can.
func charge(t *testing.T, rl *ratelimit.RateLimiter, requests int) {
	t.Helper()
	const together = 1000
	began := time.Now()
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for range requests / together {
				rl.RecordUsage("m", 100, 10)
			}
		})
	}
	all.Wait()
	t.Logf("%d charges took %v", requests, time.Since(began))
}

// watchLock asks for what is answered under a lock, and returns a function that ends it and says
// how long the longest answer took.
func watchLock(ask func()) (longest func() time.Duration) {
	var stop atomic.Bool
	most := make(chan time.Duration)
	go func() {
		var is time.Duration
		for !stop.Load() {
			began := time.Now()
			ask()
			is = max(is, time.Since(began))
			time.Sleep(100 * time.Microsecond)
		}
		most <- is
	}()
	return func() time.Duration {
		stop.Store(true)
		return <-most
	}
}
