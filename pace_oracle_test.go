// Random calls with Burst against its definition.

package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// paceBook is the pace, and the minute beside it, by definition: it keeps every charge
// since the quota was set and adds them up anew for each question.
type paceBook struct {
	quota   ratelimit.ModelQuota
	span    time.Duration
	charges []*paceCharge // by instant
	floor   [4]time.Time  // when the bucket was empty without the charges
}

type paceCharge struct {
	at            time.Time
	requests      int
	input, output int
	sealed        bool // was priced for another quota
}

// paceDimension is what is limited: how much of it a charge takes, and of how much.
type paceDimension struct {
	code  ratelimit.DecisionCode
	limit int
	of    func(requests, input, output int) int
}

func (b *paceBook) dimensions() [4]paceDimension {
	return [4]paceDimension{
		{ratelimit.DecisionRPMLimit, b.quota.MaxRPM, func(r, _, _ int) int { return r }},
		{ratelimit.DecisionITPMLimit, b.quota.MaxITPM, func(_, i, _ int) int { return i }},
		{ratelimit.DecisionOTPMLimit, b.quota.MaxOTPM, func(_, _, o int) int { return o }},
		{ratelimit.DecisionTPMLimit, b.quota.MaxTPM, func(_, i, o int) int { return i + o }},
	}
}

func (b *paceBook) paces() bool { return b.quota.Burst > 0 && b.quota.Burst < time.Minute }

// cost takes limits that divide a minute.
func (d paceDimension) cost(n int) time.Duration {
	return time.Duration(min(n, d.limit)) * (time.Minute / time.Duration(d.limit))
}

func (b *paceBook) empty(i int, d paceDimension) time.Time {
	x := b.floor[i]
	for _, c := range b.charges {
		if c.sealed {
			continue
		}
		if x.Before(c.at) {
			x = c.at
		}
		x = x.Add(d.cost(d.of(c.requests, c.input, c.output)))
		if most := c.at.Add(time.Minute); x.After(most) {
			x = most
		}
	}
	return x
}

// denies returns the first limit that denies at an instant, and whether it is only the
// pace that does.
func (b *paceBook) denies(at time.Time, input, output int) (code ratelimit.DecisionCode, pace bool) {
	for i, d := range b.dimensions() {
		if d.limit == 0 {
			continue
		}
		more, used := d.of(1, input, output), 0
		for _, c := range b.charges {
			if !c.at.Before(at.Add(-b.span)) {
				used += d.of(c.requests, c.input, c.output)
			}
		}
		if used+more > d.limit {
			return d.code, false
		}
		if b.paces() && b.empty(i, d).Sub(at) > max(b.quota.Burst-d.cost(more), 0) {
			return d.code, true
		}
	}
	return "", false
}

// opens finds the first instant that admits, among those at which anything changes.
func (b *paceBook) opens(t *testing.T, now time.Time, input, output int) time.Duration {
	var instants []time.Time
	for _, c := range b.charges {
		instants = append(instants, c.at.Add(b.span+1))
	}
	for i, d := range b.dimensions() {
		if d.limit > 0 && b.paces() {
			instants = append(instants, b.empty(i, d).Add(-max(b.quota.Burst-d.cost(d.of(1, input, output)), 0)))
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	for _, at := range instants {
		if code, _ := b.denies(at, input, output); code == "" && at.After(now) {
			if code, _ := b.denies(at.Add(-1), input, output); code == "" {
				t.Fatal("the oracle admits before anything changes")
			}
			return at.Sub(now)
		}
	}
	t.Fatal("the oracle never admits")
	return 0
}

func (b *paceBook) insert(c *paceCharge) {
	i := len(b.charges)
	for i > 0 && b.charges[i-1].at.After(c.at) {
		i--
	}
	b.charges = slices.Insert(b.charges, i, c)
}

func (b *paceBook) counts(c *paceCharge, now time.Time) bool { return !c.at.Before(now.Add(-b.span)) }

// requote follows another quota.
func (b *paceBook) requote(quota ratelimit.ModelQuota, now time.Time) {
	if quota == b.quota {
		return
	}
	was, old := *b, b.dimensions()
	b.quota = quota
	b.charges = slices.DeleteFunc(slices.Clone(b.charges), func(c *paceCharge) bool { return !b.counts(c, now) })
	if !was.paces() {
		for _, c := range b.charges {
			c.sealed = false
		}
	}
	fresh := now.Add(quota.Burst - b.span)
	var floor [4]time.Time
	for i, d := range b.dimensions() {
		b.floor[i] = fresh
		switch {
		case d.limit == 0 || !b.paces() || !was.paces():
			floor[i] = fresh
		case old[i].limit > 0:
			left := max(was.empty(i, old[i]).Sub(now), 0)
			floor[i] = now.Add(min(left*time.Duration(old[i].limit)/time.Duration(d.limit), time.Minute))
		default:
			anew := paceBook{quota: quota, span: b.span, floor: b.floor}
			for _, c := range b.charges {
				c := *c
				c.sealed = false
				anew.charges = append(anew.charges, &c)
			}
			floor[i] = anew.empty(i, d)
		}
	}
	b.floor = floor
	if was.paces() {
		for _, c := range b.charges {
			c.sealed = true
		}
	}
}

// A limiter with Burst decides like its definition after random calls.
func TestPaceAgainstOracle(t *testing.T) {
	for seed := range uint64(times(60, 6, 600)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { playPace(t, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

type paceBooking struct {
	real          *ratelimit.Reservation
	charge        *paceCharge
	input, output int
}

func playPace(t *testing.T, random *rand.Rand) {
	pick := func(of ...int) int { return of[random.IntN(len(of))] }
	anyQuota := func() ratelimit.ModelQuota {
		bursts := []time.Duration{0, 1, time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second, 30 * time.Second, 59 * time.Second}
		return ratelimit.ModelQuota{
			MaxRPM: pick(0, 1, 6, 60, 60, 600), MaxTPM: pick(0, 60, 600, 6000, 6000),
			MaxITPM: pick(0, 0, 600, 3000), MaxOTPM: pick(0, 0, 600, 3000),
			Burst: bursts[random.IntN(len(bursts))],
		}
	}
	margin := time.Duration(pick(0, 0, int(time.Second), 1))
	quota := anyQuota()
	quota.MaxRPM = 60
	rl := newLimiterWith(t, ratelimit.Config{Margin: margin, Quotas: map[string]ratelimit.ModelQuota{"m": quota}})
	book := &paceBook{quota: quota, span: time.Minute + margin}
	var open []*paceBooking
	busy := random.IntN(3)
	small := func() int { return random.IntN(1 + pick(0, 20, 100, 600, 3000)) }

	for step := range 600 {
		now := time.Now()
		rl.Stats("m") // forgets what has left the minute
		input, output := small(), small()
		switch what := random.IntN(20); {
		case what < 3:
			rl.RecordUsage("m", input, output)
			book.insert(&paceCharge{at: now, requests: 1, input: input, output: output})
		case what < 9:
			r, d := rl.Reserve("m", input, output)
			if d.Allowed {
				c := &paceCharge{at: now, requests: 1, input: input, output: output}
				book.insert(c)
				open = append(open, &paceBooking{r, c, input, output})
			}
		case what < 15 && len(open) > 0:
			i := random.IntN(len(open))
			b := open[i]
			open = slices.Delete(open, i, i+1)
			used, counts := small(), book.counts(b.charge, now)
			switch {
			case random.IntN(4) == 0:
				b.real.Cancel()
				if counts {
					gone := b.charge
					book.charges = slices.DeleteFunc(book.charges, func(c *paceCharge) bool { return c == gone && !c.sealed })
					if gone.sealed {
						gone.requests, gone.input, gone.output = 0, 0, 0
					}
				}
			case counts:
				b.real.Commit(used, output)
				b.charge.input, b.charge.output = used, output
			default:
				b.real.Commit(used, output)
				if used > b.input || output > b.output {
					book.insert(&paceCharge{at: now, input: max(used-b.input, 0), output: max(output-b.output, 0)})
				}
			}
		case what < 17 && len(open) > 0:
			b := open[random.IntN(len(open))]
			at := now.Add(-time.Duration(random.Int64N(int64(5 * time.Second))))
			b.real.Arrived(at)
			if !at.After(b.charge.at) {
				break
			}
			moved := *b.charge
			moved.at = at
			if book.counts(b.charge, now) { // sealed as it was: what it cost is in the buckets
				gone := b.charge
				book.charges = slices.DeleteFunc(book.charges, func(c *paceCharge) bool { return c == gone })
			} else {
				moved.input, moved.output, moved.sealed = b.input, b.output, false
			}
			moved.requests = 1
			b.charge = &moved
			book.insert(b.charge)
			i := slices.Index(book.charges, b.charge)
			if !moved.sealed && slices.ContainsFunc(book.charges[i+1:], func(c *paceCharge) bool { return c.sealed }) {
				return // charged anew among those of another quota, it cannot be changed itself
			}
		case what == 17 && random.IntN(6) == 0:
			quota = anyQuota()
			rl.SetQuota("m", quota)
			book.requote(quota, now)
		}
		askInput, askOutput := small(), small()
		d := rl.DecideRequest(ratelimit.Request{Model: "m", PromptTokens: askInput, OutputTokens: askOutput})
		code, pace := book.denies(now, askInput, askOutput)
		q := book.quota
		never := q.MaxRPM < 0 || q.MaxTPM > 0 && askInput+askOutput > q.MaxTPM || q.MaxITPM > 0 && askInput > q.MaxITPM || q.MaxOTPM > 0 && askOutput > q.MaxOTPM
		switch {
		case never:
			if d.Allowed || !d.Never {
				t.Fatalf("step %d: %+v of what never fits", step, d)
			}
		case code == "":
			if !d.Allowed {
				t.Fatalf("step %d: %+v, want it allowed", step, d)
			}
		default:
			wait := book.opens(t, now, askInput, askOutput)
			if d.Allowed || d.Code != code || d.RetryAfter != wait || pace != (d.Reason[:5] == "pace:") {
				t.Fatalf("step %d: %+v, want %s, pace %v, after %v", step, d, code, pace, wait)
			}
		}
		if rl.CanSend("m", askInput) != rl.Decide("m", askInput).Allowed {
			t.Fatalf("step %d: CanSend and Decide differ", step)
		}
		switch random.IntN(4) {
		case 0:
			time.Sleep(time.Duration(random.Int64N(int64(time.Second)) << (3 * busy)))
		case 1:
			if d.RetryAfter > 0 {
				time.Sleep(d.RetryAfter - time.Duration(random.IntN(2)))
			}
		}
	}
	for _, b := range open {
		b.real.Cancel()
	}
}
