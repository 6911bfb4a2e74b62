package memlog

import (
	"math/rand/v2"
	"time"
)

// Faults say what goes wrong with calls, and how often: in 1,000 calls. The zero value is a store
// without faults, whose answers take no time.
type Faults struct {
	Seed uint64

	Direct  bool          // requests arrive as they are sent, and take no time: without other faults
	Latency time.Duration // one way: half of it to twice
	Slow    int           // one way takes up to SlowBy more
	SlowBy  time.Duration

	// Of appends.
	Refused     int // ErrNotWritten
	RequestLost int // not written, and no answer
	ReplyLost   int // written, and no answer
	Late        int // no answer, and written up to LateBy later, unless the log is another one by then
	Twice       int // written, answered, and written again up to LateBy later
	LateBy      time.Duration
	Blind       int // of those that find that their place was trimmed: written all the same
	Gap         int // the batch leaves out up to 9 numbers before each entry

	Unheard int // of all other calls: no answer

	// Page is how many entries a page has at most: each has one to that many. Zero is 512 in each.
	Page int

	// NoInstant is a store that has only a wall clock: Stamp.Instant is 0.
	NoInstant bool
	// Tick is the resolution of stamps; zero is 1 ns.
	Tick time.Duration
	// Witness is a store whose logs see deaths.
	Witness bool
}

// timeout is how long a call waits for its answer.
const timeout = 250 * time.Millisecond

// Hostile are faults of all kinds.
func Hostile(seed uint64) Faults {
	return Faults{
		Seed: seed, Latency: 300 * time.Microsecond, Slow: 20, SlowBy: 400 * time.Millisecond,
		Refused: 10, RequestLost: 10, ReplyLost: 20, Late: 20, Twice: 20, LateBy: 5 * time.Second,
		Blind: 500, Gap: 100, Unheard: 20, Page: 7,
	}
}

// kind is a kind of call.
type kind uint64

const (
	appends kind = iota
	reads
	loads
	saves
	begins
)

// call names a call.
type call struct {
	process int64
	kind    kind
	n       uint64 // of its kind by the process
}

// outcome is what becomes of a call.
type outcome int

const (
	answered outcome = iota
	refused
	requestLost
	replyLost
	late
	twice
)

// fate is what becomes of one call.
type fate struct {
	call
	there, back time.Duration
	outcome     outcome
	lateBy      time.Duration
	blind       bool
	gap         int64
	page        int
}

// fate draws what becomes of a call.
func (f *Faults) fate(of call) fate {
	r := rand.New(rand.NewPCG(f.Seed^uint64(of.process), of.n<<3|uint64(of.kind)))
	is := fate{call: of, there: f.way(r), back: f.way(r), page: 512}
	if f.LateBy > 0 {
		is.lateBy = time.Duration(r.Int64N(int64(f.LateBy)))
	}
	is.blind = r.IntN(1000) < f.Blind
	if r.IntN(1000) < f.Gap {
		is.gap = r.Int64N(10)
	}
	if f.Page > 0 {
		is.page = 1 + r.IntN(f.Page)
	}
	is.outcome = f.outcome(of.kind, r.IntN(1000))
	return is
}

// outcome returns what the lot says, of 1,000.
func (f *Faults) outcome(k kind, lot int) outcome {
	odds := [twice + 1]int{
		refused: f.Refused, requestLost: f.RequestLost, replyLost: f.ReplyLost, late: f.Late, twice: f.Twice,
	}
	if k != appends {
		odds = [twice + 1]int{requestLost: f.Unheard / 2, replyLost: f.Unheard - f.Unheard/2}
	}
	for o, in1000 := range odds {
		if lot < in1000 {
			return outcome(o)
		}
		lot -= in1000
	}
	return answered
}

// way draws how long a request or an answer takes.
func (f *Faults) way(r *rand.Rand) time.Duration {
	way := f.Latency/2 + time.Duration(r.Int64N(int64(f.Latency*3/2)+1))
	if r.IntN(1000) < f.Slow && f.SlowBy > 0 {
		way += time.Duration(r.Int64N(int64(f.SlowBy)))
	}
	return way
}
