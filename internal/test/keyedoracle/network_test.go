// An origin in memory, and the network between it and the nodes.

package keyedoracle_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// region is an origin that remembers all it was ever told.
type region struct {
	messages sync.WaitGroup // under way
	calls    atomic.Int64   // of limiters that wait for a reply

	mu     sync.Mutex
	counts map[keyed.Cell]int64
	seen   map[string]map[int64]bool // numbers of replays, by process
	reads  int
	adds   int
	twice  int // replays that came again
}

// newRegion returns an empty region. The test does not end before the last message has arrived.
func newRegion(t *testing.T) *region {
	g := &region{counts: map[keyed.Cell]int64{}, seen: map[string]map[int64]bool{}}
	t.Cleanup(g.messages.Wait)
	return g
}

func (g *region) read(cells []keyed.Cell) []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads++
	return g.countsLocked(cells)
}

func (g *region) countsLocked(cells []keyed.Cell) []int64 {
	counts := make([]int64, len(cells))
	for i, c := range cells {
		counts[i] = g.counts[c]
	}
	return counts
}

func (g *region) add(r keyed.Replay) []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.adds++
	if g.seen[r.Process] == nil {
		g.seen[r.Process] = map[int64]bool{}
	}
	again := g.seen[r.Process][r.Number]
	g.seen[r.Process][r.Number] = true
	cells := make([]keyed.Cell, len(r.Deltas))
	for i, d := range r.Deltas {
		cells[i] = d.Cell
		if !again {
			g.counts[d.Cell] += d.Add
		}
	}
	if again {
		g.twice++
	}
	return g.countsLocked(cells)
}

// closeAll closes limiters of a region. Afterwards none of them waits for a reply any more.
func (g *region) closeAll(t *testing.T, limiters []*keyed.Limiter) {
	t.Helper()
	for _, lim := range limiters {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		if err := lim.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
	}
	synctest.Wait() // for those that end at this instant
	if n := g.calls.Load(); n > 0 {
		t.Errorf("%d calls of the origin go on after Close", n)
	}
}

// all returns what is counted in each cell.
func (g *region) all() map[keyed.Cell]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}

// weather is how a network behaves.
type weather struct {
	roundTrip time.Duration // of a message and its reply, together
	jitter    time.Duration // up to this is added to each way, so that messages overtake others
	loss      float64       // share of the messages, and of the replies, that never arrive
	refuse    float64       // share of the messages that fail at once
	twice     float64       // share of the messages that arrive a second time, up to a minute later
}

// link is the connection of a node to its region: the Origin of its limiter.
type link struct {
	region *region

	mu      sync.Mutex
	weather weather
	random  *rand.Rand
	replays map[int64]bool       // numbers of those that were sent; true: and acknowledged
	sent    map[keyed.Cell]int64 // their units
	acked   map[keyed.Cell]int64 // those of them that were acknowledged
	known   map[keyed.Cell]known // what replies have told the node
}

// known is what a node has to know of a cell: the highest count that a reply told, and how much of
// that is of others at least. As long as a replay is not acknowledged, the node cannot tell
// whether a count has it.
type known struct{ others, total int64 }

func newLink(g *region, node int, w weather, seed uint64) *link {
	return &link{
		region: g, weather: w,
		replays: map[int64]bool{}, sent: map[keyed.Cell]int64{}, acked: map[keyed.Cell]int64{}, known: map[keyed.Cell]known{},
		random: rand.New(rand.NewPCG(seed, uint64(node))),
	}
}

var errNetwork = errors.New("connection refused")

// fate is what happens to a message.
type fate struct {
	there, back              time.Duration
	refused, lost, lostReply bool
	again                    time.Duration // how much later it arrives again, 0 if it does not
}

func (l *link) fate() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, f := l.weather, fate{}
	way := func() time.Duration {
		return w.roundTrip/2 + time.Duration(l.random.Int64N(int64(w.jitter)+1))
	}
	f.there, f.back = way(), way()
	f.refused = l.random.Float64() < w.refuse
	f.lost, f.lostReply = l.random.Float64() < w.loss, l.random.Float64() < w.loss
	if l.random.Float64() < w.twice {
		f.again = time.Duration(1 + l.random.Int64N(int64(time.Minute)))
	}
	return f
}

// become changes how the network behaves.
func (l *link) become(w weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weather = w
}

// pass lets time pass, or reports that the caller has given up before.
func pass(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send carries a message to the region and its reply back. What was sent arrives although its
// sender has given up, unless it is lost.
func (l *link) send(ctx context.Context, cells []keyed.Cell, serve func() []int64) ([]int64, error) {
	l.region.messages.Add(1)
	l.region.calls.Add(1)
	defer l.region.messages.Done()
	defer l.region.calls.Add(-1)
	f := l.fate()
	if f.refused {
		return nil, errNetwork
	}
	replies := make(chan []int64, 1)
	if !f.lost {
		l.region.messages.Go(func() {
			time.Sleep(f.there)
			replies <- serve()
			if f.again > 0 {
				time.Sleep(f.again)
				serve()
			}
		})
	}
	select {
	case counts := <-replies:
		if f.lostReply {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if err := pass(ctx, f.back); err != nil {
			return nil, err
		}
		l.learn(cells, counts)
		return counts, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *link) learn(cells []keyed.Cell, counts []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range cells {
		k := l.known[c]
		l.known[c] = known{max(k.others, counts[i]-l.sent[c]), max(k.total, counts[i])}
	}
}

// told returns what replies have told the node of a cell.
func (l *link) told(c keyed.Cell) known {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[c]
}

// Read implements keyed.Origin.
func (l *link) Read(ctx context.Context, cells []keyed.Cell) ([]int64, error) {
	cells = append([]keyed.Cell(nil), cells...)
	return l.send(ctx, cells, func() []int64 { return l.region.read(cells) })
}

// inDoubt returns how much of a cell was sent, and how much of that was acknowledged.
func (l *link) inDoubt(c keyed.Cell) (sent, acked int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent[c], l.acked[c]
}

// Add implements keyed.Origin.
func (l *link) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	r.Deltas = append([]keyed.Delta(nil), r.Deltas...)
	cells := make([]keyed.Cell, len(r.Deltas))
	l.mu.Lock()
	acked, again := l.replays[r.Number]
	for i, d := range r.Deltas {
		cells[i] = d.Cell
		if !again {
			l.sent[d.Cell] += d.Add
		}
	}
	l.replays[r.Number] = acked
	l.mu.Unlock()
	counts, err := l.send(ctx, cells, func() []int64 { return l.region.add(r) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && !l.replays[r.Number] {
		l.replays[r.Number] = true
		for _, d := range r.Deltas {
			l.acked[d.Cell] += d.Add
		}
	}
	return counts, err
}
