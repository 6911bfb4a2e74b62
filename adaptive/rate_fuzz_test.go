package adaptive_test

import (
	"encoding/binary"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Whatever is taken, refused and restored at whatever instants, the rate stays within its
// bounds, a wait is exact, and no gate that lies ahead is passed.
func FuzzRate(f *testing.F) {
	f.Add(uint16(1), uint16(100), uint8(1), []byte("\x00\x00\x00\x00\x10\x00\x00\x00\x00\x01\x00\x00\x00\x20\x00\x00\x00\x00"))
	f.Add(uint16(60), uint16(1), uint8(9), []byte("\x02\xff\xff\xff\xff\xff\xff\xff\x7f\x03\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, floor, times uint16, burst uint8, ops []byte) {
		c := adaptive.RateConfig{
			Floor: limit.PerMinute(int(floor) + 1), Burst: int(burst%8) + 1, Seed: 1,
			Ceiling: limit.PerMinute((int(floor) + 1) * (int(times) + 1)),
		}
		r, err := adaptive.NewRate(c)
		if err != nil {
			t.Fatal(err)
		}
		first := r.StateAt(noon).Units
		now := noon
		for ; len(ops) >= 9; ops = ops[9:] {
			number := int64(binary.LittleEndian.Uint64(ops[1:9]))
			switch ops[0] % 6 {
			case 0:
				now = now.Add(time.Duration(uint64(number) % uint64(time.Minute)))
			case 1:
				now = now.Add(time.Duration(number))
			case 2:
				r.RefusedAt(now, adaptive.Refusal{RetryAfter: time.Duration(number), Reset: time.Duration(-number)})
				if number > 0 && number < int64(time.Hour) && r.TakeAt(now.Add(time.Duration(number-1)), 1).OK {
					t.Fatal("passed a gate")
				}
			case 3:
				r.RefusedAt(now, adaptive.Refusal{Sent: now.Add(time.Duration(number))})
			case 4:
				r.Restore(adaptive.RateState{Units: number, Knee: number >> 3, At: number << 5, Gate: number >> 2}, now)
			case 5:
				for range uint64(number) % 64 {
					checkTake(t, r, &now, 1+int(uint64(number)>>8%8))
				}
			}
			if units := r.StateAt(now).Units; units < first || units > first*(int64(times)+2) {
				t.Fatalf("%d units", units)
			}
		}
	})
}

// checkTake takes n units when they pass, and checks that they do then and not before.
func checkTake(t *testing.T, r *adaptive.Rate, now *time.Time, n int) {
	d := r.TakeAt(*now, n)
	if d.OK || d.Never || d.RetryAfter > 24*time.Hour {
		return
	}
	if d.RetryAfter < 1 {
		t.Fatalf("refused without a wait: %+v", d)
	}
	if early := r.TakeAt(now.Add(d.RetryAfter-1), n); early.OK {
		t.Fatalf("passes a nanosecond before %v", d.RetryAfter)
	}
	*now = now.Add(d.RetryAfter)
	if d := r.TakeAt(*now, n); !d.OK {
		t.Fatalf("does not pass when it should: %+v", d)
	}
}
