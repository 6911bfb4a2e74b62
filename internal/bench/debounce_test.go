package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	bep "github.com/bep/debounce"
)

// BenchmarkTrigger compares Trigger with a bare Timer.Reset, which is the least
// that a debouncer without a trick has to do, by what is to happen.
func BenchmarkTrigger(b *testing.B) {
	for name, opts := range map[string]debounce.Options{
		"trailing": {Delay: time.Hour},
		"leading":  {Delay: time.Hour, Leading: true},
		"maxwait":  {Delay: time.Hour, MaxWait: 2 * time.Hour},
		"running":  {Delay: 100 * time.Microsecond, MaxWait: time.Millisecond}, // the action runs now and then
	} {
		b.Run(name, func(b *testing.B) {
			timer := time.AfterFunc(time.Hour, func() {})
			defer timer.Stop()
			d := debounce.New(opts, func(int) {})
			defer d.Stop(context.Background())
			compareWith(b, "reset", func() { timer.Reset(time.Hour) }, func() { d.Trigger(1) })
		})
	}
}

// BenchmarkTriggerPeer compares Trigger with a call of bep/debounce.
func BenchmarkTriggerPeer(b *testing.B) {
	peer, action := bep.New(time.Hour), func() {}
	d := debounce.New(debounce.Options{Delay: time.Hour}, func(int) {})
	defer d.Stop(context.Background())
	defer d.Cancel()
	compareWith(b, "bep", func() { peer(action) }, func() { d.Trigger(1) })
}

// BenchmarkAdd compares Add with a bare Timer.Reset, by how many keys there are.
func BenchmarkAdd(b *testing.B) {
	for _, keys := range []int{1, 100, 10_000} {
		for name, merge := range map[string]func(old, new int) int{
			"replace": nil,
			"merge":   func(old, new int) int { return old + new },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, keys), func(b *testing.B) {
				timer := time.AfterFunc(time.Hour, func() {})
				defer timer.Stop()
				c := debounce.NewCoalescer(debounce.CoalescerOptions[int]{Delay: time.Hour, Merge: merge}, func(map[int]int) {})
				defer c.Stop(context.Background())
				for key := range keys {
					c.Add(key, 1)
				}
				key := 0
				compareWith(b, "reset", func() { timer.Reset(time.Hour) }, func() {
					c.Add(key, 1)
					if key++; key == keys {
						key = 0
					}
				})
			})
		}
	}
}
