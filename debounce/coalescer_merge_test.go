package debounce_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// One call at a time, each with what the last one left, and in the order in which
// values were added: the race detector and the values tell.
func TestCoalescerMergeMayChangeOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const adders, each = 8, 500
		merges := 0 // without a lock
		var got []map[string][]int
		c := debounce.NewCoalescer(debounce.CoalescerOptions[[]int]{
			Delay: time.Minute,
			Merge: func(old, new []int) []int {
				merges++
				if merges%100 == 0 {
					time.Sleep(time.Millisecond)
				}
				return append(old, new...)
			},
		}, func(batch map[string][]int) { got = append(got, batch) })
		var adding sync.WaitGroup
		for a := range adders {
			adding.Go(func() {
				for i := range each {
					key := "even"
					if i%2 == 1 {
						key = "odd"
					}
					if !c.Add(key, []int{a*each + i}) {
						t.Error("not taken")
					}
				}
			})
		}
		adding.Wait()
		c.Flush()
		if len(got) != 1 || len(got[0]) != 2 {
			t.Fatalf("batches %v, want one with two keys", got)
		}
		for odd, key := range []string{"even", "odd"} {
			values := got[0][key]
			next := make([]int, adders)
			for a := range next {
				next[a] = odd
			}
			for _, v := range values {
				a, i := v/each, v%each
				if i != next[a] {
					t.Fatalf("%s: value %d of adder %d after %d", key, i, a, next[a]-2)
				}
				next[a] += 2
			}
			if len(values) != adders*each/2 {
				t.Errorf("%s: %d values, want %d", key, len(values), adders*each/2)
			}
		}
		if want := adders*each - 2; merges != want {
			t.Errorf("%d merges, want %d", merges, want)
		}
	})
}

func TestCoalescerMergePanics(t *testing.T) {
	const second = time.Second
	// Each is called within a merge, half a second before it panics.
	during := map[string]func(t *testing.T, c *debounce.Coalescer[string, int]){
		"nothing": func(*testing.T, *debounce.Coalescer[string, int]) {},
		"an Add waits": func(t *testing.T, c *debounce.Coalescer[string, int]) {
			if !c.Add("b", 7) {
				t.Error("not taken")
			}
		},
		"Flush waits": func(t *testing.T, c *debounce.Coalescer[string, int]) { c.Flush() },
		"Stop waits": func(t *testing.T, c *debounce.Coalescer[string, int]) {
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		},
	}
	want := map[string]string{
		"nothing":      "[5 a=1]", // an Add that fails is none
		"an Add waits": "[6 a=1 b=7]",
		"Flush waits":  "[1 a=1]",
		"Stop waits":   "[1 a=1]",
	}
	for name, f := range during {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var got []string
				c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
					Delay: 5 * second,
					Merge: func(old, new int) int {
						if new == 0 {
							time.Sleep(second)
							panic("merge")
						}
						return old + new
					},
				}, func(batch map[string]int) {
					got = append(got, batchString(time.Since(start)/second*time.Millisecond, batch))
				})
				c.Add("a", 1)
				go func() {
					time.Sleep(time.Second / 2)
					f(t, c)
				}()
				if p := batchPanic(func() { c.Add("a", 0) }); p != "merge" {
					t.Errorf("Add panicked with %v, want merge", p)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if fmt.Sprint(got) != want[name] {
					t.Errorf("batches %v, want %v", got, want[name])
				}
				if name == "Stop waits" {
					return
				}
				got = nil
				c.Add("a", 1)
				c.Add("a", 2)
				c.Flush()
				if want := "[61 a=3]"; fmt.Sprint(got) != want {
					t.Errorf("afterwards %v, want %v", got, want)
				}
			})
		})
	}
}

// A Merge that never ends is a bug of the caller; it must not stop calls that wait for a
// limited time, or for something else.
func TestCoalescerMergeStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log batchLog
		free := make(chan bool)
		c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
			Delay: time.Minute,
			Merge: func(old, new int) int {
				<-free
				return old + new
			},
		}, func(batch map[string]int) {
			log.add("flush" + batchString(0, batch)[1:])
			time.Sleep(time.Second)
			log.add("flushed" + batchString(0, batch)[1:])
		})
		add := func(key string, value int) {
			log.add(fmt.Sprintf("add %s %d: %t", key, value, c.Add(key, value)))
		}
		c.Add("a", 1)
		go func() {
			c.Flush()
			log.add("Flush returned")
		}()
		log.is(t, "flush a=1")
		c.Add("b", 1)
		go add("b", 2) // is stuck
		synctest.Wait()
		go add("c", 3) // waits for that
		time.Sleep(time.Second)
		log.is(t, "flushed a=1", "Flush returned")

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if err := c.Stop(ctx); err != context.DeadlineExceeded || time.Since(start) != time.Hour {
			t.Errorf("Stop returned %v after %v", err, time.Since(start))
		}
		log.is(t, "add c 3: false")

		close(free)
		log.sort()
		log.is(t, "add b 2: true", "flush b=3")
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		log.is(t, "flushed b=3")
	})
}

// A merge holds up other Adds, but a batch that is due meanwhile is flushed with the merged
// value as soon as there is one.
func TestCoalescerDueDuringMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var got []string
		c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
			Delay:   2 * time.Second,
			MaxWait: 3 * time.Second,
			Merge: func(old, new int) int {
				time.Sleep(2 * time.Second)
				return old + new
			},
		}, func(batch map[string]int) {
			got = append(got, batchString(time.Since(start), batch))
		})
		c.Add("a", 1)
		time.Sleep(1500 * time.Millisecond)
		c.Add("a", 2) // until 3500
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"3500 a=3"}; !slices.Equal(got, want) {
			t.Errorf("batches %q, want %q", got, want)
		}
	})
}
