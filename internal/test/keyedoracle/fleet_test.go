// Many nodes with one origin, under load, in virtual time.

package keyedoracle_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// fleet is a number of nodes that share an origin, and the requests that come to them for one key.
type fleet struct {
	nodes    int
	shares   []float64 // of the load of each node; nil is even
	limit    int64     // units a window
	window   time.Duration
	load     float64 // requests in a window, as a share of limit
	regular  bool    // they come at even distances, in turn to each node, and not at random
	together int     // come at the same instant, 0 is 1
	cells    int     // windows that the load lasts
	network  weather
	seed     uint64
}

// outcome is what came of it. A request is admitted in the cell of the instant at which Take
// returned.
type outcome struct {
	limit           int64
	cells           []int64 // admitted in each aligned cell
	origin          []int64 // counted by the origin in each
	asked, admitted int64
	reads, adds     int
	twice           int
	waited, longest time.Duration
	uncounted       int64 // admitted less what the origin counts after Close: 0
}

// run lets the load come, closes the limiters, and compares the sums.
func (f fleet) run(t *testing.T) (o outcome) {
	synctest.Test(t, func(t *testing.T) { o = f.runInBubble(t) })
	return o
}

// crowd is a fleet that runs.
type crowd struct {
	fleet
	t        *testing.T
	limiters []*keyed.Limiter
	start    time.Time
	calls    sync.WaitGroup

	mu  sync.Mutex
	out outcome
}

func (f fleet) runInBubble(t *testing.T) outcome {
	g := newRegion(t)
	c := &crowd{fleet: f, t: t, start: time.Now().Truncate(f.window).Add(f.window)}
	c.out = outcome{limit: f.limit, cells: make([]int64, f.cells+2), origin: make([]int64, f.cells+2)}
	for i := range f.nodes {
		c.limiters = append(c.limiters, newLimiter(t, keyed.Options{Origin: newLink(g, i, f.network, f.seed)}))
	}
	time.Sleep(time.Until(c.start))
	if f.regular {
		c.inTurn()
	} else {
		c.atRandom(rand.New(rand.NewPCG(f.seed, 7)))
	}
	c.calls.Wait()
	g.closeAll(t, c.limiters)
	c.collect(g)
	return c.out
}

func (c *crowd) collect(g *region) {
	o := &c.out
	o.reads, o.adds, o.twice = g.reads, g.adds, g.twice
	o.uncounted = o.admitted
	first := c.start.UnixNano() / int64(c.window)
	for cell, n := range g.all() {
		o.uncounted -= n
		if i := cell.Sequence - first; i >= 0 && i < int64(len(o.origin)) {
			o.origin[i] = n
		} else {
			c.t.Errorf("%d in cell %d, of %d on", n, cell.Sequence, first)
		}
	}
	if o.uncounted != 0 {
		c.t.Errorf("admitted %d, of which the origin does not count %d", o.admitted, o.uncounted)
	}
}

// atRandom has requests come at random, as those of many users do.
func (c *crowd) atRandom(random *rand.Rand) {
	together := max(1, c.together)
	pause := float64(c.window) * float64(together) / (c.load * float64(c.limit))
	end := c.start.Add(time.Duration(c.cells) * c.window)
	for at := c.start; ; {
		at = at.Add(time.Duration(random.ExpFloat64() * pause))
		if !at.Before(end) {
			break
		}
		time.Sleep(time.Until(at))
		for range together {
			c.ask(c.pick(random))
		}
	}
	time.Sleep(time.Until(end))
}

// inTurn has them come at even distances.
func (c *crowd) inTurn() {
	together := max(1, c.together)
	total := int(math.Round(c.load * float64(c.limit) * float64(c.cells) / float64(together)))
	length := c.window * time.Duration(c.cells)
	for i := range total {
		time.Sleep(time.Until(c.start.Add(time.Duration(float64(length) / float64(total) * float64(i)))))
		for range together {
			c.ask(i % c.nodes)
		}
	}
}

func (c *crowd) pick(random *rand.Rand) int {
	if c.shares == nil {
		return random.IntN(c.nodes)
	}
	x := random.Float64()
	for i, share := range c.shares {
		if x -= share; x < 0 {
			return i
		}
	}
	return len(c.shares) - 1
}

// ask has a request come to a node, in a goroutine of its own: it may have to wait for the origin.
func (c *crowd) ask(node int) {
	c.calls.Go(func() {
		from := time.Now()
		d, err := c.limiters[node].Take(context.Background(), keyed.Request{
			Namespace: "requests", Key: "tenant", Limit: int(c.limit), Window: c.window, Cost: 1,
		})
		waited := time.Since(from)
		c.mu.Lock()
		defer c.mu.Unlock()
		o := &c.out
		o.asked++
		o.waited += waited
		o.longest = max(o.longest, waited)
		switch {
		case err != nil:
			c.t.Errorf("take: %v", err)
		case d.OK:
			o.admitted++
			o.cells[int(time.Since(c.start)/c.window)]++
		}
	})
}

// measured is what a row of the table says: the first window, in which nobody knows of anybody,
// and of all windows together the mean, the most and the least, each of them by the limit.
type measured struct{ first, mean, most, least float64 }

func (o outcome) measure() measured {
	full := o.cells[:len(o.cells)-2]
	m := measured{first: float64(full[0]) / float64(o.limit), least: math.Inf(1)}
	for i, n := range full {
		// The origin counts a request that crossed the boundary in the cell it came in.
		share := float64(n) / float64(o.limit)
		counted := float64(o.origin[i]) / float64(o.limit)
		m.mean += share / float64(len(full))
		m.most = max(m.most, share, counted)
		m.least = min(m.least, share)
	}
	return m
}

func (m measured) String() string {
	return fmt.Sprintf("first %.4f mean %.4f most %.4f least %.4f", m.first, m.mean, m.most, m.least)
}
