// What a sliding counter gives up in one process, where the source documents have other figures
// (SEED-ERRORS E3, E5, E6).

package keyedoracle_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// epoch begins a cell of all windows that divide a day.
var epoch = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// Of 100 requests in the first second, 100 in a tenth of one after 2 s, and 200 in that after 3 s,
// 300 pass at 100 a second. The cell before 2 s is empty, so that all of the second hundred pass.
func TestWorkloadOfTheSource(t *testing.T) {
	lim := newLimiter(t, keyed.Options{})
	r := keyed.Request{Namespace: "n", Key: "k", Limit: 100, Window: time.Second, Cost: 1}
	for _, c := range []struct {
		from, apart time.Duration
		n, want     int
	}{{0, 10 * time.Millisecond, 100, 100}, {2 * time.Second, time.Millisecond, 100, 100}, {3 * time.Second, 5 * time.Millisecond, 200, 100}} {
		admitted := 0
		for i := range c.n {
			if take(t, lim, epoch.Add(c.from+time.Duration(i)*c.apart), r).OK {
				admitted++
			}
		}
		if admitted != c.want {
			t.Errorf("from %v: %d admitted, want %d", c.from, admitted, c.want)
		}
	}
}

// A cell of the calendar never holds more than the limit. Any other window holds up to twice that,
// and the worst comes if a cell is used up in its last moment: twice, and not one and a half
// times.
func TestWorstWindow(t *testing.T) {
	const limit, window = 100, time.Second
	lim := newLimiter(t, keyed.Options{})
	r := keyed.Request{Namespace: "n", Key: "k", Limit: limit, Window: window, Cost: 1}
	var admitted []time.Duration
	ask := func(at time.Duration) {
		if take(t, lim, epoch.Add(at), r).OK {
			admitted = append(admitted, at)
		}
	}
	for range limit {
		ask(window - time.Microsecond)
	}
	for at := window; at < 3*window; at += 100 * time.Microsecond {
		ask(at)
	}
	cells := map[time.Duration]int{}
	worst := 0
	for i, at := range admitted {
		cells[at/window]++
		n := 0
		for _, earlier := range admitted[:i+1] {
			if earlier > at-window {
				n++
			}
		}
		worst = max(worst, n)
	}
	for cell, n := range cells {
		if n > limit {
			t.Errorf("%d in cell %d", n, cell)
		}
	}
	if worst != 2*limit {
		t.Errorf("the worst window holds %d, want %d", worst, 2*limit)
	}
}

// Of requests that come at random, 90 a window with a limit of 100, the estimate is off by 3 % of
// the limit on average and by six times that at worst.
func TestErrorOfTheEstimate(t *testing.T) {
	const limit, window = 100, time.Second
	lim := newLimiter(t, keyed.Options{})
	r := keyed.Request{Namespace: "n", Key: "k", Limit: limit, Window: window, Cost: 1}
	random := rand.New(rand.NewPCG(1, 2))
	total := times(100_000, 1_000_000)
	var admitted []time.Duration // of the window before now
	var off, worst, differ int
	at := time.Duration(0)
	for range total {
		at += time.Duration(random.ExpFloat64() * float64(window) / 90)
		for len(admitted) > 0 && admitted[0] <= at-window {
			admitted = admitted[1:]
		}
		n := len(admitted)
		d := take(t, lim, epoch.Add(at), r)
		estimate := limit - d.Remaining
		if d.OK {
			estimate--
			admitted = append(admitted, at)
		}
		wrong := max(estimate-n, n-estimate)
		off += wrong
		worst = max(worst, wrong)
		if d.OK != (n < limit) {
			differ++
		}
	}
	mean := float64(off) / float64(total)
	share := float64(differ) / float64(total)
	t.Logf("off by %.2f on average and by %d at most; %.2f %% of %d decisions differ", mean, worst, 100*share, total)
	if mean < 2 || mean > 4 || worst < 10 || worst > 30 || share > 0.1 {
		t.Errorf("off by %.2f on average and by %d at most; %.2f %% differ", mean, worst, 100*share)
	}
}
