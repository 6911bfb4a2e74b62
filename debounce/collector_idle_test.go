package debounce_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// batchGoroutines counts the goroutines of the bubble that are in the package.
// Those of another test, which has no bubble, may still be about to end.
func batchGoroutines() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	n := 0
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("synctest bubble")) && bytes.Contains(stack, []byte("go-ratelimit/debounce.")) {
			n++
		}
	}
	return n
}

func TestCollectorNoGoroutineWhileIdle(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute, MaxWait: time.Hour, MaxSize: 3}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if n := batchGoroutines(); n != want {
				t.Errorf("%s: %d goroutines, want %d", when, n, want)
			}
		}
		c := collect(func([]int) { time.Sleep(time.Second) })
		check("new", 0)
		c.Add(1)
		check("a value waits", 0)
		time.Sleep(time.Minute)
		check("a flush runs", 1)
		c.Add(2)
		check("a flush runs, and a value waits", 1)
		time.Sleep(time.Second)
		check("flushed", 0)
		c.Flush()
		check("flushed by Flush", 0)
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		check("stopped", 0)
	})
}

func TestCoalescerAddAllocates(t *testing.T) {
	for name, merge := range map[string]func(old, new int) int{
		"latest": nil,
		"merge":  func(old, new int) int { return old + new },
	} {
		t.Run(name, func(t *testing.T) {
			c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{Delay: time.Hour, Merge: merge}, func(map[string]int) {})
			c.Add("a", 1)
			if n := testing.AllocsPerRun(1000, func() { c.Add("a", 1) }); n != 0 {
				t.Errorf("Add on an existing key: %v allocations, want 0", n)
			}
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// batchBlob is something that is not allocated together with anything else.
type batchBlob struct{ _ [64]*int }

// Once it was flushed nothing keeps a key, a value or what they were in, though the
// collector is still in use.
func TestCollectorKeepsNothing(t *testing.T) {
	type blobs []weak.Pointer[batchBlob]
	flushes := map[string]func(c batchFlusher, flushed chan bool){
		"Flush": func(c batchFlusher, flushed chan bool) { c.Flush(); <-flushed },
		"size":  func(c batchFlusher, flushed chan bool) { <-flushed },
		"Stop": func(c batchFlusher, flushed chan bool) {
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			<-flushed
		},
	}
	// Each adds two keys or values, and more than once, if it can.
	collectors := map[string]func(maxSize int, flushed chan bool) (batchFlusher, func() blobs){
		"Coalescer": func(maxSize int, flushed chan bool) (batchFlusher, func() blobs) {
			c := debounce.NewCoalescer(debounce.CoalescerOptions[*batchBlob]{Delay: time.Hour, MaxSize: maxSize},
				func(map[*batchBlob]*batchBlob) { flushed <- true })
			return c, func() blobs {
				k1, k2, v1, v2, v3 := new(batchBlob), new(batchBlob), new(batchBlob), new(batchBlob), new(batchBlob)
				c.Add(k1, v1)
				c.Add(k1, v2)
				c.Add(k2, v3)
				return blobs{weak.Make(k1), weak.Make(k2), weak.Make(v1), weak.Make(v2), weak.Make(v3)}
			}
		},
		"Coalescer with Merge": func(maxSize int, flushed chan bool) (batchFlusher, func() blobs) {
			c := debounce.NewCoalescer(debounce.CoalescerOptions[*batchBlob]{
				Delay: time.Hour, MaxSize: maxSize,
				Merge: func(old, new *batchBlob) *batchBlob { return new },
			}, func(map[*batchBlob]*batchBlob) { flushed <- true })
			return c, func() blobs {
				k1, k2, v1, v2, v3 := new(batchBlob), new(batchBlob), new(batchBlob), new(batchBlob), new(batchBlob)
				c.Add(k1, v1)
				c.Add(k1, v2)
				c.Add(k2, v3)
				return blobs{weak.Make(k1), weak.Make(k2), weak.Make(v1), weak.Make(v2), weak.Make(v3)}
			}
		},
		"Batcher": func(maxSize int, flushed chan bool) (batchFlusher, func() blobs) {
			b := debounce.NewBatcher(debounce.BatcherOptions{Delay: time.Hour, MaxSize: maxSize},
				func([]*batchBlob) { flushed <- true })
			return b, func() blobs {
				v1, v2 := new(batchBlob), new(batchBlob)
				b.Add(v1)
				b.Add(v2)
				return blobs{weak.Make(v1), weak.Make(v2)}
			}
		},
	}
	for by, flush := range flushes {
		for name, collect := range collectors {
			t.Run(fmt.Sprint(name, " by ", by), func(t *testing.T) {
				maxSize := 0
				if by == "size" {
					maxSize = 2
				}
				flushed := make(chan bool, 1)
				c, add := collect(maxSize, flushed)
				kept := add()
				if by != "size" {
					runtime.GC()
					if kept[len(kept)-1].Value() == nil {
						t.Error("gone before it was flushed")
					}
				}
				flush(c, flushed)
				for i, blob := range kept {
					// A few times, for stacks on which it may still lie.
					for tries := 0; blob.Value() != nil && tries < 100; tries++ {
						runtime.Gosched()
						runtime.GC()
					}
					if blob.Value() != nil {
						t.Errorf("blob %d of %d is still there", i, len(kept))
					}
				}
				runtime.KeepAlive(c)
			})
		}
	}
}
