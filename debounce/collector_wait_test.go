package debounce_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// However many wait, in Add and in Flush, all get through; if one were forgotten
// the bubble would report a deadlock.
func TestCollectorNobodyIsForgotten(t *testing.T) {
	const adders, each = 40, 50
	slow := func(n int) time.Duration { return time.Duration(n%3) * time.Millisecond }
	for maxSize := 1; maxSize <= 3; maxSize++ {
		for _, merge := range []string{"no", "fast", "slow", "panicking"} {
			t.Run(fmt.Sprintf("MaxSize %d, %s Merge", maxSize, merge), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					merges, flushes, sum := 0, 0, 0
					opts := debounce.CoalescerOptions[int]{Delay: time.Minute, MaxSize: maxSize}
					if merge != "no" {
						opts.Merge = func(old, new int) int {
							merges++
							if merge != "fast" {
								time.Sleep(slow(merges))
							}
							if merge == "panicking" && merges%3 == 0 {
								panic("merge")
							}
							return old + new
						}
					}
					c := debounce.NewCoalescer(opts, func(batch map[int]int) {
						if len(batch) > maxSize {
							t.Errorf("a batch of %d", len(batch))
						}
						for _, v := range batch {
							sum += v
						}
						flushes++
						time.Sleep(slow(flushes))
					})
					var all sync.WaitGroup
					for a := range adders {
						all.Go(func() {
							for i := range each {
								if p := batchPanic(func() { c.Add((a+i)%4, 1) }); p != nil && p != "merge" {
									t.Error(p)
								}
								if i%10 == a%10 {
									c.Flush()
								}
							}
						})
					}
					all.Wait()
					if err := c.Stop(t.Context()); err != nil {
						t.Error(err)
					}
					switch merge {
					case "fast", "slow":
						if sum != adders*each {
							t.Errorf("sum %d, want %d", sum, adders*each)
						}
					case "panicking":
						if want := adders*each - merges/3; sum != want {
							t.Errorf("sum %d, want %d", sum, want)
						}
					}
				})
			})
		}
	}
}

// One place is for one: the others go on waiting, and get their turn.
func TestCollectorRoomForOneAtATime(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute, MaxSize: 1}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		c := collect(func(values []int) {
			log.add("flush")
			time.Sleep(time.Second)
		})
		c.Add(0)
		c.Add(1)
		for v := range 5 {
			go func() {
				c.Add(2 + v)
				log.add("added")
			}()
		}
		log.is(t, "flush")
		for range 5 {
			time.Sleep(time.Second)
			log.sort()
			log.is(t, "added", "flush")
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		log.is(t, "flush")
	})
}

// Waiting Adds are let in in the order in which they came.
func TestCollectorAddsByTurn(t *testing.T) {
	for _, size := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			var got []int
			b := debounce.NewBatcher(debounce.BatcherOptions{Delay: time.Hour, MaxSize: size}, func(batch []int) {
				got = append(got, batch...)
				time.Sleep(time.Second)
			})
			var want []int
			for v := range 30 {
				want = append(want, v)
				go b.Add(v)
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			if err := b.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("MaxSize %d: got %v, want them in order", size, got)
			}
		})
	}
}
