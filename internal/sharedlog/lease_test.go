package sharedlog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaseTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, 1: 100 * time.Millisecond, time.Minute: time.Minute,
	} {
		if got := NewLease(ttl, nil).TTL(); got != want {
			t.Errorf("%v: %v, want %v", ttl, got, want)
		}
	}
}

func TestLeaseIsDue(t *testing.T) {
	l := NewLease(30*time.Second, nil)
	const third = int64(10 * time.Second)
	if !l.IsDue(0) {
		t.Error("a lease that was never renewed is not due")
	}
	l.Renewed(5)
	if l.IsDue(5+third-1) || !l.IsDue(5+third) {
		t.Error("the lease is not due after a third of its time")
	}
	l.Doubted()
	if !l.IsDue(-third) {
		t.Error("a lease in doubt is not due")
	}
}

func TestLeaseTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // the owner's lock
		mu.Lock()
		defer mu.Unlock()
		renewed, left := 0, 2
		var l *Lease
		l = NewLease(30*time.Second, func() {
			mu.Lock()
			defer mu.Unlock()
			renewed++
			l.Ended()
			if left--; left > 0 {
				l.Keep()
			}
		})
		pass := func(d time.Duration, want int) {
			t.Helper()
			mu.Unlock()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			if renewed != want {
				t.Fatalf("renewed %d times, want %d", renewed, want)
			}
		}
		l.Stop() // before it ever ran
		pass(time.Hour, 0)
		l.Keep()
		pass(6*time.Second, 0)
		l.Keep() // does not put it off
		pass(4*time.Second, 1)
		pass(10*time.Second, 2)
		pass(time.Hour, 2) // for no reason is left
		left = 5
		l.Keep()
		pass(10*time.Second, 3)
		l.Stop()
		pass(time.Hour, 3)
	})
}
