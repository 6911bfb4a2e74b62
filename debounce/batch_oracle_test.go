package debounce_test

import (
	"maps"
	"math"
	"slices"
	"time"
)

// batchKind is what is played with, and what becomes of two values of a key.
type batchKind int

const (
	batchList   batchKind = iota // a Batcher
	batchLatest                  // a Coalescer
	batchMerged                  // a Coalescer with Merge
)

// batchScript is what is done, and how long what is called back takes.
type batchScript struct {
	kind           batchKind
	delay, maxWait time.Duration
	maxSize        int
	flushes        []time.Duration // how long each flush takes, over and over
	ops            []batchOp       // by instant, no two at the same
}

// batchOp has a goroutine of its own; the value that it adds is its number.
type batchOp struct {
	at    time.Duration
	what  string // add, flush, stop
	key   int
	merge time.Duration // how long it takes to merge the value, should it have to be
}

// batchResult is what came of a script.
type batchResult struct {
	returns []batchReturn // by op
	flushes []batchFlush
}

type batchReturn struct {
	at time.Duration
	ok bool
}

// batchFlush is a batch, with the values by key (all under 0 in a Batcher's).
type batchFlush struct {
	at     time.Duration
	values map[int][]int
}

func (f batchFlush) equal(g batchFlush) bool {
	return f.at == g.at && maps.EqualFunc(f.values, g.values, slices.Equal)
}

// batchModel goes through a script from instant to instant. Which of several Adds gets in
// first is not promised: pick decides, and a branch ends as soon as it differs from what
// was seen.
type batchModel struct {
	batchScript
	pick func(n int) int
	seen batchResult

	got  batchResult
	tie  bool // what happens depends on an order that the model does not know
	fail bool // not what was seen
	now  time.Duration

	values      map[int][]int // the batch
	size        int
	first, last time.Duration
	due         bool

	running     bool
	began, ends time.Duration
	flusher     int  // the op that runs the flush, or -1
	more        bool // it is to run the next batch, too

	merger    int // the op that merges, or -1
	mergeEnds time.Duration

	waiting []int // ops that wait to get in
	stopped bool
	stops   []int // ops that wait for the end
}

// batchModelled reports whether a result may come of a script, or cannot be told,
// and else what the model makes of the script as far as it got.
func batchModelled(s batchScript, seen batchResult) (ok, tie bool, want batchResult) {
	var picks, outOf []int
	// Many that wait at a time have too many orders to try.
	for tries := 0; ; tries++ {
		if tries == 20_000 {
			return false, true, want
		}
		depth := 0
		m := batchModel{batchScript: s, seen: seen, flusher: -1, merger: -1}
		m.pick = func(n int) int {
			if depth == len(picks) {
				picks, outOf = append(picks, 0), append(outOf, n)
			}
			depth++
			return picks[depth-1]
		}
		m.run()
		if !m.fail && !m.tie {
			return true, false, m.got
		}
		tie, want = tie || m.tie, m.got
		picks, outOf = picks[:depth], outOf[:depth]
		for len(picks) > 0 && picks[len(picks)-1] == outOf[len(picks)-1]-1 {
			picks, outOf = picks[:len(picks)-1], outOf[:len(picks)-1]
		}
		if len(picks) == 0 {
			return false, tie, want
		}
		picks[len(picks)-1]++
	}
}

func (m *batchModel) run() {
	const never = time.Duration(math.MaxInt64)
	m.got.returns = make([]batchReturn, len(m.ops))
	returned := 0
	for next := 0; !m.fail && !m.tie; {
		at := []time.Duration{never, never, never, never}
		if next < len(m.ops) {
			at[0] = m.ops[next].at
		}
		if m.size > 0 && !m.due {
			at[1] = m.last + m.delay
			if m.maxWait > 0 {
				at[1] = min(at[1], m.first+m.maxWait)
			}
		}
		if m.running {
			at[2] = m.ends
		}
		if m.merger >= 0 {
			at[3] = m.mergeEnds
		}
		what := 0
		for i := range at {
			if at[i] < at[what] {
				what = i
			}
		}
		if at[what] == never {
			m.fail = len(m.got.flushes) != len(m.seen.flushes) || len(m.waiting) > 0
			return
		}
		for i := range at {
			m.tie = m.tie || i != what && at[i] == at[what]
		}
		m.now = max(m.now, at[what])
		switch what {
		case 0:
			m.start(next)
			next++
		case 1:
			m.flush()
		case 2:
			m.endFlush()
		case 3:
			i := m.merger
			m.merger = -1
			m.put(i)
			if m.due {
				m.flush()
			}
			m.done(i, true)
		}
		m.letIn()
		for m.stopped && !m.running && m.merger < 0 && returned < len(m.stops) {
			m.done(m.stops[returned], true)
			returned++
		}
	}
}

func (m *batchModel) start(i int) {
	switch m.ops[i].what {
	case "stop":
		m.stops = append(m.stops, i)
		if m.stopped {
			return
		}
		m.stopped = true
		for _, w := range m.waiting {
			if m.ops[w].what == "add" {
				m.done(w, false)
			}
		}
		m.waiting = slices.DeleteFunc(m.waiting, func(w int) bool { return m.ops[w].what == "add" })
		m.flush()
	case "add":
		if m.stopped {
			m.done(i, false)
			return
		}
		m.waiting = append(m.waiting, i)
	case "flush":
		m.waiting = append(m.waiting, i)
	}
}

// letIn lets in the Adds that can get in.
func (m *batchModel) letIn() {
	for m.merger < 0 && !m.fail && !m.tie {
		var able []int
		for w, i := range m.waiting {
			if m.ops[i].what == "flush" || m.maxSize == 0 || m.size < m.maxSize {
				able = append(able, w)
			}
		}
		if len(able) == 0 {
			return
		}
		w := able[m.pick(len(able))]
		i := m.waiting[w]
		m.waiting = slices.Delete(m.waiting, w, w+1)
		op := m.ops[i]
		switch {
		case op.what == "flush":
			m.flushBy(i)
		case m.kind == batchMerged && m.values[op.key] != nil && op.merge > 0:
			m.merger, m.mergeEnds = i, m.now+op.merge
		default:
			m.put(i)
			m.done(i, true)
		}
	}
}

func (m *batchModel) put(i int) {
	key := m.ops[i].key
	if m.kind == batchList {
		key = 0
	}
	if m.size == 0 {
		m.first = m.now
		m.values = map[int][]int{}
	}
	m.last = m.now
	if m.kind == batchLatest {
		m.values[key] = nil
	}
	m.values[key] = append(m.values[key], i)
	m.size = len(m.values)
	if m.kind == batchList {
		m.size = len(m.values[0])
	}
	if m.size == m.maxSize {
		m.flush()
	}
}

// flush has it be time for the batch.
func (m *batchModel) flush() {
	m.due = m.size > 0
	if m.due && !m.running && m.merger < 0 {
		m.begin()
	}
}

func (m *batchModel) begin() {
	n := len(m.got.flushes)
	f := batchFlush{m.now, m.values}
	m.got.flushes = append(m.got.flushes, f)
	m.fail = m.fail || n >= len(m.seen.flushes) || !f.equal(m.seen.flushes[n])
	m.running, m.flusher, m.began = true, -1, m.now
	m.ends = m.now + m.flushes[n%len(m.flushes)]
	m.values, m.size, m.due = nil, 0, false
	// A waiting Add may come before the end of a flush that takes no time, or after.
	m.tie = m.tie || m.ends == m.now && len(m.waiting) > 0
}

// flushBy is a call of Flush. If a flush is to begin at this very instant, it may
// still get hold of it.
func (m *batchModel) flushBy(i int) {
	switch {
	case !m.running && m.size == 0:
		m.done(i, true)
	case !m.running:
		m.begin()
		m.flusher, m.more = i, false
	default:
		m.due = m.size > 0
		if m.began != m.now || m.flusher >= 0 || m.pick(2) == 0 {
			m.done(i, true)
			return
		}
		m.flusher, m.more = i, m.due
	}
}

func (m *batchModel) endFlush() {
	m.running = false
	flusher := m.flusher
	if m.due && m.merger < 0 {
		m.begin()
		if flusher >= 0 && m.more {
			m.flusher, m.more = flusher, false
			return
		}
	}
	if flusher >= 0 {
		m.done(flusher, true)
	}
}

func (m *batchModel) done(i int, ok bool) {
	m.got.returns[i] = batchReturn{m.now, ok}
	m.fail = m.fail || m.got.returns[i] != m.seen.returns[i]
}
