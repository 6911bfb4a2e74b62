// Laws of the counts that regions exchange, under random schedules.

package keyedoracle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// bus carries rows between regions, and is as bad as it may be: it fails, it hangs, it brings a
// row again, or one that a later one has replaced, and it brings rows in any order. What a region
// has pushed it brings at last, unless its loss is 1.
type bus struct {
	mu      sync.Mutex
	random  *rand.Rand
	loss    float64 // share of the calls that fail, before or after they had their effect
	hang    float64 // share of the calls that hang
	repeats bool    // old rows come again, in any order
	log     []keyed.Row
	check   func(pusher string, rows []keyed.Row)
}

// door is the way of one process to the bus.
type door struct {
	*bus
	region string
}

// before decides on a call: whether it has its effect, and what it returns.
func (b *bus) before(ctx context.Context) (effect bool, err error) {
	b.mu.Lock()
	hang, fails, effect := b.random.Float64() < b.hang, b.random.Float64() < b.loss, b.random.IntN(2) == 0
	b.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		return effect, ctx.Err()
	case fails:
		return effect, errNetwork
	}
	return true, pass(ctx, 10*time.Millisecond)
}

// Push implements keyed.Exchange.
func (d door) Push(ctx context.Context, rows []keyed.Row) error {
	effect, err := d.before(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.check(d.region, rows)
	if effect {
		d.log = append(d.log, rows...)
	}
	return err
}

// Pull implements keyed.Exchange. A cursor is a position in the log.
func (d door) Pull(ctx context.Context, cursor string) ([]keyed.Row, string, error) {
	if _, err := d.before(ctx); err != nil {
		return nil, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	from := 0
	if cursor != "" {
		if _, err := fmt.Sscan(cursor, &from); err != nil {
			return nil, "", err
		}
	}
	rows := slices.Clone(d.log[from:])
	if d.repeats && len(rows) > 0 { // not for ever: a Pull without rows is the last
		for range d.random.IntN(10) {
			rows = append(rows, d.log[len(d.log)-1-d.random.IntN(min(len(d.log), 12))])
		}
		d.random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	return rows, fmt.Sprint(len(d.log)), nil
}

const interval = time.Second

// world is some regions with a limiter each, or some that share an origin.
type world struct {
	t        *testing.T
	random   *rand.Rand
	bus      *bus
	names    []string // the region of each limiter
	limiters []*keyed.Limiter
	links    []*link // of each limiter to its origin, or nil
	request  keyed.Request
	own      map[string]int // what each region has admitted in this cell
	views    []int          // the last view of each limiter
	doubts   []int64        // how much of that may count twice
	mu       sync.Mutex
	calls    []string
}

// Each view is between what its own region admitted and all that was admitted, never shrinks
// within a cell, and is all of it two intervals after the last change. What a region publishes is
// what it admitted, and nothing of others.
func TestRegionsKeepTheLaws(t *testing.T) {
	for seed := range uint64(times(60, 2000)) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			for range 4 { // windows
				w.cell()
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, strings.Join(w.calls[max(0, len(w.calls)-40):], "\n"))
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 5)), own: map[string]int{}}
	w.bus = &bus{random: rand.New(rand.NewPCG(seed, 6)), repeats: seed%2 == 0, check: w.published}
	regions := 2 + int(seed%3)
	for i := range regions {
		name := fmt.Sprint("region", i)
		var g *region
		nodes := 1
		if seed%4 == 3 {
			nodes, g = 2, newRegion(t)
		}
		for n := range nodes {
			o := keyed.Options{Exchange: door{w.bus, name}, Region: name, ExchangeEvery: interval}
			var l *link
			if g != nil {
				l = newLink(g, n, weather{roundTrip: 10 * time.Millisecond}, seed)
				o.Origin = l
			}
			w.links = append(w.links, l)
			w.names = append(w.names, name)
			w.limiters = append(w.limiters, newLimiter(t, o))
		}
	}
	w.request = keyed.Request{Namespace: "n", Key: "k", Limit: 60, Window: time.Minute}
	w.views, w.doubts = make([]int, len(w.limiters)), make([]int64, len(w.limiters))
	return w
}

// published holds each row against what its region has admitted. The bus is locked.
func (w *world) published(pusher string, rows []keyed.Row) {
	now := time.Now().UnixNano() / int64(w.request.Window)
	for _, r := range rows {
		w.say("%s pushes %+v", pusher, r)
		if r.Region != pusher {
			w.t.Errorf("%s publishes a row of %s", pusher, r.Region)
		}
		if r.Sequence == now && r.Count > int64(w.own[pusher]) {
			w.t.Errorf("%s publishes %d, and has admitted %d", pusher, r.Count, w.own[pusher])
		}
	}
}

func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// cell is one window: half a minute of trouble, and then peace.
func (w *world) cell() {
	window := w.request.Window
	start := time.Now().Truncate(window).Add(window)
	time.Sleep(time.Until(start))
	w.bus.mu.Lock()
	w.own = map[string]int{}
	w.bus.loss, w.bus.hang = float64(w.random.IntN(4))/5, float64(w.random.IntN(3))/10
	w.bus.mu.Unlock()
	w.views, w.doubts = make([]int, len(w.limiters)), make([]int64, len(w.limiters))
	w.request.Key = fmt.Sprint("cell ", start.Unix()) // so that no cell is before it
	for time.Since(start) < 30*time.Second {
		w.step()
	}
	w.bus.mu.Lock()
	w.bus.loss, w.bus.hang = 0, 0
	w.bus.mu.Unlock()
	w.settle()
}

func (w *world) step() {
	i := w.random.IntN(len(w.limiters))
	r := w.request
	switch w.random.IntN(4) {
	case 0:
		time.Sleep(time.Duration(w.random.Int64N(int64(interval))))
	case 1:
		w.look(i)
	case 2:
		// What is held is not published: nothing of it is admitted, until it is committed.
		r.Cost = int(1 + w.random.Int64N(8))
		h, d, err := w.limiters[i].Hold(context.Background(), r)
		if err != nil || !d.OK {
			return
		}
		time.Sleep(time.Duration(w.random.Int64N(int64(2 * interval))))
		if w.random.IntN(2) == 0 {
			w.admit(i, int64(r.Cost), func() bool { h.Commit(r.Cost); return true })
		} else {
			h.Cancel()
		}
	default:
		r.Cost = int(1 + w.random.Int64N(8))
		w.admit(i, int64(r.Cost), func() bool {
			d, err := w.limiters[i].Take(context.Background(), r)
			if err != nil {
				w.t.Error(err)
			}
			return d.OK
		})
	}
}

// admit counts what a region admits before it is asked, lest it publishes sooner than this
// returns.
func (w *world) admit(i int, cost int64, ask func() bool) {
	w.count(w.names[i], int(cost))
	if !ask() {
		w.count(w.names[i], -int(cost))
		return
	}
	w.say("%d of %s admits %d", i, w.names[i], cost)
}

func (w *world) count(region string, n int) {
	w.bus.mu.Lock()
	defer w.bus.mu.Unlock()
	w.own[region] += n
}

func (w *world) total() (n int) {
	w.bus.mu.Lock()
	defer w.bus.mu.Unlock()
	for _, own := range w.own {
		n += own
	}
	return n
}

// look holds the view of a limiter against the laws. What is in doubt, sent to its origin and not
// acknowledged, may count twice.
func (w *world) look(i int) {
	var doubt int64
	cell := keyed.Cell{
		Namespace: w.request.Namespace, Key: w.request.Key, Window: w.request.Window,
		Sequence: time.Now().UnixNano() / int64(w.request.Window),
	}
	if w.links[i] != nil {
		_, acked := w.links[i].inDoubt(cell)
		doubt -= acked
	}
	n := count(w.t, w.limiters[i], time.Now(), w.request)
	if w.links[i] != nil {
		sent, _ := w.links[i].inDoubt(cell)
		doubt += sent
	}
	w.say("%d of %s knows of %d", i, w.names[i], n)
	if int64(n) < int64(w.views[i])-w.doubts[i] {
		w.t.Errorf("limiter %d knew of %d, and then of %d", i, w.views[i], n)
	}
	if total := w.total(); int64(n) > int64(total)+doubt {
		w.t.Errorf("limiter %d knows of %d, and there is %d", i, n, total)
	}
	w.views[i], w.doubts[i] = n, doubt
}

// settle waits for two intervals after a last change of each limiter. A region tells others of
// itself if it has a reason: it knows of a foreign count, or has used a fifth of the limit.
func (w *world) settle() {
	time.Sleep(5 * time.Second) // calls that hang
	for i := range w.limiters {
		r := w.request
		r.Cost = 1
		h, d, err := w.limiters[i].Hold(context.Background(), r)
		if err != nil {
			w.t.Error(err)
		}
		if d.OK {
			w.admit(i, int64(r.Limit/5), func() bool { h.Commit(r.Limit / 5); return true })
		}
	}
	time.Sleep(200 * time.Millisecond) // from the nodes of a region to its origin
	time.Sleep(2 * interval)
	for i := range w.limiters {
		w.look(i)
		if w.views[i] != w.total() {
			w.t.Errorf("limiter %d knows of %d after two intervals, and there is %d", i, w.views[i], w.total())
		}
	}
}

// A process that begins anew learns from the rows of its own region what that had admitted, and
// goes on from there. Nobody counts it twice.
func TestRegionBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{random: rand.New(rand.NewPCG(1, 1)), check: func(string, []keyed.Row) {}}
		begin := func(name string) *keyed.Limiter {
			return newLimiter(t, keyed.Options{Exchange: door{b, name}, Region: name, ExchangeEvery: interval})
		}
		r := keyed.Request{Namespace: "n", Key: "k", Limit: 20, Window: time.Hour, Cost: 4}
		east, west := begin("east"), begin("west")
		take(t, east, time.Now(), r)
		take(t, west, time.Now(), r)
		time.Sleep(2 * interval)
		if err := east.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		east = begin("east")
		time.Sleep(2 * interval)
		r.Cost = 5
		if d := take(t, east, time.Now(), r); !d.OK || d.Remaining != 7 {
			t.Errorf("east begins anew: %+v, want 7 of 20 remaining after 4, 4 and 5", d)
		}
		time.Sleep(2 * interval)
		for name, lim := range map[string]*keyed.Limiter{"east": east, "west": west} {
			if n := count(t, lim, time.Now(), r); n != 13 {
				t.Errorf("%s knows of %d, want 13", name, n)
			}
		}
	})
}
