// What each node of a fleet must know, and what it must not make up.

package keyedoracle_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// observer asks several nodes, one call after the other, over networks that lose, delay and
// repeat, and holds each answer against two bounds. A node that denies must have a reason: all
// that all nodes have admitted leaves no room. A node that admits must not know better: what it
// admitted itself and what replies have told it of the others leave room.
type observer struct {
	t                *testing.T
	random           *rand.Rand
	region           *region
	links            []*link
	limiters         []*keyed.Limiter
	requests         []keyed.Request
	truth            *model                 // what all nodes admitted
	own              []map[keyed.Cell]int64 // what each node admitted
	holds            []nodeHold
	calls            []string
	denied, admitted int
	careful          bool // nodes may deny without a reason
}

type nodeHold struct {
	node int
	openHold
}

func TestNodesKnowWhatTheyWereTold(t *testing.T) {
	weathers := []weather{
		{},
		{roundTrip: 50 * time.Millisecond},
		{roundTrip: 40 * time.Millisecond, jitter: 100 * time.Millisecond, twice: 0.2},
		{roundTrip: 20 * time.Millisecond, jitter: 20 * time.Millisecond, loss: 0.2, twice: 0.1},
		{roundTrip: 20 * time.Millisecond, refuse: 0.5},
		{roundTrip: 700 * time.Millisecond},
	}
	admitted, denied := 0, 0
	for seed := range uint64(times(60, 3000)) {
		synctest.Test(t, func(t *testing.T) {
			o := newObserver(t, seed, weathers[seed%uint64(len(weathers))])
			for range 300 {
				o.step()
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, strings.Join(o.calls[max(0, len(o.calls)-40):], "\n"))
				}
			}
			o.finish()
			admitted += o.admitted
			denied += o.denied
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d admitted, %d denied", admitted, denied)
	if admitted == 0 || denied == 0 {
		t.Error("nothing was compared")
	}
}

// A limiter that keeps few counters reads those again that it has evicted: it knows of them what
// it knew, whether or not its replays have arrived by then.
func TestEvictedCountersAreReadAgain(t *testing.T) {
	for seed := range uint64(times(30, 1500)) {
		synctest.Test(t, func(t *testing.T) {
			w := weather{roundTrip: time.Duration(seed%3) * 40 * time.Millisecond, jitter: time.Duration(seed%2) * 40 * time.Millisecond}
			if seed%5 == 4 {
				w.loss = 0.5
			}
			o := newObserverOf(t, seed, w, keyed.Options{MaxKeys: 4})
			o.careful = w.loss > 0
			o.requests = nil
			for i := range 12 {
				o.requests = append(o.requests, keyed.Request{
					Namespace: "n", Key: fmt.Sprint("k", i), Limit: 10, Window: 10 * time.Second,
				})
			}
			for range 600 {
				if o.random.IntN(8) == 0 {
					time.Sleep(time.Duration(o.random.Int64N(int64(200 * time.Millisecond))))
				}
				o.take(o.random.IntN(len(o.limiters)), o.request())
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, strings.Join(o.calls[max(0, len(o.calls)-40):], "\n"))
				}
			}
			o.finish()
		})
		if t.Failed() {
			return
		}
	}
}

func newObserver(t *testing.T, seed uint64, w weather) *observer {
	return newObserverOf(t, seed, w, keyed.Options{})
}

func newObserverOf(t *testing.T, seed uint64, w weather, options keyed.Options) *observer {
	nodes := 2 + int(seed%3)
	o := &observer{t: t, random: rand.New(rand.NewPCG(seed, 3)), region: newRegion(t), truth: newModel()}
	for i := range nodes {
		o.links = append(o.links, newLink(o.region, i, w, seed))
		options.Origin = o.links[i]
		o.limiters = append(o.limiters, newLimiter(t, options))
		o.own = append(o.own, map[keyed.Cell]int64{})
	}
	for i, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		o.requests = append(o.requests, keyed.Request{
			Namespace: "n", Key: fmt.Sprint("k", i), Limit: int(3 + o.random.Int64N(40)), Window: window,
		})
	}
	return o
}

func (o *observer) step() {
	switch n := o.random.IntN(10); {
	case n < 5:
		o.take(o.random.IntN(len(o.limiters)), o.request())
	case n < 6:
		o.takeMany(o.random.IntN(len(o.limiters)))
	case n < 7:
		o.hold(o.random.IntN(len(o.limiters)), o.request())
	case n < 8:
		o.end()
	default:
		pause := []time.Duration{
			time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, 12 * time.Second,
		}[o.random.IntN(6)]
		o.say("sleep %v", pause)
		time.Sleep(pause)
	}
}

func (o *observer) request() keyed.Request {
	r := o.requests[o.random.IntN(len(o.requests))]
	if r.Cost = min(r.Limit, o.random.IntN(1+r.Limit/3)); r.Cost == 0 {
		r.Cost = keyed.Free
	}
	return r
}

// view is what was known before a call: what the node had to know of the counter, and how much of
// its cells was acknowledged.
type view struct {
	from  time.Time
	least *modelCounter
	acked map[int64]int64
}

// before returns what is known of a counter now, when all that arrives at this instant has arrived.
func (o *observer) before(node int, r keyed.Request) view {
	synctest.Wait()
	v := view{time.Now(), newModelCounter(r.Window), map[int64]int64{}}
	for _, c := range o.cellsOf(r) {
		k := o.links[node].told(c)
		v.least.cells[c.Sequence] = big.NewInt(max(k.total, k.others+o.own[node][c]))
		_, v.acked[c.Sequence] = o.links[node].inDoubt(c)
	}
	for _, h := range o.holds {
		if h.node == node && idOf(h.request) == idOf(r) {
			v.least.held.Add(v.least.held, big.NewInt(units(h.request)))
		}
	}
	return v
}

// cellsOf returns the current cell of a counter and the two before: a call may have begun one
// earlier.
func (o *observer) cellsOf(r keyed.Request) (cells [3]keyed.Cell) {
	sequence, _ := newModelCounter(r.Window).split(nanos(time.Now()))
	for i := range cells {
		cells[i] = keyed.Cell{Namespace: r.Namespace, Key: r.Key, Window: r.Window, Sequence: sequence - int64(i)}
	}
	return cells
}

// most returns what a node may take a counter for after a call: all there is, its own holds, and a
// second time what was in doubt during the call, since a count that was read may have it already.
func (o *observer) most(node int, r keyed.Request, v view) *modelCounter {
	c := newModelCounter(r.Window)
	c.held = v.least.held
	for _, cell := range o.cellsOf(r) {
		sent, _ := o.links[node].inDoubt(cell)
		n := new(big.Int).Set(o.truth.counter(r).cell(cell.Sequence))
		c.cells[cell.Sequence] = n.Add(n, big.NewInt(sent-v.acked[cell.Sequence]))
	}
	return c
}

// judge compares a decision with what was known before and what there is now. A request may be
// decided when it came or when it returned: over time, what counts becomes less.
func (o *observer) judge(call string, node int, r keyed.Request, d limit.Decision, v view) {
	o.say("%d: %s %s in %v: %+v", node, call, describeRequest(r), time.Since(v.from), d)
	free := o.careful && units(r) == 0 // of what is not known
	if at := nanos(time.Now()); d.OK && !free && !v.least.fits(at, units(r), int64(r.Limit)) {
		o.t.Errorf("node %d admits %s, and knows of %v", node, describeRequest(r), v.least.effective(at))
	}
	if most, at := o.most(node, r, v), nanos(v.from); !d.OK && !o.careful && most.fits(at, units(r), int64(r.Limit)) {
		o.t.Errorf("node %d denies %s, and there is %v", node, describeRequest(r), most.effective(at))
	}
	if d.OK {
		o.admitted++
	} else {
		o.denied++
	}
}

// charge remembers what a node admitted. A request that waited for the origin may count in the
// cell in which it came, or in that in which it returned: each bound takes what is safe for it.
func (o *observer) charge(node int, from time.Time, r keyed.Request, cost int64) {
	c := o.truth.counter(r)
	sequence, _ := c.split(nanos(from))
	o.own[node][keyed.Cell{Namespace: r.Namespace, Key: r.Key, Window: r.Window, Sequence: sequence}] += cost
	c.charge(nanos(time.Now()), cost)
}

func (o *observer) take(node int, r keyed.Request) {
	v := o.before(node, r)
	d, err := o.limiters[node].Take(context.Background(), r)
	if err != nil {
		o.t.Error(err)
	}
	o.judge("take", node, r, d, v)
	if d.OK {
		o.charge(node, v.from, r, units(r))
	}
}

// takeMany takes of two counters, or of none.
func (o *observer) takeMany(node int) {
	requests := []keyed.Request{o.request(), o.request()}
	for idOf(requests[0]) == idOf(requests[1]) {
		requests[1] = o.request()
	}
	views := []view{o.before(node, requests[0]), o.before(node, requests[1])}
	ds, err := o.limiters[node].TakeAll(context.Background(), requests...)
	if err != nil || len(ds) != 2 {
		o.t.Errorf("%d decisions, %v", len(ds), err)
		return
	}
	for i, r := range requests {
		o.judge("take many", node, r, ds[i], views[i])
	}
	if ds[0].OK && ds[1].OK {
		o.charge(node, views[0].from, requests[0], units(requests[0]))
		o.charge(node, views[1].from, requests[1], units(requests[1]))
	}
}

func (o *observer) hold(node int, r keyed.Request) {
	v := o.before(node, r)
	h, d, err := o.limiters[node].Hold(context.Background(), r)
	if err != nil {
		o.t.Error(err)
	}
	o.judge("hold", node, r, d, v)
	if d.OK {
		o.holds = append(o.holds, nodeHold{node, openHold{h, r}})
	}
}

func (o *observer) end() {
	if len(o.holds) == 0 {
		return
	}
	h := o.holds[0]
	o.holds = o.holds[1:]
	cost := o.random.Int64N(2*units(h.request) + 1)
	o.say("%d: commit %d of %s", h.node, cost, describeRequest(h.request))
	h.hold.Commit(int(cost))
	o.charge(h.node, time.Now(), h.request, cost)
}

// finish closes all nodes, over a network that works by then. Every unit that a node admitted
// counts once in the origin.
func (o *observer) finish() {
	for _, l := range o.links {
		w := l.weather
		w.loss, w.refuse, w.roundTrip = w.loss/2, w.refuse/2, min(w.roundTrip, 100*time.Millisecond)
		l.become(w)
	}
	o.region.closeAll(o.t, o.limiters)
	want, got := map[counterID]int64{}, map[counterID]int64{}
	for _, cells := range o.own {
		for c, n := range cells {
			want[counterID{c.Namespace, c.Key, c.Window}] += n
		}
	}
	for c, n := range o.region.all() {
		got[counterID{c.Namespace, c.Key, c.Window}] += n
	}
	for _, r := range o.requests {
		if got[idOf(r)] != want[idOf(r)] {
			o.t.Errorf("the origin counts %d of %s, and %d were admitted", got[idOf(r)], describeRequest(r), want[idOf(r)])
		}
	}
}

func (o *observer) say(format string, args ...any) {
	o.calls = append(o.calls, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}
