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
	// Timeout is how long a call waits for its answer; zero is 250 ms.
	Timeout time.Duration
}

// Hostile are faults of all kinds.
func Hostile(seed uint64) Faults {
	return Faults{
		Seed: seed, Latency: 300 * time.Microsecond, Slow: 20, SlowBy: 400 * time.Millisecond,
		Refused: 10, RequestLost: 10, ReplyLost: 20, Late: 20, Twice: 20, LateBy: 5 * time.Second,
		Blind: 500, Gap: 100, Unheard: 20, Page: 7,
	}
}

func (f *Faults) timeout() time.Duration {
	if f.Timeout == 0 {
		return 250 * time.Millisecond
	}
	return f.Timeout
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
	there, back time.Duration
	outcome     outcome
	lateBy      time.Duration
	blind       bool
	gap         int64
	page        int
}

// fate draws what becomes of the n-th call of a kind by a process.
func (f *Faults) fate(process int64, k kind, n uint64) fate {
	r := rand.New(rand.NewPCG(f.Seed^uint64(process), n<<3|uint64(k)))
	is := fate{there: f.way(r), back: f.way(r), page: 512}
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
	is.outcome = f.outcome(k, r.IntN(1000))
	return is
}

func (f *Faults) outcome(k kind, lot int) outcome {
	odds := []struct {
		outcome outcome
		in1000  int
	}{{refused, f.Refused}, {requestLost, f.RequestLost}, {replyLost, f.ReplyLost}, {late, f.Late}, {twice, f.Twice}}
	if k != appends {
		odds = odds[1:3]
		odds[0].in1000, odds[1].in1000 = f.Unheard/2, f.Unheard-f.Unheard/2
	}
	for _, o := range odds {
		if lot < o.in1000 {
			return o.outcome
		}
		lot -= o.in1000
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
