package debounce_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

func batchValues(values []int) string { return strings.Trim(fmt.Sprint(values), "[]") }

func TestCollectorFlush(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		c := collect(log.slowly)
		flush := func() {
			c.Flush()
			log.add("returned")
		}

		flush() // nothing
		log.is(t, "returned")

		c.Add(1)
		c.Add(2)
		flush()
		log.is(t, "flush 1 2", "flushed 1 2", "returned")

		c.Add(3)
		go flush()
		log.is(t, "flush 3")
		flush() // nothing, while a flush runs
		c.Add(4)
		flush()
		c.Add(5) // into the batch that is to follow
		log.is(t, "returned", "returned")
		time.Sleep(time.Second)
		log.sort()
		log.is(t, "flush 4 5", "flushed 3", "returned")
		time.Sleep(time.Second)
		log.is(t, "flushed 4 5")

		time.Sleep(time.Hour)
		log.is(t) // the minute of what was flushed is forgotten
		c.Add(6)
		time.Sleep(time.Minute - 1)
		log.is(t)
		time.Sleep(time.Nanosecond)
		log.is(t, "flush 6")
		time.Sleep(time.Second)
		log.is(t, "flushed 6")
	})
}

// Flush does not return before what was added to a batch whose flush is about to
// begin elsewhere.
func TestCollectorFlushOfFullBatch(t *testing.T) {
	opts := debounce.BatcherOptions{Delay: time.Minute, MaxSize: 2}
	batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
		flushed := make([]int, 4000)
		c := collect(func(values []int) {
			for _, v := range values {
				flushed[v]++
			}
		})
		for v := 0; v < len(flushed); v += 4 {
			c.Add(v)
			c.Add(v + 1) // starts a goroutine
			c.Flush()
			synctest.Wait()
			c.Add(v + 2)
			c.Flush()
			if flushed[v] != 1 || flushed[v+1] != 1 || flushed[v+2] != 1 {
				t.Fatalf("from %d: flushed %v times", v, flushed[v:v+3])
			}
		}
	})
}

// While a flush runs Flush returns at once, though others wait for room; it would
// wait for itself, were it called within the flush.
func TestCoalescerFlushPassesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log batchLog
		c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{
			Delay:   time.Minute,
			MaxSize: 2,
			Merge: func(old, new int) int {
				time.Sleep(time.Second)
				return old + new
			},
		}, func(batch map[string]int) {
			log.add(batchString(0, batch))
			time.Sleep(10 * time.Second)
		})
		c.Add("a", 1)
		c.Add("b", 1) // a flush of 10 s
		c.Add("c", 1)
		for _, key := range []string{"c", "d", "e", "f"} { // one merges, one fits, two have to wait
			go c.Add(key, 2)
			synctest.Wait()
		}
		go func() {
			c.Flush()
			log.add("Flush returned")
		}()
		log.is(t, "0 a=1 b=1")
		time.Sleep(time.Second)
		log.is(t, "Flush returned")
		time.Sleep(time.Hour)
		log.is(t, "0 c=3 d=2", "0 e=2 f=2")
	})
}

func TestCollectorPanic(t *testing.T) {
	for _, by := range []string{"time", "size", "Flush", "Stop"} {
		t.Run(by, func(t *testing.T) {
			var log batchLog
			opts := debounce.BatcherOptions{Delay: time.Minute, MaxSize: 3, OnPanic: func(p any) {
				log.add(fmt.Sprint("panic ", p))
				time.Sleep(time.Second)
				log.add("reported")
			}}
			batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
				var c batchCollector
				c = collect(func(values []int) {
					if values[0] == 1 {
						c.Add(3) // from within, what is to be flushed next
						panic(values[0])
					}
					log.add("flush " + batchValues(values))
				})
				c.Add(1)
				switch by {
				case "time":
					time.Sleep(time.Minute)
				case "size":
					c.Add(4)
					c.Add(5)
				case "Flush":
					go c.Flush()
				case "Stop":
					go func() {
						if err := c.Stop(t.Context()); err != nil {
							t.Errorf("Stop: %v", err)
						}
						log.add("stopped")
					}()
				}
				log.is(t, "panic 1")
				if by == "Stop" {
					time.Sleep(time.Second)
					log.is(t, "reported", "stopped")
					return
				}
				c.Flush()
				log.is(t) // the panic is still being reported
				time.Sleep(time.Second)
				log.is(t, "reported", "flush 3")
			})
		})
	}
}

// Without OnPanic the caller of Flush has the panic, as with any function.
func TestCollectorPanicReachesFlush(t *testing.T) {
	batchCollectors(t, debounce.BatcherOptions{Delay: time.Minute}, func(t *testing.T, collect func(func([]int)) batchCollector) {
		var log batchLog
		bad := true
		c := collect(func(values []int) {
			log.add("flush " + batchValues(values))
			if bad {
				bad = false
				panic("bad")
			}
		})
		c.Add(1)
		if p := batchPanic(c.Flush); p != "bad" {
			t.Errorf("Flush panicked with %v, want bad", p)
		}
		c.Add(2)
		c.Flush()
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		log.is(t, "flush 1", "flush 2")
	})
}

// A flush that ends its goroutine, as t.FailNow does, ends itself and nothing more.
func TestCollectorGoexit(t *testing.T) {
	onPanics := map[string]func(any){
		"OnPanic":    func(p any) { t.Errorf("OnPanic(%v)", p) },
		"no OnPanic": nil,
	}
	for name, onPanic := range onPanics {
		t.Run(name, func(t *testing.T) {
			opts := debounce.BatcherOptions{Delay: time.Minute, OnPanic: onPanic}
			batchCollectors(t, opts, func(t *testing.T, collect func(func([]int)) batchCollector) {
				var log batchLog
				c := collect(func(values []int) {
					log.add("flush " + batchValues(values))
					runtime.Goexit()
				})
				c.Add(1)
				time.Sleep(time.Minute)
				log.is(t, "flush 1")
				c.Add(2)
				go func() {
					c.Flush()
					log.add("returned")
				}()
				log.is(t, "flush 2")
				c.Add(3)
				if err := c.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				log.is(t, "flush 3")
			})
		})
	}
}
