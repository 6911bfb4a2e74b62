package adaptive_test

import (
	"encoding/binary"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
)

// Whatever is taken and given back, in whatever order and however often, exactly the slots that
// were not given back are in flight, and no more are given out than the limit is.
func FuzzConcurrency(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x01\x00\x01\x00\x02\x00\x03\x10\x00\x00\x00\x01\x00"))
	f.Add([]byte{0, 0, 0, 2, 2, 0, 4, 255, 0, 1, 3, 200, 0, 0, 5, 1, 0, 0, 1, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		c := newConcurrency(t, func(c *adaptive.ConcurrencyConfig) { c.Floor, c.Ceiling, c.Start = 2, 16, 4 })
		now := noon
		var slots []adaptive.Slot
		held := map[adaptive.Slot]bool{}
		for ; len(ops) >= 2; ops = ops[2:] {
			number := int(ops[1])
			switch ops[0] % 6 {
			case 0:
				limit := c.Limit()
				s, ok := c.TryAcquireAt(now)
				if ok && (held[s] || len(held) >= limit) {
					t.Fatalf("a slot more than %d, limit %d", len(held), limit)
				}
				if ok {
					slots, held[s] = append(slots, s), true
				}
			case 1:
				if len(slots) > 0 {
					s := slots[number%len(slots)]
					s.ReleaseAt(now)
					delete(held, s)
				}
			case 2:
				if len(slots) > 0 {
					s := slots[number%len(slots)]
					if lowered := s.OverloadedAt(now, time.Duration(number%3)*time.Millisecond); lowered && !held[s] {
						t.Fatal("a slot that was given back lowered the limit")
					}
					delete(held, s)
				}
			case 3:
				now = now.Add(time.Duration(number) * 20 * time.Millisecond)
			case 4:
				now = now.Add(-time.Duration(number) << (number % 56))
			case 5:
				if len(ops) >= 9 {
					n := int64(binary.LittleEndian.Uint64(ops[1:9]))
					c.Restore(adaptive.ConcurrencyState{Slots: n, Knee: n << 1, At: n >> 1}, now)
				}
			}
			if c.InFlight() != len(held) || c.Limit() < 2 || c.Limit() > 16 {
				t.Fatalf("%d in flight, want %d; limit %d", c.InFlight(), len(held), c.Limit())
			}
		}
	})
}
