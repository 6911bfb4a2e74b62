package account

import (
	"math"
	"math/bits"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/limit"
)

// FoundLimits is the state of the search for one model's limits: what refusals have shown, and
// when the next request may start. It implements the Adaptive fields of ModelQuota. How a limit
// is found is package adaptive's. Instants are nanoseconds on the limiter's time line; wall is
// the same moment in UnixNano. Nil FoundLimits are those of a quota that searches for none.
// FoundLimits are not safe for concurrent use.
type FoundLimits struct {
	bounds SearchBounds // of the quota that they are searched for; zero where stored is what is known
	rate   adaptive.RateSearch
	slots  adaptive.SlotSearch
	gap    int64 // between requests
	used   int64 // the instant of the last request
	since  int64 // the instant from which on charges count to the windows of the searches
	told   bool  // the provider's headers say the limits of the minute

	// Of the last request, and those that were charged with it:
	latest   int64 // the instant
	together int   // how many were not taken back
	base     int64 // the instant from which on they keep others waiting,
	keeps    int64 // for so many gaps

	stored state.Found // what a file or another process has found, until a quota searches on
	seed   uint64      // of the jitter of searches that begin; 0 draws one at random
}

// SearchBounds is between which limits a quota searches. Those of a limit that it does not search
// for are zero.
type SearchBounds struct{ FloorRPM, CeilingRPM, FloorSlots, CeilingSlots int }

const (
	// lateness is by how much a request may start late, without those behind it starting later:
	// timers are late, and a rate of which every call came late would not be used up.
	lateness = int64(5 * time.Millisecond)
	// idleAfter is how long a model is not used before what was found of it ages.
	idleAfter = int64(time.Minute)
	// firstMultiple of the floor is where a search begins.
	firstMultiple = 2
	// smallBatch is how many requests keep others waiting, each for a gap, at any rate.
	smallBatch = 16
	// mostTogether bounds the calls that are looked at together, so that no product overflows.
	mostTogether = 1 << 20
	// farthestBatch bounds the place of a batch, however large.
	farthestBatch = int64(24 * time.Hour)
	// longestWait bounds what a provider asks to wait before a window begins.
	longestWait = int64(time.Minute)
	// clockSkew bounds what the clocks of processes differ by.
	clockSkew = int64(time.Second)
	// noRequest is the instant of the last request where there was none.
	noRequest = math.MinInt64
	// longestIdle bounds an age, so that no sum overflows: 36 years.
	longestIdle = time.Duration(1 << 60)
)

// SearchBoundsOf returns between which limits a quota searches. One that is invalid searches for
// none.
func SearchBoundsOf(q *state.Quota) (b SearchBounds) {
	if _, bad := q.Invalid(); bad {
		return b
	}
	if q.AdaptsRate() {
		b.FloorRPM, b.CeilingRPM = q.RateBounds()
	}
	if q.AdaptsSlots() {
		b.FloorSlots, b.CeilingSlots = q.SlotBounds()
	}
	return b
}

// newFoundLimits returns the limits between bounds, at the beginning of the search. The seed
// decides the jitter of their searches, also of those that begin with bind, so that the same calls
// find the same limits. 0 draws a seed at random for each.
func newFoundLimits(b SearchBounds, instant int64, seed uint64) *FoundLimits {
	l := &FoundLimits{bounds: b, used: instant, latest: noRequest, seed: seed}
	if b.FloorRPM > 0 {
		perMinute := func(n int) limit.Rate { return limit.Rate{Count: n, Per: time.Minute} }
		l.rate, _ = adaptive.NewRateSearch(adaptive.RateConfig{
			Floor: perMinute(b.FloorRPM), Ceiling: perMinute(b.CeilingRPM), Start: perMinute(firstOf(b.FloorRPM, b.CeilingRPM)),
			Seed: seed,
		})
		l.gap = int64(l.rate.Gap())
	}
	if b.FloorSlots > 0 {
		l.slots, _ = adaptive.NewSlotSearch(adaptive.ConcurrencyConfig{
			Floor: b.FloorSlots, Ceiling: b.CeilingSlots, Start: firstOf(b.FloorSlots, b.CeilingSlots), Seed: seed,
		})
	}
	return l
}

// firstOf is where a search between two limits begins.
func firstOf(floor, ceiling int) int {
	if floor > ceiling/firstMultiple {
		return ceiling
	}
	return floor * firstMultiple
}

// storedFoundLimits returns what a file or another process has found, for a quota that is to search
// on. The seed is that of newFoundLimits.
func storedFoundLimits(known state.Found, seed uint64) *FoundLimits {
	return &FoundLimits{stored: known, told: known.Told, seed: seed}
}

// Bounds returns between which limits is searched; zero where no quota has searched yet.
func (l *FoundLimits) Bounds() SearchBounds { return l.bounds }

// bind bounds the search by another quota. What was found before is brought into the bounds.
func (l *FoundLimits) bind(b SearchBounds, instant, wall int64) {
	known, was := l.Present(instant, wall), *l
	*l = *newFoundLimits(b, instant-int64(min(known.Age(wall), longestIdle)), was.seed)
	l.told, l.latest, l.together, l.base, l.keeps = was.told, was.latest, was.together, was.base, was.keeps
	l.resume(&known, instant, 0)
}

// resume takes over what was found, aged by how long ago that was.
func (l *FoundLimits) resume(known *state.Found, instant int64, age time.Duration) {
	l.since = instant
	if l.bounds.FloorRPM > 0 {
		l.rate.Resume(adaptive.SearchState(known.Rate), instant, age)
		l.gap = int64(l.rate.Gap())
	}
	if l.bounds.FloorSlots > 0 {
		l.slots.Resume(adaptive.SearchState(known.Slots), instant, age)
	}
}

// Present returns what was found, as it is stored.
func (l *FoundLimits) Present(instant, wall int64) state.Found {
	if l.bounds == (SearchBounds{}) {
		s := l.stored
		s.Told = l.told
		return s
	}
	s := state.Found{At: wall - max(instant-l.used, 0), Told: l.told}
	if l.bounds.FloorRPM > 0 {
		s.Rate = state.Search(l.rate.State(instant))
	}
	if l.bounds.FloorSlots > 0 {
		s.Slots = state.Search(l.slots.State(instant))
	}
	return s
}

// IsTold reports whether the provider says its limits of the minute, so that the rate does not
// apply.
func (l *FoundLimits) IsTold() bool { return l.told }

// Tell says whether the provider says its limits of the minute.
func (l *FoundLimits) Tell(told bool) { l.told = told }

// seeksRate reports whether the rate applies.
func (l *FoundLimits) seeksRate() bool { return l.bounds.FloorRPM > 0 && !l.told }

// opens returns the instant from which on the next request may start.
func (l *FoundLimits) opens() int64 {
	if l == nil || !l.seeksRate() {
		return 0
	}
	return l.next()
}

// next returns the instant from which on the next request may start. A rate that changes changes
// the gap behind the last request.
func (l *FoundLimits) next() int64 {
	if l.keeps > farthestBatch/l.gap {
		return l.base + farthestBatch
	}
	return l.base + l.keeps*l.gap
}

// keepsFor returns for how long the requests so far may keep others waiting.
func (l *FoundLimits) keepsFor(instant int64) int64 {
	if l == nil || l.bounds.FloorRPM == 0 {
		return 0
	}
	return max(l.next()+lateness-instant, 0)
}

// opensAtBest is opens if so many calls in flight are taken back.
func (l *FoundLimits) opensAtBest(inFlight int) int64 {
	opens := l.opens()
	if opens == 0 {
		return 0
	}
	return opens - l.gap*int64(min(inFlight, mostTogether))
}

// idle returns for how long the model was not used, if what was found of it has aged by that.
func (l *FoundLimits) idle(instant int64) time.Duration {
	if idle := instant - l.used; idle > idleAfter {
		return time.Duration(idle)
	}
	return 0
}

// Found returns the limits that were found, in requests per minute and calls in flight, 0 where
// none is searched for or applies.
func (l *FoundLimits) Found(instant int64) (rpm, slots int) {
	if l == nil {
		return 0, 0
	}
	rate, calls := l.rate, l.slots
	idle := l.idle(instant)
	if l.seeksRate() {
		if idle > 0 {
			rate.Resume(rate.State(instant), instant, idle)
		}
		r := rate.Rate()
		rpm = Scaled(int64(r.Count), int64(time.Minute), int64(r.Per))
	}
	if l.bounds.FloorSlots > 0 {
		if idle > 0 {
			calls.Resume(calls.State(instant), instant, idle)
		}
		slots = calls.Limit()
	}
	return rpm, slots
}

// Scaled returns n·num/den, rounded to the nearest. None is negative, den is positive, and the
// result fits.
func Scaled(n, num, den int64) int {
	high, low := bits.Mul64(uint64(n), uint64(num))
	low, carry := bits.Add64(low, uint64(den)/2, 0)
	scaled, _ := bits.Div64(high+carry, low, uint64(den))
	return int(scaled)
}

// mostSlots returns the limit of calls in flight that was found; 0 for none. While no call is in
// flight it returns the ceiling, so that a batch larger than the found limit can ever start.
func (l *FoundLimits) mostSlots(inFlight int, instant int64) int {
	if inFlight == 0 || l.bounds.FloorSlots == 0 {
		return l.bounds.CeilingSlots
	}
	if l.idle(instant) > 0 {
		_, slots := l.Found(instant)
		return slots
	}
	return l.slots.Limit()
}

// isDue reports whether a search has to go on before the next request is charged.
func (l *FoundLimits) isDue(instant int64) bool {
	return l.bounds != (SearchBounds{}) && (l.idle(instant) > 0 ||
		l.seeksRate() && l.rate.Ready(instant) || l.bounds.FloorSlots > 0 && l.slots.Ready(instant))
}

// goOn ages what was found of a model that was idle, or raises the limits whose windows were clean:
// before a request is counted, because nobody knows yet whether that will be refused. It returns
// which of the windows begin anew.
func (l *FoundLimits) goOn(instant int64) (anew int64) {
	if l.age(instant) {
		return state.RateAnew | state.SlotsAnew
	}
	if l.seeksRate() && l.rate.Ready(instant) {
		l.rate.Raise(instant)
		l.gap = int64(l.rate.Gap())
		anew = state.RateAnew
	}
	if l.bounds.FloorSlots > 0 && l.slots.Ready(instant) {
		l.slots.Raise(instant)
		anew |= state.SlotsAnew
	}
	return anew
}

// age ages what was found of a model that was idle, and reports whether it was.
func (l *FoundLimits) age(instant int64) (was bool) {
	idle := l.idle(instant)
	if idle == 0 || l.bounds == (SearchBounds{}) {
		return false
	}
	known := l.Present(instant, instant)
	l.resume(&known, instant, idle)
	l.used = instant
	return true
}

// count counts requests that were charged at instant. inFlight includes their calls. Requests
// that another process charged while it was cut off arrive late, and keep nobody waiting now.
// sharers is how many processes divide the rate; 0 means 1.
func (l *FoundLimits) count(instant int64, requests, inFlight, sharers int) {
	if requests <= 0 || l.bounds == (SearchBounds{}) {
		return // the time since what is stored was used goes on
	}
	if l.seeksRate() {
		n := min(requests, mostTogether)
		if instant >= l.since {
			l.rate.Count(instant, n)
		}
		if l.latest != noRequest && instant < l.latest-l.gap-clockSkew {
			n = 0
		} else if instant != l.latest {
			base := min(max(l.next(), instant-lateness), instant+l.depth())
			l.base, l.keeps, l.latest, l.together = base, 0, instant, 0
		}
		if l.keeps <= l.depth()/l.gap {
			l.together += n
			l.keeps += int64(n) * int64(min(max(sharers, 1), mostTogether))
		}
	}
	if l.bounds.FloorSlots > 0 && inFlight >= l.slots.Limit() {
		l.slots.Full()
	}
	l.used = max(l.used, instant)
}

// depth is for how long requests that were charged keep others waiting: for a minute, as the
// buckets of a quota do, or that of a small batch.
func (l *FoundLimits) depth() int64 { return max(int64(time.Minute), smallBatch*l.gap) }

// uncount takes a request back that was charged at an instant and not sent. Others may have started
// after it, by a gap each: only the last one makes room.
func (l *FoundLimits) uncount(charged int64) {
	if !l.seeksRate() {
		return
	}
	l.rate.Uncount(1)
	if charged == l.latest && l.together > 0 {
		l.keeps -= l.keeps / int64(l.together)
		l.together--
	}
}

// ended notes that a call has ended that was sent.
func (l *FoundLimits) ended(instant int64) {
	if l.bounds.FloorSlots > 0 {
		l.slots.Ended(instant)
	}
}

// Forget lets the next request start now.
func (l *FoundLimits) Forget() { l.base, l.keeps, l.latest, l.together = 0, 0, noRequest, 0 }
