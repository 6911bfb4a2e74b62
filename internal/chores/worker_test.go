package chores

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// countingLock counts how often it is given up.
type countingLock struct {
	sync.Mutex
	given int
}

func (l *countingLock) Unlock() {
	l.given++
	l.Mutex.Unlock()
}

// Work gives up the lock after each slice, at the next reading of the clock, and not before.
func TestWorkLetsOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = 10 * time.Microsecond // so a slice ends within the first 32 steps
		var lock countingLock
		var c clock.Clock
		lock.Lock()
		w := NewWorker(&lock, &c)
		for n := 1; n <= 10*stepsBetween; n++ {
			time.Sleep(step)
			w.Next()
			if want := n / stepsBetween; lock.given != want {
				t.Fatalf("the lock was given up %d times in %d steps, want %d", lock.given, n, want)
			}
			if n%stepsBetween == 0 && w.Instant != c.Now() {
				t.Errorf("after %d steps it is %d, want %d", n, w.Instant, c.Now())
			}
		}
		if lock.TryLock() {
			t.Error("the work ended without the lock")
		}
	})
}

func TestQuickWorkKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock countingLock
		var c clock.Clock
		lock.Lock()
		w := NewWorker(&lock, &c)
		for range 10_000 {
			w.Next()
		}
		if lock.given > 0 {
			t.Errorf("the lock was given up %d times in no time", lock.given)
		}
	})
}

// Somebody who waits for the lock gets it, even on a single processor.
func TestWaiterGetsTheLock(t *testing.T) {
	var lock sync.Mutex
	var c clock.Clock
	in := false
	lock.Lock()
	w := NewWorker(&lock, &c)
	go func() {
		lock.Lock()
		defer lock.Unlock()
		in = true
	}()
	for late := time.Now().Add(10 * time.Second); !in; w.Next() {
		if time.Now().After(late) {
			t.Fatal("nobody else got the lock")
		}
	}
	lock.Unlock()
}
