package debounce_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// batchCollector is a Coalescer that has each value for a key, or a Batcher.
type batchCollector struct {
	Add   func(v int) bool
	Flush func()
	Stop  func(context.Context) error
}

// batchCollectors run a test for each kind, in a bubble of its own.
func batchCollectors(t *testing.T, opts debounce.BatcherOptions, test func(t *testing.T, collect func(flush func([]int)) batchCollector)) {
	coalescer := func(merge func(old, new int) int) func(flush func([]int)) batchCollector {
		return func(flush func([]int)) batchCollector {
			c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
				Delay: opts.Delay, MaxWait: opts.MaxWait, MaxSize: opts.MaxSize, OnPanic: opts.OnPanic, Merge: merge,
			}, func(batch map[int]int) {
				values := []int{}
				for _, v := range batch {
					values = append(values, v)
				}
				slices.Sort(values)
				flush(values)
			})
			return batchCollector{func(v int) bool { return c.Add(v, v) }, c.Flush, c.Stop}
		}
	}
	kinds := map[string]func(flush func([]int)) batchCollector{
		"Coalescer":            coalescer(nil),
		"Coalescer with Merge": coalescer(func(_, new int) int { return new }),
		"Batcher": func(flush func([]int)) batchCollector {
			b := debounce.NewBatcher(opts, flush)
			return batchCollector{b.Add, b.Flush, b.Stop}
		},
	}
	for name, collect := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, collect) })
		})
	}
}

// batchFlusher is what a Coalescer and a Batcher have in common.
type batchFlusher interface {
	Flush()
	Stop(context.Context) error
}

// batchLog has what happened, in order.
type batchLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *batchLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// is checks what happened since the last time.
func (l *batchLog) is(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("happened:\n  %s\nwant:\n  %s", strings.Join(l.lines, "\n  "), strings.Join(want, "\n  "))
	}
	l.lines = nil
}

// sort is for when two things happen together.
func (l *batchLog) sort() {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.lines)
}

// slowly logs both ends of a flush that takes a second.
func (l *batchLog) slowly(values []int) {
	l.add("flush " + batchValues(values))
	time.Sleep(time.Second)
	l.add("flushed " + batchValues(values))
}
