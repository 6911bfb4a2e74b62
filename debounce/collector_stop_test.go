package debounce_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

func TestCollectorStop(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute, MaxSize: 2}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		c := collect(log.slowly)
		add := func(v int) { log.add(fmt.Sprintf("add %d: %t", v, c.Add(v))) }
		stop := func() {
			if err := c.Stop(t.Context()); err != nil {
				t.Errorf("Stop: %v", err)
			}
			log.add("stopped")
		}
		c.Add(1)
		c.Add(2)
		log.is(t, "flush 1 2")
		add(3)
		add(4)
		for v := range 3 {
			go func() { log.add(fmt.Sprintf("blocked add: %t", c.Add(5+v))) }()
		}
		log.is(t, "add 3: true", "add 4: true")
		go stop()
		log.is(t, "blocked add: false", "blocked add: false", "blocked add: false")
		add(8)
		c.Flush()
		go stop()
		log.is(t, "add 8: false")

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Stop(ended); err != context.Canceled {
			t.Errorf("Stop returned %v, want that its context was canceled", err)
		}

		time.Sleep(time.Second)
		log.is(t, "flushed 1 2", "flush 3 4")
		time.Sleep(time.Second)
		log.is(t, "flushed 3 4", "stopped", "stopped")
		if err := c.Stop(ended); err != nil {
			t.Errorf("Stop returned %v though there is nothing to wait for", err)
		}
		add(9)
		c.Flush()
		time.Sleep(time.Hour)
		log.is(t, "add 9: false")
	})
}

func TestCollectorStopFlushes(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		c := collect(log.slowly)
		c.Add(1)
		c.Add(2)
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		log.is(t, "flush 1 2", "flushed 1 2")

		empty := collect(log.slowly)
		if err := empty.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		log.is(t)
	})
}

func TestCollectorStopContext(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		c := collect(log.slowly)
		c.Add(1)
		reason := errors.New("reason")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, reason)
		defer cancel()
		start := time.Now()
		if err := c.Stop(ctx); err != context.DeadlineExceeded || time.Since(start) != time.Second/2 {
			t.Errorf("Stop returned %v after %v", err, time.Since(start))
		}
		log.is(t, "flush 1")
		if err := c.Stop(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("Stop returned %v after %v", err, time.Since(start))
		}
		log.is(t, "flushed 1")
	})
}

func TestCollectorStopWithinFlush(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		var c batchCollector
		c = collect(func(values []int) {
			log.add("flush " + batchValues(values))
			if values[0] > 1 {
				return
			}
			c.Add(2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if err := c.Stop(ctx); err != context.DeadlineExceeded || time.Since(start) != time.Second {
				t.Errorf("Stop within flush returned %v after %v", err, time.Since(start))
			}
		})
		c.Add(1)
		c.Flush()
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		log.is(t, "flush 1", "flush 2")
	})
}

// What flush calls may be the collector itself, as long as there is room.
func TestCollectorAddWithinFlush(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute, MaxSize: 2}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		var c batchCollector
		c = collect(func(values []int) {
			log.add("flush " + batchValues(values))
			if values[0] < 5 {
				c.Add(values[0] + 2)
				c.Flush()
				c.Add(values[0] + 3)
			}
		})
		c.Add(1)
		c.Flush()
		log.is(t, "flush 1", "flush 3 4", "flush 5 6")
	})
}

// Once Stop has returned nothing runs, even after calls at the same moment.
func TestCollectorStopRaces(t *testing.T) {
	rounds := 20_000
	if testing.Short() || racetest.Factor > 1 {
		rounds = 2_000
	}
	opts := debounce.BatcherOptions{Delay: time.Millisecond, MaxSize: 2}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		for range rounds {
			var stopped atomic.Bool
			taken, flushed := 0, 0
			c := collect(func(values []int) {
				if stopped.Load() {
					t.Error("flush runs after Stop")
				}
				flushed += len(values)
			})
			for v := range 3 {
				if c.Add(v) {
					taken++
				}
			}
			// To the instant at which the alarm rings.
			time.Sleep(time.Millisecond)
			go c.Flush()
			if c.Add(3) {
				taken++
			}
			if err := c.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			stopped.Store(true)
			if flushed != taken {
				t.Fatalf("%d flushed of %d taken", flushed, taken)
			}
		}
		synctest.Wait()
	})
}
