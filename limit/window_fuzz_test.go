package limit_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// With any parameters and requests, a limiter in a window does not panic, Remaining is
// within the limit, Never is set exactly for requests that can never pass, and a request
// passes after RetryAfter, and not before.
func FuzzWindows(f *testing.F) {
	f.Add(3, int64(time.Second), []byte("0123456789012345678901234567890123456789"))
	f.Add(math.MaxInt, int64(1)<<60, []byte("\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00\x00\x00\x00\x00\x00\x80"))
	f.Add(1, int64(1), make([]byte, 170))
	f.Add(0, int64(0), []byte{})
	f.Add(math.MinInt, int64(math.MinInt64), []byte{1})
	f.Fuzz(func(t *testing.T, most int, window int64, script []byte) {
		for _, kind := range windowKinds {
			l, err := kind.make(most, time.Duration(window))
			if valid := most > 0 && window > 0 && window <= 1<<60; !valid {
				if l != nil || !errors.Is(err, limit.ErrInvalid) {
					t.Fatalf("%s of %d in %d: %v", kind.name, most, window, err)
				}
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			fuzzWindow(t, kind.name, l, most, window, script)
		}
	})
}

// fuzzWindow plays a script of steps of 17 bytes: what to do, the instant and the units.
func fuzzWindow(t *testing.T, name string, l windowLimiter, most int, window int64, script []byte) {
	type hold struct {
		limit.Hold
		n int
	}
	var open []hold
	held := 0
	now := time.Unix(0, 0)
	for ; len(script) >= 17; script = script[17:] {
		instant, units := int64(binary.LittleEndian.Uint64(script[1:])), int64(binary.LittleEndian.Uint64(script[9:]))
		switch script[0] >> 4 % 4 {
		case 0:
			now = time.Unix(instant, units%1e9)
		case 1:
			now = now.Add(time.Duration(instant))
		default:
			now = now.Add(time.Duration(instant % window))
		}
		n := int(units)
		if script[0]&1 == 0 && most < math.MaxInt-2 {
			n %= most + 2
		}
		if script[0]&2 == 0 && len(open) > 0 {
			h := open[0]
			open, held = open[1:], held-h.n
			if script[0]&4 == 0 {
				h.Commit()
			} else {
				h.Cancel()
			}
		}
		var d limit.Decision
		if script[0]&8 == 0 {
			d = l.TakeAt(now, n)
		} else {
			var h limit.Hold
			if h, d = l.HoldAt(now, n); d.OK && n > 0 {
				open, held = append(open, hold{h, n}), held+n
			}
		}
		never := n < 0 || n > most
		waits := !d.OK && !never && n <= most-held
		if d.Never != never || d.OK && never || d.Remaining < 0 || d.Remaining > most-held ||
			(d.RetryAfter > 0) != waits || d.ResetAfter < 0 {
			t.Fatalf("%s of %d in %d, %d on hold, %d units at %v: %+v", name, most, window, held, n, now, d)
		}
		// What is further off than a Duration, or the times of package time, cannot be tried.
		if !waits || d.RetryAfter == math.MaxInt64 || now.Unix() > 1<<62 || now.Unix() < -1<<62 {
			continue
		}
		now = now.Add(d.RetryAfter)
		if early := l.TakeAt(now.Add(-1), n); early.OK || early.RetryAfter != 1 {
			t.Fatalf("%s of %d in %d, %d on hold, %d units: %+v, but a nanosecond earlier %+v", name, most, window, held, n, d, early)
		}
		if late := l.TakeAt(now, n); !late.OK {
			t.Fatalf("%s of %d in %d, %d on hold, %d units: %+v, but then %+v", name, most, window, held, n, d, late)
		}
	}
}
