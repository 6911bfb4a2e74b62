package debounce_test

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// A million concurrent Adds, with a Stop in the middle: an accepted value is in one batch,
// a refused one in none.
func TestCollectorMillionAdds(t *testing.T) {
	const adders = 16
	adds := 1_000_000
	if testing.Short() || racetest.Factor > 1 {
		adds = 100_000
	}
	const delay, maxWait, maxSize = time.Millisecond, 5 * time.Millisecond, 50
	// Each returns Add, and what Flush and Stop are of.
	tests := map[string]func(flush func(size int, values []int)) (func(v int) bool, batchFlusher){
		"Batcher": func(flush func(int, []int)) (func(int) bool, batchFlusher) {
			b := debounce.NewBatcher(debounce.BatcherOptions{Delay: delay, MaxWait: maxWait, MaxSize: maxSize},
				func(batch []int) { flush(len(batch), batch) })
			return b.Add, b
		},
		"Coalescer": func(flush func(int, []int)) (func(int) bool, batchFlusher) {
			c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{Delay: delay, MaxWait: maxWait, MaxSize: maxSize},
				func(batch map[int]int) { flush(len(batch), slices.Collect(maps.Values(batch))) })
			return func(v int) bool { return c.Add(v, v) }, c
		},
		// More keys than a batch may have, and merges that sometimes take their time.
		"Coalescer with Merge": func(flush func(int, []int)) (func(int) bool, batchFlusher) {
			merges := 0
			c := debounce.NewCoalescer(debounce.CoalescerOptions[[]int]{
				Delay: delay, MaxWait: maxWait, MaxSize: maxSize,
				Merge: func(old, new []int) []int {
					if merges++; merges%1000 == 0 {
						time.Sleep(time.Millisecond)
					}
					return append(old, new...)
				},
			}, func(batch map[int][]int) { flush(len(batch), slices.Concat(slices.Collect(maps.Values(batch))...)) })
			return func(v int) bool { return c.Add(v%(2*maxSize), []int{v}) }, c
		},
	}
	for name, collect := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taken, flushed := make([]bool, adds), make([]int, adds)
				flushes := 0
				var running, stopped atomic.Bool
				add, c := collect(func(size int, values []int) {
					if !running.CompareAndSwap(false, true) {
						t.Error("two flushes at a time")
					}
					defer running.Store(false)
					if stopped.Load() {
						t.Error("a flush after Stop")
					}
					if size == 0 || size > maxSize {
						t.Errorf("a batch of %d", size)
					}
					for _, v := range values {
						flushed[v]++
					}
					if flushes++; flushes%10 == 0 {
						time.Sleep(2 * time.Millisecond)
					}
				})
				var begun atomic.Int64
				var all sync.WaitGroup
				for a := range adders {
					all.Go(func() {
						for v := a; v < adds; v += adders {
							switch n := begun.Add(1); {
							case n == int64(adds)/2:
								all.Go(func() {
									if err := c.Stop(t.Context()); err != nil {
										t.Error(err)
									}
									stopped.Store(true)
								})
							case n%1000 == 0:
								c.Flush()
							case n%1500 == 0:
								time.Sleep(delay) // together with the alarm
							}
							taken[v] = add(v)
						}
					})
				}
				all.Wait()
				yes := 0
				for v := range taken {
					want := 0
					if taken[v] {
						want = 1
						yes++
					}
					if flushed[v] != want {
						t.Fatalf("value %d is in %d batches, want %d", v, flushed[v], want)
					}
				}
				if yes < adds/4 || yes == adds {
					t.Errorf("%d of %d were taken: Stop was not in the middle", yes, adds)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
			})
		})
	}
}

// Few keys that everybody adds to: the sums agree.
func TestCoalescerMillionSums(t *testing.T) {
	const adders, keys = 16, 5
	adds := 1_000_000
	if testing.Short() || racetest.Factor > 1 {
		adds = 100_000
	}
	synctest.Test(t, func(t *testing.T) {
		var got [keys]int
		var taken [adders][keys]int
		c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
			Delay: time.Millisecond, MaxWait: 5 * time.Millisecond, MaxSize: keys - 1,
			Merge: func(old, new int) int { return old + new },
		}, func(batch map[int]int) {
			if len(batch) > keys-1 {
				t.Errorf("a batch of %d", len(batch))
			}
			for key, sum := range batch {
				got[key] += sum
			}
		})
		var begun atomic.Int64
		var all sync.WaitGroup
		for a := range adders {
			all.Go(func() {
				for v := a; v < adds; v += adders {
					if begun.Add(1) == int64(adds)/2 {
						all.Go(func() {
							if err := c.Stop(t.Context()); err != nil {
								t.Error(err)
							}
						})
					}
					if key := v % keys; c.Add(key, v) {
						taken[a][key] += v
					}
				}
			})
		}
		all.Wait()
		var want [keys]int
		for _, sums := range taken {
			for key, sum := range sums {
				want[key] += sum
			}
		}
		if got != want {
			t.Errorf("flushed %v, taken %v", got, want)
		}
	})
}
