// The specification of a decision, as literally as it can be written.

package keyedoracle_test

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// model decides for one process without an origin: a big integer for each cell, sums without a
// shortcut, and a search in place of each formula. It is for one goroutine.
type model struct {
	counters map[counterID]*modelCounter
}

// counterID is the identity of a counter.
type counterID struct {
	namespace, key string
	window         time.Duration
}

func idOf(r keyed.Request) counterID { return counterID{r.Namespace, r.Key, r.Window} }

// modelCounter is all that was ever charged to a counter, by the number of the cell.
type modelCounter struct {
	window *big.Int // in nanoseconds
	floor  *big.Int // beginning of the cell of the latest charge or hold, nil before the first
	cells  map[int64]*big.Int
	held   *big.Int
}

// units returns how many units a request asks for.
func units(r keyed.Request) int64 {
	if r.Cost == 0 {
		return 1
	}
	return int64(max(r.Cost, 0))
}

func newModel() *model { return &model{map[counterID]*modelCounter{}} }

func (m *model) counter(r keyed.Request) *modelCounter {
	c := m.counters[idOf(r)]
	if c == nil {
		c = newModelCounter(r.Window)
		m.counters[idOf(r)] = c
	}
	return c
}

func newModelCounter(window time.Duration) *modelCounter {
	return &modelCounter{window: big.NewInt(int64(window)), cells: map[int64]*big.Int{}, held: new(big.Int)}
}

// nanos returns an instant in nanoseconds since the Unix epoch, however many they are.
func nanos(t time.Time) *big.Int {
	n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(int64(time.Second)))
	return n.Add(n, big.NewInt(int64(t.Nanosecond())))
}

// from returns the instant that a request at now is decided at: an instant before the cell of the
// latest charge counts as the beginning of that.
func (c *modelCounter) from(now time.Time) *big.Int {
	at := nanos(now)
	if c.floor != nil && at.Cmp(c.floor) < 0 {
		return c.floor
	}
	return at
}

// reach moves the counter to the cell of an instant.
func (c *modelCounter) reach(at *big.Int) {
	_, left := c.split(at)
	c.floor = left.Sub(left.Add(left, at), c.window)
}

// split returns the number of the cell that an instant lies in, and how much of it is left.
func (c *modelCounter) split(at *big.Int) (sequence int64, left *big.Int) {
	number, elapsed := new(big.Int).DivMod(at, c.window, new(big.Int)) // Euclidean: elapsed ≥ 0
	return number.Int64(), elapsed.Sub(c.window, elapsed)
}

func (c *modelCounter) cell(sequence int64) *big.Int {
	if n := c.cells[sequence]; n != nil {
		return n
	}
	return new(big.Int)
}

// charged returns what counts of the charges at an instant: all of its cell, and of the cell
// before the share that the window still covers, rounded down.
func (c *modelCounter) charged(at *big.Int) *big.Int {
	sequence, left := c.split(at)
	share := new(big.Int).Mul(c.cell(sequence-1), left)
	share.Div(share, c.window)
	return share.Add(share, c.cell(sequence))
}

// effective is charged and what is held.
func (c *modelCounter) effective(at *big.Int) *big.Int {
	n := c.charged(at)
	return n.Add(n, c.held)
}

// first returns the first instant from on at which at most room is charged, if nothing is charged
// meanwhile. What counts never grows with time, and after two windows nothing does.
func (c *modelCounter) first(from, room *big.Int) *big.Int {
	low := new(big.Int).Set(from)
	high := new(big.Int).Add(from, c.window)
	high.Add(high, c.window)
	one := big.NewInt(1)
	for low.Cmp(high) < 0 {
		middle := new(big.Int).Add(low, high)
		middle.Rsh(middle, 1)
		if c.charged(middle).Cmp(room) <= 0 {
			high = middle
		} else {
			low = middle.Add(middle, one)
		}
	}
	return low
}

// fits reports whether units fit below a limit at an instant.
func (c *modelCounter) fits(at *big.Int, units, limit int64) bool {
	sum := c.effective(at)
	return sum.Add(sum, big.NewInt(units)).Cmp(big.NewInt(limit)) <= 0
}

// charge adds to the cell of an instant. A cell holds at most the largest int64.
func (c *modelCounter) charge(at *big.Int, units int64) {
	if units <= 0 {
		return
	}
	sequence, _ := c.split(at)
	n := new(big.Int).Add(c.cell(sequence), big.NewInt(units))
	if most := big.NewInt(math.MaxInt64); n.Cmp(most) > 0 {
		n = most
	}
	c.cells[sequence] = n
	c.reach(at)
}

// decide returns the decision on a request, and charges nothing.
func (m *model) decide(now time.Time, r keyed.Request) limit.Decision {
	c := m.counter(r)
	at := c.from(now)
	room := new(big.Int).Sub(big.NewInt(int64(r.Limit)), c.held)
	room.Sub(room, big.NewInt(units(r))) // for what is charged
	var d limit.Decision
	switch {
	case units(r) > int64(r.Limit):
		d.Never = true
	case c.fits(at, units(r), int64(r.Limit)):
		d.OK = true
	case room.Sign() >= 0:
		d.RetryAfter = between(now, c.first(at, room))
	}
	m.describe(&d, now, r, 0)
	return d
}

// describe fills in what a decision says of the counter, with units charged to it that the model
// does not know yet.
func (m *model) describe(d *limit.Decision, now time.Time, r keyed.Request, charged int64) {
	c := m.counter(r)
	at := c.from(now)
	remaining := new(big.Int).Sub(big.NewInt(int64(r.Limit)), c.effective(at))
	remaining.Sub(remaining, big.NewInt(charged))
	d.Remaining = 0
	if remaining.Sign() > 0 { // and so at most the limit
		d.Remaining = int(min(remaining.Int64(), math.MaxInt))
	}
	d.ResetAfter = 0
	if c.charged(at).Sign() > 0 {
		d.ResetAfter = between(now, c.first(at, new(big.Int)))
	}
}

// between returns the time from now to an instant.
func between(now time.Time, at *big.Int) time.Duration {
	n := new(big.Int).Sub(at, nanos(now))
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(n.Int64())
}

// take is Take.
func (m *model) take(now time.Time, r keyed.Request) limit.Decision {
	d := m.decide(now, r)
	if d.OK {
		c := m.counter(r)
		c.charge(c.from(now), units(r))
		m.describe(&d, now, r, 0)
	}
	return d
}

// takeMany charges all of the requests if all pass. Each is decided as if those before it in the
// batch had been charged, also those that do not pass. Of a decision the model has what the
// specification says: OK, RetryAfter and Never.
func (m *model) takeMany(now time.Time, requests []keyed.Request) (ds []limit.Decision, passed bool) {
	sums := map[counterID]*big.Int{}
	passed = true
	for _, r := range requests {
		c, sum := m.counter(r), sums[idOf(r)]
		if sum == nil {
			sum = new(big.Int)
			sums[idOf(r)] = sum
		}
		sum.Add(sum, big.NewInt(units(r)))
		at := c.from(now)
		room := new(big.Int).Sub(big.NewInt(int64(r.Limit)), sum)
		unheld := new(big.Int).Sub(room, c.held)
		d := limit.Decision{OK: c.effective(at).Cmp(room) <= 0}
		switch {
		case room.Sign() < 0:
			d.Never = true
		case !d.OK && unheld.Sign() >= 0:
			d.RetryAfter = between(now, c.first(at, unheld))
		}
		ds = append(ds, d)
		passed = passed && d.OK
	}
	for _, r := range requests {
		if c := m.counter(r); passed {
			c.charge(c.from(now), units(r))
		}
	}
	return ds, passed
}

// hold is Hold. A hold of nothing is one, too: its Commit may charge.
func (m *model) hold(now time.Time, r keyed.Request) limit.Decision {
	d := m.decide(now, r)
	if d.OK {
		c := m.counter(r)
		c.reach(c.from(now))
		c.held.Add(c.held, big.NewInt(units(r)))
		m.describe(&d, now, r, 0)
	}
	return d
}

// reset is Reset.
func (m *model) reset(now time.Time, r keyed.Request) {
	c := m.counter(r)
	clear(c.cells)
	if c.floor != nil {
		c.reach(nanos(now))
	}
}

// end is Commit of cost, and with cost 0 also Cancel.
func (m *model) end(now time.Time, r keyed.Request, cost int64) {
	c := m.counter(r)
	c.held.Sub(c.held, big.NewInt(units(r)))
	c.charge(c.from(now), cost)
}

func describeRequest(r keyed.Request) string {
	return fmt.Sprintf("{%s/%s %d of %d in %v}", r.Namespace, r.Key, r.Cost, r.Limit, r.Window)
}
