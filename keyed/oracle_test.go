package keyed_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

var background = context.Background()

// model is the naive counterpart of a Limiter: all charges of all counters, in big integers.
type model struct {
	charges map[counter]map[int64]*big.Int // by sequence
	latest  map[counter]int64              // the latest cell that was charged or held in
	held    map[counter]*big.Int
}

type counter struct {
	namespace, key string
	window         time.Duration
}

func newModel() *model {
	return &model{map[counter]map[int64]*big.Int{}, map[counter]int64{}, map[counter]*big.Int{}}
}

func name(r keyed.Request) counter { return counter{r.Namespace, r.Key, r.Window} }

// effective returns current + ⌊previous × (window−elapsed) / window⌋ + held + cost, at an instant
// in Unix nanoseconds.
func (m *model) effective(c counter, nanos, cost int64) *big.Int {
	window := int64(c.window)
	sequence, elapsed := nanos/window, nanos%window
	if latest, ok := m.latest[c]; ok && sequence < latest {
		sequence, elapsed = latest, 0
	}
	of := func(sequence int64) *big.Int {
		if n := m.charges[c][sequence]; n != nil {
			return n
		}
		return new(big.Int)
	}
	n := new(big.Int).Mul(of(sequence-1), big.NewInt(window-elapsed))
	n.Div(n, big.NewInt(window))
	n.Add(n, of(sequence))
	if held := m.held[c]; held != nil {
		n.Add(n, held)
	}
	return n.Add(n, big.NewInt(cost))
}

func (m *model) fits(r keyed.Request, nanos, before int64) bool {
	n := m.effective(name(r), nanos, int64(r.Cost))
	n.Add(n, big.NewInt(before))
	return n.Cmp(big.NewInt(int64(r.Limit))) <= 0
}

func (m *model) charge(c counter, nanos, cost int64) {
	if cost == 0 {
		return
	}
	sequence := m.enter(c, nanos)
	if m.charges[c] == nil {
		m.charges[c] = map[int64]*big.Int{}
	}
	if m.charges[c][sequence] == nil {
		m.charges[c][sequence] = new(big.Int)
	}
	m.charges[c][sequence].Add(m.charges[c][sequence], big.NewInt(cost))
}

func (m *model) enter(c counter, nanos int64) (sequence int64) {
	sequence = nanos / int64(c.window)
	if latest, ok := m.latest[c]; ok {
		sequence = max(sequence, latest)
	}
	m.latest[c] = sequence
	return sequence
}

func (m *model) hold(c counter, nanos, units int64) {
	m.enter(c, nanos)
	if m.held[c] == nil {
		m.held[c] = new(big.Int)
	}
	m.held[c].Add(m.held[c], big.NewInt(units))
}

// reset forgets what was charged. Of a counter that nobody knows it leaves no trace.
func (m *model) reset(c counter, nanos int64) {
	if _, ok := m.latest[c]; ok {
		m.latest[c] = nanos / int64(c.window)
	}
	delete(m.charges, c)
}

// run is one random history of a Limiter and a model.
type run struct {
	t     *testing.T
	rng   *rand.Rand
	lim   *keyed.Limiter
	model *model
	nanos int64
	holds []openHold
	back  bool // the clock is set back at times, and no counter is old enough to be forgotten
}

type openHold struct {
	keyed.Hold
	counter
	units int64
}

func (r *run) request() keyed.Request {
	windows := []time.Duration{time.Second, time.Minute, 7777777 * time.Nanosecond}
	if r.back {
		windows = []time.Duration{10 * time.Second, time.Minute}
	}
	limits := []int{1, 7, 10, 100, min(1<<40, math.MaxInt), math.MaxInt/2 + 1}
	q := keyed.Request{
		Namespace: []string{"requests", "tokens"}[r.rng.IntN(2)],
		Key:       fmt.Sprint("k", r.rng.IntN(3)),
		Window:    windows[r.rng.IntN(len(windows))],
	}
	q.Limit = limits[r.rng.IntN(len(limits))]
	q.Cost = []int{keyed.Free, 0, 1, 2, q.Limit / 2, q.Limit, r.rng.IntN(q.Limit)}[r.rng.IntN(7)]
	if q.Limit < math.MaxInt/2+1 && r.rng.IntN(50) == 0 {
		q.Cost = q.Limit + 1
	}
	return q
}

// resolved returns a request with the units that it asks for as its Cost.
func resolved(q keyed.Request) keyed.Request {
	switch q.Cost {
	case 0:
		q.Cost = 1
	case keyed.Free:
		q.Cost = 0
	}
	return q
}

// check compares the decision on q, which comes after before units of the same counter in a batch.
// passed reports that all of it was charged or held.
func (r *run) check(q keyed.Request, before int64, d limit.Decision, passed bool) {
	r.t.Helper()
	c := name(q)
	if want := r.model.fits(q, r.nanos, before); d.OK != want {
		r.t.Fatalf("%+v after %d at %d: %+v, want OK %v: %v %v %v", q, before, r.nanos, d, want, r.model.charges[c], r.model.latest[c], r.model.held[c])
	}
	if d.Never != (q.Cost > q.Limit || before > int64(q.Limit-q.Cost)) {
		r.t.Fatalf("%+v after %d: Never is %v", q, before, d.Never)
	}
	if d.OK == (d.RetryAfter > 0) && d.OK {
		r.t.Fatalf("%+v: OK with RetryAfter %v", q, d.RetryAfter)
	}
	if !d.OK && !d.Never {
		r.checkRetry(q, before, d.RetryAfter)
	}
	left := new(big.Int).Sub(big.NewInt(int64(q.Limit)), r.model.effective(c, r.nanos, 0))
	if passed {
		left.Sub(left, big.NewInt(int64(q.Cost)+before))
	}
	if left.Sign() < 0 {
		left.SetInt64(0)
	}
	if min(left.Int64(), math.MaxInt) != int64(d.Remaining) {
		r.t.Fatalf("%+v after %d: Remaining is %d, want %v (passed %v)", q, before, d.Remaining, left, passed)
	}
}

func (r *run) checkRetry(q keyed.Request, before int64, wait time.Duration) {
	r.t.Helper()
	if wait == 0 { // only the end of a hold helps
		never := q
		if held := r.model.held[name(q)]; held != nil {
			sum := new(big.Int).Add(held, big.NewInt(before))
			if sum.Add(sum, big.NewInt(int64(q.Cost))).Cmp(big.NewInt(int64(never.Limit))) > 0 {
				return
			}
		}
		r.t.Fatalf("%+v: refused with RetryAfter 0 and nothing on hold in its way", q)
	}
	if !r.model.fits(q, r.nanos+int64(wait), before) {
		r.t.Fatalf("%+v at %d: does not fit after RetryAfter %v", q, r.nanos, wait)
	}
	if r.model.fits(q, r.nanos+int64(wait)-1, before) {
		r.t.Fatalf("%+v at %d after %d: fits 1 ns before RetryAfter %v: %v latest %d held %v", q, r.nanos, before, wait, r.model.charges[name(q)], r.model.latest[name(q)], r.model.held[name(q)])
	}
}

func (r *run) step() {
	now := time.Unix(0, r.nanos)
	switch n := r.rng.IntN(10); {
	case n < 5:
		q := r.request()
		peek, _ := r.lim.PeekAt(background, now, q)
		d, err := r.lim.TakeAt(background, now, q)
		if err != nil {
			r.t.Fatal(err)
		}
		q = resolved(q)
		r.check(q, 0, peek, false)
		r.check(q, 0, d, d.OK)
		if d.OK {
			r.model.charge(name(q), r.nanos, int64(q.Cost))
		}
	case n < 6:
		q := r.request()
		h, d, err := r.lim.HoldAt(background, now, q)
		if err != nil {
			r.t.Fatal(err)
		}
		q = resolved(q)
		r.check(q, 0, d, d.OK)
		if d.OK {
			r.model.hold(name(q), r.nanos, int64(q.Cost))
			r.holds = append(r.holds, openHold{h, name(q), int64(q.Cost)})
		}
	case n < 8:
		r.batch(now)
	case n < 9 && r.rng.IntN(4) == 0:
		q := r.request()
		if err := r.lim.ResetAt(now, q.Namespace, q.Key, q.Window); err != nil {
			r.t.Fatal(err)
		}
		r.model.reset(name(q), r.nanos)
	case len(r.holds) > 0:
		r.endHold(now)
	}
}

func (r *run) batch(now time.Time) {
	var requests []keyed.Request
	for range 1 + r.rng.IntN(6) {
		requests = append(requests, r.request())
	}
	ds, err := r.lim.TakeAllAt(background, now, requests...)
	if err != nil {
		r.t.Fatal(err)
	}
	passed := true
	for _, d := range ds {
		passed = passed && d.OK
	}
	before := map[counter]int64{}
	for k, q := range requests {
		q = resolved(q)
		b := before[name(q)]
		if b > 1<<61 || q.Cost > min(1<<61, math.MaxInt) {
			break // the sums of the check would not fit
		}
		r.check(q, b, ds[k], passed)
		before[name(q)] = b + int64(q.Cost)
	}
	if passed {
		for _, q := range requests {
			r.model.charge(name(q), r.nanos, int64(resolved(q).Cost))
		}
	}
}

func (r *run) endHold(now time.Time) {
	k := r.rng.IntN(len(r.holds))
	h := r.holds[k]
	r.holds = append(r.holds[:k], r.holds[k+1:]...)
	r.model.held[h.counter].Sub(r.model.held[h.counter], big.NewInt(h.units))
	if r.rng.IntN(2) == 0 {
		h.Cancel()
	} else {
		cost := []int64{0, h.units, h.units / 2}[r.rng.IntN(3)]
		if h.units < 1000 && r.rng.IntN(4) == 0 {
			cost = h.units * 3 // beyond the limit
		}
		h.CommitAt(now, int(cost))
		r.model.charge(h.counter, r.nanos, cost)
	}
	h.CommitAt(now, 1000) // has ended
	h.Cancel()
}

// A Limiter decides as a naive model in big integers does, and its RetryAfter is exact to the
// nanosecond by the model.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(400 / racetest.Factor) {
		lim, err := keyed.New(keyed.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := &run{t: t, rng: rand.New(rand.NewPCG(seed, 1)), lim: lim, model: newModel(), nanos: 1_700_000_000_000_000_000, back: seed%2 == 0}
		for range 400 {
			r.step()
			steps := []int64{0, 0, 1, 1_000_000, 5_000_000, 300_000_000, 40_000_000_000}
			if r.back {
				steps = steps[:6]
				r.nanos -= r.rng.Int64N(2) * r.rng.Int64N(50_000_000)
			}
			r.nanos += r.rng.Int64N(1 + steps[r.rng.IntN(len(steps))])
		}
	}
}
