package ratelimit

import (
	"math"
	"math/bits"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/limit"
)

// found is what was found of a model's limits by being refused, see ModelQuota.AdaptiveFloorRPM,
// and what spaces its requests.
type found struct {
	bounds foundBounds // of the quota that it is searched for; zero where stored is what is known
	rate   adaptive.RateSearch
	slots  adaptive.SlotSearch
	gap    int64 // between requests; 0 where the rate is not searched for
	next   int64 // the instant from which on the next request may start
	used   int64 // when a request was last charged, in UnixNano
	told   bool  // the provider's headers say the limits of the minute

	stored   state.Found // what a file or another process has found, until a quota searches for it
	spreadAt int64       // the instant at which the other processes were last told
	since    int64       // the instant from which on charges count to the windows of the searches
}

// foundBounds is between which limits a quota searches. Those of a limit that it does not search
// for are zero.
type foundBounds struct{ floorRPM, ceilingRPM, floorSlots, ceilingSlots int }

const (
	// lateness is by how much a request may start late, without those behind it starting later:
	// timers are late, and a rate of which every call came late would not be used up.
	lateness = int64(5 * time.Millisecond)
	// idleAfter is how long a model is not used before what was found of it ages.
	idleAfter = minute
	// spreadEvery is how often other processes are told of refusals that lower nothing.
	spreadEvery = int64(500 * time.Millisecond)
	// firstMultiple of the floor is where a search begins.
	firstMultiple = 2
)

// adapts reports whether the quota searches for a limit. One that is invalid does, too.
func (q *ModelQuota) adapts() bool {
	return q.AdaptiveFloorRPM|q.AdaptiveCeilingRPM|q.AdaptiveFloorInFlight|q.AdaptiveCeilingInFlight != 0
}

// limitsSlots reports whether the quota limits the calls in flight, by a number or by one to be
// found.
func (q *ModelQuota) limitsSlots() bool {
	return q.MaxInFlight|q.AdaptiveFloorInFlight|q.AdaptiveCeilingInFlight != 0
}

// foundBounds returns between which limits the quota searches.
func (q *ModelQuota) foundBounds() (b foundBounds) {
	is := (*state.Quota)(q)
	if _, bad := is.Invalid(); bad {
		return b
	}
	if is.AdaptsRate() {
		b.floorRPM, b.ceilingRPM = is.RateBounds()
	}
	if is.AdaptsSlots() {
		b.floorSlots, b.ceilingSlots = is.SlotBounds()
	}
	return b
}

// newFound returns the search for the limits of a quota, at its beginning.
func newFound(b foundBounds) *found {
	f := &found{bounds: b}
	if b.floorRPM > 0 {
		perMinute := func(n int) limit.Rate { return limit.Rate{Count: n, Per: time.Minute} }
		f.rate, _ = adaptive.NewRateSearch(adaptive.RateConfig{
			Floor: perMinute(b.floorRPM), Ceiling: perMinute(b.ceilingRPM), Start: perMinute(firstOf(b.floorRPM, b.ceilingRPM)),
		})
		f.gap = int64(f.rate.Gap())
	}
	if b.floorSlots > 0 {
		f.slots, _ = adaptive.NewSlotSearch(adaptive.ConcurrencyConfig{
			Floor: b.floorSlots, Ceiling: b.ceilingSlots, Start: firstOf(b.floorSlots, b.ceilingSlots),
		})
	}
	return f
}

// firstOf is where a search between two limits begins.
func firstOf(floor, ceiling int) int {
	if floor > ceiling/firstMultiple {
		return ceiling
	}
	return floor * firstMultiple
}

// foundRLocked returns what was found for a quota; nil where it searches for nothing, or the search
// has to be begun or bounded anew first.
func (rl *RateLimiter) foundRLocked(name string, q *ModelQuota) *found {
	if f := rl.found[name]; f != nil && f.bounds == q.foundBounds() && f.bounds != (foundBounds{}) {
		return f
	}
	return nil
}

// foundLocked is foundRLocked for one that is bounded by the quota. Without charges it begins no
// search: names that are only asked for take no memory.
func (rl *RateLimiter) foundLocked(name string, q *ModelQuota, instant int64, charges bool) *found {
	b, f := q.foundBounds(), rl.found[name]
	switch {
	case b == foundBounds{}:
		return nil
	case f != nil && f.bounds == b:
		return f
	case f != nil:
		wall := rl.clock.UnixNano(instant)
		f.bind(b, instant, f.present(instant, wall))
		return f
	}
	f = newFound(b)
	f.used = rl.clock.UnixNano(instant)
	if charges {
		rl.keepFoundLocked(name, f)
	}
	return f
}

// keepFoundLocked keeps what was found of a model. There are at most so many as twice the models
// that may have state: then one of them has none, and is forgotten.
func (rl *RateLimiter) keepFoundLocked(name string, f *found) {
	if rl.found == nil {
		rl.found = make(map[string]*found)
	}
	if most := 2 * (rl.mostModels() + len(rl.Quotas)); len(rl.found) >= most && rl.found[name] == nil {
		for other := range rl.found {
			if rl.State[other] == nil {
				delete(rl.found, other)
				break
			}
		}
	}
	rl.found[strings.Clone(name)] = f // see stateLocked
}

// bind bounds a search by another quota. What was found before is brought into the bounds.
func (f *found) bind(b foundBounds, instant int64, known state.Found) {
	next, used, told, spreadAt := f.next, f.used, f.told, f.spreadAt
	*f = *newFound(b)
	f.next, f.used, f.told, f.spreadAt = next, used, told, spreadAt
	f.resume(&known, instant, 0)
}

// resume takes over what was found, aged by how long ago that was.
func (f *found) resume(known *state.Found, instant int64, age time.Duration) {
	f.since = instant
	if f.bounds.floorRPM > 0 {
		f.rate.Resume(adaptive.SearchState(known.Rate), instant, age)
		f.follow(instant)
	}
	if f.bounds.floorSlots > 0 {
		f.slots.Resume(adaptive.SearchState(known.Slots), instant, age)
	}
}

// follow spaces the requests by the rate. Those that were charged before keep their place.
func (f *found) follow(instant int64) {
	gap := int64(f.rate.Gap())
	if left := min(f.next-instant, maxLeft); left > 0 && f.gap > 0 && gap != f.gap {
		high, low := bits.Mul64(uint64(left), uint64(gap))
		left := int64(maxLeft)
		if high < uint64(f.gap) {
			q, _ := bits.Div64(high, low, uint64(f.gap))
			left = int64(min(q, uint64(maxLeft)))
		}
		f.next = instant + left
	}
	f.gap = gap
}

// maxLeft bounds the time for which requests that were charged keep others waiting.
const maxLeft = day

// present returns what was found, as it is stored.
func (f *found) present(instant, wall int64) state.Found {
	if f.bounds == (foundBounds{}) {
		return f.stored
	}
	s := state.Found{At: max(f.used, 1), Told: f.told}
	if age := wall - f.used; age < 0 {
		s.At = max(wall, 1)
	}
	if f.bounds.floorRPM > 0 {
		s.Rate = state.Search(f.rate.State(instant))
	}
	if f.bounds.floorSlots > 0 {
		s.Slots = state.Search(f.slots.State(instant))
	}
	return s
}

// opens returns the instant from which on the next request may start.
func (f *found) opens() int64 {
	if f == nil || f.told || f.bounds.floorRPM == 0 {
		return 0
	}
	return f.next
}

// opensAtBest is opens if the calls in flight are taken back.
func (f *found) opensAtBest(inFlight int) int64 {
	opens := f.opens()
	for ; inFlight > 0 && opens > math.MinInt64/2; inFlight-- {
		opens -= f.gap
	}
	return opens
}

// idle returns for how long the model was not used, if what was found of it has aged by that.
func (f *found) idle(wall int64) time.Duration {
	if idle := wall - f.used; idle > idleAfter {
		return time.Duration(idle)
	}
	return 0
}

// limits returns the limits that were found, in requests per minute and calls in flight, 0 where
// none is searched for.
func (f *found) limits(instant, wall int64) (rpm, slots int) {
	if f == nil {
		return 0, 0
	}
	rate, places := f.rate, f.slots
	idle := f.idle(wall)
	if f.bounds.floorRPM > 0 && !f.told {
		if idle > 0 {
			rate.Resume(rate.State(instant), instant, idle)
		}
		rpm = perMinute(rate.Rate())
	}
	if f.bounds.floorSlots > 0 {
		if idle > 0 {
			places.Resume(places.State(instant), instant, idle)
		}
		slots = places.Limit()
	}
	return rpm, slots
}

// perMinute returns a rate in units per minute, rounded to the nearest.
func perMinute(r limit.Rate) int { return scaledInt(int64(r.Count), minute, int64(r.Per)) }

// scaledInt returns n·num/den, rounded to the nearest. All are positive, and the result fits.
func scaledInt(n, num, den int64) int {
	high, low := bits.Mul64(uint64(n), uint64(num))
	low, carry := bits.Add64(low, uint64(den)/2, 0)
	scaled, _ := bits.Div64(high+carry, low, uint64(den))
	return int(scaled)
}

// limitSlots has the quota limit the calls in flight by what was found. While there are none, as many
// may start together as there may ever be: else more than were found could never start together.
func (f *found) limitSlots(q *ModelQuota, g *slots) {
	most := f.bounds.ceilingSlots
	if most == 0 {
		return
	}
	if g.calls() > 0 {
		most = f.slots.Limit()
	}
	if q.MaxInFlight == 0 || most < q.MaxInFlight {
		q.MaxInFlight = most
	}
}

// isDue reports whether a search has to go on before the next request is charged.
func (f *found) isDue(instant, wall int64) bool {
	return f.idle(wall) > 0 ||
		f.bounds.floorRPM > 0 && !f.told && f.rate.Ready(instant) ||
		f.bounds.floorSlots > 0 && f.slots.Ready(instant)
}

// findOnLocked has a search go on with a request that was charged. Nil found is none.
func (rl *RateLimiter) findOnLocked(f *found, w *window, instant int64) {
	if f == nil {
		return
	}
	wall := rl.clock.UnixNano(instant)
	if f.isDue(instant, wall) && f.goOn(instant, wall) != 0 {
		rl.changedNowLocked()
	}
	f.count(instant, wall, 1, w.slots.calls(), rl.ledger.sharersLocked())
}

// goOn ages what was found of a model that was idle, or raises the limits whose windows were clean.
// Of the request that passes now nobody knows yet whether it is refused. It returns which of the
// windows begin anew.
func (f *found) goOn(instant, wall int64) (anew int64) {
	if idle := f.idle(wall); idle > 0 {
		known := f.present(instant, wall)
		f.resume(&known, instant, idle)
		f.used = wall
		return state.RateAnew | state.SlotsAnew
	}
	if f.bounds.floorRPM > 0 && !f.told && f.rate.Ready(instant) {
		f.rate.Raise(instant)
		f.follow(instant)
		anew = state.RateAnew
	}
	if f.bounds.floorSlots > 0 && f.slots.Ready(instant) {
		f.slots.Raise(instant)
		anew |= state.SlotsAnew
	}
	return anew
}

// count counts requests that were charged at an instant, when so many calls are in flight, theirs
// included. Each of the sharers has its part of the rate.
func (f *found) count(instant, wall int64, requests, inFlight, sharers int) {
	if f.bounds.floorRPM > 0 {
		if instant >= f.since {
			f.rate.Count(instant, requests)
		}
		gap := min(f.gap, maxLeft/int64(max(sharers, 1))) * int64(max(sharers, 1))
		f.next = max(f.next, instant-lateness)
		for range requests {
			f.next = min(f.next+gap, instant+maxLeft)
		}
	}
	if f.bounds.floorSlots > 0 && inFlight >= f.slots.Limit() {
		f.slots.Full()
	}
	f.used = max(f.used, wall)
}

// uncount takes a request back that was not sent.
func (f *found) uncount(instant int64) {
	if f.next > instant {
		f.next = max(f.next-f.gap, instant-lateness)
	}
}

// endFoundLocked notes that a call that was sent has ended.
func (r *Reservation) endFoundLocked() {
	rl := r.home
	if len(rl.found) == 0 {
		return
	}
	if f := rl.found[r.slots.name]; f != nil && f.bounds.floorSlots > 0 {
		f.slots.Ended(rl.clock.Now())
	}
}

// uncountFoundLocked takes back the request of a call that was not sent.
func (r *Reservation) uncountFoundLocked() {
	if rl := r.home; len(rl.found) > 0 {
		if f := rl.found[r.slots.name]; f != nil {
			f.uncount(rl.clock.Now())
		}
	}
}
