package limit_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Compared with a model that never forgets a key: the decisions are the same, except that a
// new key is refused while no limiter has recovered.
func TestKeyedOracle(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 6))
	const keys, most, burst, interval = 9, 4, 4, 10
	k := keyed[int](t, most, 60, limit.Every(interval), burst)
	type state struct {
		tat  int64
		held int
		open []limit.Hold
	}
	var model [keys]state
	at := int64(0)
	full := 0
	for i := range manyDecisions() {
		at += random.Int64N(9)
		if random.IntN(500) == 0 {
			at += 200
		}
		now := setStart.Add(time.Duration(at))
		key, n := random.IntN(keys), random.IntN(burst+2)
		m := &model[key]
		if len(m.open) > 0 && random.IntN(3) == 0 {
			m.open[0].Cancel()
			m.open[0].Commit()
			m.open, m.held = m.open[1:], m.held-1
			continue
		}
		busy, first := 0, int64(math.MaxInt64)
		for _, o := range model {
			if o.held > 0 || o.tat > at {
				busy++
			}
			if o.held == 0 && o.tat > at {
				first = min(first, o.tat-at)
			}
		}
		var want limit.Decision
		filled, room := max(m.tat, at), int64(burst-m.held)*interval
		switch isNew := m.held == 0 && m.tat <= at; {
		case isNew && busy == most && n > 0:
			full++
			if first < math.MaxInt64 {
				want.RetryAfter = time.Duration(first)
			}
		case isNew && busy == most:
			want.OK = true
		default:
			want.Never = n > burst
			want.OK = n <= burst && filled+int64(n)*interval-at <= room
			if !want.OK && n <= burst-m.held {
				want.RetryAfter = time.Duration(filled + int64(n)*interval - at - room)
			}
			if want.OK {
				filled += int64(n) * interval
			}
			want.Remaining = int(max(0, room-(filled-at)) / interval)
			want.ResetAfter = time.Duration(filled - at)
		}
		if n == 1 && random.IntN(4) == 0 {
			hold, got, err := k.HoldAt(key, now, 1)
			if err != nil || got.OK != want.OK || got.RetryAfter != want.RetryAfter || got.Remaining != want.Remaining {
				t.Fatalf("decision %d, hold for %d: %+v, want %+v; %v", i, key, got, want, err)
			}
			switch {
			case !got.OK:
			case random.IntN(2) == 0:
				hold.Commit()
				m.tat = max(m.tat, at) + interval
			default:
				m.open, m.held = append(m.open, hold), m.held+1
			}
		} else {
			if got := mustTake(t, k, key, now, n); got != want {
				t.Fatalf("decision %d, %d for %d: %+v, want %+v", i, n, key, got, want)
			}
			if want.OK && n > 0 {
				m.tat = max(m.tat, at) + int64(n)*interval
			}
		}
		if k.Len() > most {
			t.Fatalf("decision %d: %d keys", i, k.Len())
		}
	}
	if full < 1000 {
		t.Errorf("it was full %d times only", full)
	}
}

// A million keys neither fill a Keyed beyond its most nor give one key its limit back.
func TestKeyedUnderAttack(t *testing.T) {
	t.Parallel()
	const most = 1000
	k, err := limit.NewKeyed(most, time.Minute, func(key int) (limit.Limiter, error) {
		if key == 0 {
			return limit.NewGCRA(limit.Every(24*time.Hour), 3)
		}
		return limit.NewGCRA(limit.Every(time.Second), 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	victim, others := 0, 0
	attempts := manyDecisions()
	for i := range attempts {
		now := setStart.Add(time.Duration(i) * 500 * time.Microsecond)
		if mustTake(t, k, 1+i, now, 1).OK {
			others++
		}
		if i%100 == 99 && mustTake(t, k, 0, now, 1).OK {
			victim++
		}
		if k.Len() > most {
			t.Fatalf("%d keys", k.Len())
		}
	}
	if victim != 3 {
		t.Errorf("%d passed for one key, want 3", victim)
	}
	if seconds := attempts / 2000; others > most*(seconds+1) || others < (most-1)*seconds {
		t.Errorf("%d new keys were let in, want about %d a second for %d s", others, most, seconds)
	}
}

func FuzzKeyed(f *testing.F) {
	f.Add(2, int64(60), []byte{1, 2, 3, 130, 7, 9, 255, 0, 4, 1}, int64(7))
	f.Add(1, int64(1), []byte{1, 1, 2, 2, 3, 3, 1, 1}, int64(math.MaxInt64))
	f.Add(3, int64(math.MaxInt64), []byte{9, 200, 7, 100, 5}, int64(math.MinInt64))
	f.Add(26, int64(math.MaxInt64), []byte("XAAA00A0AAAA0A00000\xc800"), int64(math.MinInt64+28))
	f.Fuzz(func(t *testing.T, most int, idle int64, steps []byte, scale int64) {
		k, err := limit.NewKeyed(most, time.Duration(idle), func(int) (limit.Limiter, error) {
			return limit.NewGCRA(limit.Every(1e9), 3)
		})
		if err != nil {
			if k != nil || !errors.Is(err, limit.ErrInvalid) || most > 0 && idle > 0 {
				t.Fatal(err)
			}
			return
		}
		at := int64(0)
		for _, b := range steps {
			at += int64(b>>5) * scale
			key, n, now := int(b&7), int(b>>3&7)-1, time.Unix(at, at)
			d := mustTake(t, k, key, now, n)
			if d.Remaining < 0 || d.Remaining > 3 || d.RetryAfter < 0 || d.ResetAfter < 0 || k.Len() > most ||
				n == 0 && !d.OK || n < 0 && !d.Never || d.OK && d.RetryAfter != 0 {
				t.Fatalf("%d for %d at %v: %+v", n, key, now, d)
			}
			// Instants that lie further apart than anything lasts count as nearer.
			near := scale>>40 == scale>>41 && len(steps) < 1000
			if near && n == 1 && !d.OK && d.RetryAfter > 0 {
				if early := mustTake(t, k, key, now.Add(d.RetryAfter-1), 1); early.OK {
					t.Fatalf("%d for %d at %v: not exact: %+v", n, key, now, d)
				}
				if !mustTake(t, k, key, now.Add(d.RetryAfter), 1).OK {
					t.Fatalf("%d for %d at %v: refused in time: %+v", n, key, now, d)
				}
			}
		}
	})
}
