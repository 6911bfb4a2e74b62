package account

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// unit is what one of the buckets counts. Those that count tokens follow unitRequests in the
// order of state.TokenKind.
type unit int

// The units.
const (
	unitRequests unit = iota
	unitTokens
	unitInput
	unitOutput
	unitCount // how many there are
)

// kind is which tokens a unit counts.
func (u unit) kind() state.TokenKind { return state.TokenKind(u - unitTokens) }

// paceQuota is what of a quota spreads the calls inside the minute. Quotas can be compared with
// ==.
type paceQuota struct {
	PerMinute [unitCount]int // by unit; 0 for no limit
	Burst     time.Duration  // the time whose share of PerMinute may start back to back
	// Sharers is among how many limiters the quota is divided that do not know each other's
	// charges: the buckets have one share. 0 and 1 are none but this one.
	Sharers int
}

// buckets are the leaky buckets of one window, which spread its calls for ModelQuota.Burst: they
// hold what the calls have charged, and drain at the rate of the quota. They follow every change of
// the window, so that an estimate that was too high is given back, and a call that arrives late
// counts when it arrives.
//
// Everything is measured in the time that it takes to drain: the whole quota is a minute, and
// the burst is itself. What the window has of a bucket is never more than a minute, so a
// bucket that is idle for one is empty, as the window then is.
//
// Instants are nanoseconds on the limiter's time line. Nil buckets hold nothing and follow
// nothing. They are not safe for concurrent use.
type buckets struct {
	quota   paceQuota
	buckets [unitCount]bucket

	// So many of the oldest requests and tokens were charged under another quota, at another
	// price. Changes of them come too late for the buckets.
	pricedRequests, pricedTokens int
}

// bucket is the bucket of one unit.
type bucket struct {
	backlog
	// carry is what rounding left of the last price, in nanoseconds divided by the limit. So
	// the prices of charges that follow each other while the bucket is not empty sum up to the
	// price of their sum, rounded up.
	carry uint64
}

// newBuckets returns the buckets of a quota, filled with the charges of a window of that many
// nanoseconds: its requests, each with its instant, and its tokens.
//
// Charges before the window are not known: they count as having filled the burst when the window
// begins. That is so for a program that was busy all the time, and makes no difference after a
// short pause since.
func newBuckets(q paceQuota, instant, window int64, charges chargeLog) *buckets {
	b := &buckets{quota: q}
	for u := range b.buckets {
		b.buckets[u].Reset(time.Duration(instant-window) + q.Burst)
	}
	for i := range charges.Requests() {
		b.PushRequest(charges.RequestAt(i))
	}
	for i := range charges.Tokens() {
		at, c := charges.TokensAt(i)
		b.PushTokens(at, c)
	}
	return b
}

// chargeLog is the charges that a window holds, oldest first.
type chargeLog interface {
	Requests() int // how many there are
	RequestAt(i int) (instant int64)
	Tokens() int
	TokensAt(i int) (instant int64, c state.Count)
}

// Take makes the buckets hold what those of another quota do, at the price of this one. The
// charges keep the price that they were charged at, whatever becomes of them. Where only the number
// of sharers is another one, what is left drains as it did: each of them has its share of the rest.
// Where that is less than a request, the first one starts when there is as much.
func (b *buckets) Take(was *buckets, instant int64, charges chargeLog) {
	for u := range b.buckets {
		empty := b.buckets[u].Empty()
		if old := was.quota.PerMinute[u]; old > 0 && b.quota.PerMinute[u] > 0 {
			left := min(max(int64(was.buckets[u].Empty())-instant, 0), Minute)
			empty = time.Duration(instant + rescale(left, old, b.quota.PerMinute[u]))
			if one, _ := b.price(unit(u), 1, b.roundUp(unit(u))); b.quota.Sharers > was.quota.Sharers {
				empty += max(one-b.quota.Burst, 0)
			}
		}
		b.buckets[u].Reset(empty)
	}
	b.pricedRequests, b.pricedTokens = charges.Requests(), charges.Tokens()
}

// Of reports whether the buckets are those of a quota.
func (b *buckets) Of(q paceQuota) bool { return b != nil && b.quota == q }

// Opens returns how long it takes until n of a unit may start: all of them where they are no
// more than the burst, and otherwise once the bucket is empty. It is zero or negative where
// they may start now.
func (b *buckets) Opens(u unit, n int, instant int64) time.Duration {
	if b.quota.PerMinute[u] <= 0 {
		return 0
	}
	price, _ := b.price(u, n, b.carryAt(u, instant))
	return b.buckets[u].Empty() - max(b.quota.Burst-price, 0) - time.Duration(instant)
}

// Empty returns the instant at which the bucket of a unit is empty, if nothing is added.
func (b *buckets) Empty(u unit) int64 { return int64(b.buckets[u].Empty()) }

// DrainsIn returns how long it takes until all buckets are empty, if nothing is added.
func (b *buckets) DrainsIn(instant int64) (longest int64) {
	for u := range unitCount {
		if b.quota.PerMinute[u] > 0 {
			longest = max(longest, b.Empty(u)-instant)
		}
	}
	return longest
}

// Admit reports whether so many requests and tokens may start now.
func (b *buckets) Admit(requests int, c state.Count, instant int64) bool {
	if b.Opens(unitRequests, requests, instant) > 0 {
		return false
	}
	for u := unitTokens; u < unitCount; u++ {
		if b.Opens(u, c.Of(u.kind()), instant) > 0 {
			return false
		}
	}
	return true
}

// PushRequest follows the charge of a request, no older than those before it.
func (b *buckets) PushRequest(instant int64) {
	if b != nil {
		b.push(unitRequests, instant, 1)
	}
}

// PushTokens follows the charge of tokens, no older than those before them.
func (b *buckets) PushTokens(instant int64, c state.Count) {
	if b == nil {
		return
	}
	for u := unitTokens; u < unitCount; u++ {
		b.push(u, instant, c.Of(u.kind()))
	}
}

func (b *buckets) push(u unit, instant int64, n int) {
	if b.quota.PerMinute[u] <= 0 {
		return
	}
	price, carry := b.price(u, n, b.carryAt(u, instant))
	b.buckets[u].carry = carry
	b.buckets[u].Push(time.Duration(instant), price, time.Duration(Minute))
}

// SetTokens follows a change of the i-th oldest tokens, which were charged at an instant.
func (b *buckets) SetTokens(i int, instant int64, c state.Count) {
	if b == nil || i < b.pricedTokens {
		return
	}
	for u := unitTokens; u < unitCount; u++ {
		if b.quota.PerMinute[u] > 0 {
			price, _ := b.price(u, c.Of(u.kind()), b.roundUp(u))
			b.buckets[u].Set(i-b.pricedTokens, time.Duration(instant), price, time.Duration(Minute))
		}
	}
}

// Priced reports whether the request-th oldest request or the token-th oldest tokens were
// charged under another quota. Negative stands for none.
func (b *buckets) Priced(request, token int) bool {
	return request >= 0 && request < b.pricedRequests || token >= 0 && token < b.pricedTokens
}

// RemoveRequest follows the removal of the i-th oldest request.
func (b *buckets) RemoveRequest(i int) {
	switch {
	case b == nil:
	case i < b.pricedRequests:
		b.pricedRequests--
	case b.quota.PerMinute[unitRequests] > 0:
		b.buckets[unitRequests].Remove(i - b.pricedRequests)
	}
}

// RemoveTokens follows the removal of the i-th oldest tokens.
func (b *buckets) RemoveTokens(i int) {
	switch {
	case b == nil:
		return
	case i < b.pricedTokens:
		b.pricedTokens--
		return
	}
	for u := unitTokens; u < unitCount; u++ {
		if b.quota.PerMinute[u] > 0 {
			b.buckets[u].Remove(i - b.pricedTokens)
		}
	}
}

// InsertRequest follows a request that becomes the i-th oldest.
func (b *buckets) InsertRequest(i int, instant int64) {
	if b != nil {
		b.insert(unitRequests, i-b.pricedRequests, instant, 1)
		b.countPricedRequest(i)
	}
}

// InsertPrepaidRequest is InsertRequest for one that the buckets hold already, at its price
// under another quota.
func (b *buckets) InsertPrepaidRequest(i int, instant int64) {
	if b != nil {
		b.insertPrepaid(unitRequests, i-b.pricedRequests, instant)
		b.countPricedRequest(i)
	}
}

func (b *buckets) countPricedRequest(i int) {
	if i < b.pricedRequests {
		b.pricedRequests++
	}
}

// InsertTokens follows tokens that become the i-th oldest.
func (b *buckets) InsertTokens(i int, instant int64, c state.Count) {
	if b == nil {
		return
	}
	for u := unitTokens; u < unitCount; u++ {
		b.insert(u, i-b.pricedTokens, instant, c.Of(u.kind()))
	}
	b.countPricedTokens(i)
}

// InsertPrepaidTokens is InsertTokens for those that the buckets hold already, at their price
// under another quota.
func (b *buckets) InsertPrepaidTokens(i int, instant int64) {
	if b == nil {
		return
	}
	for u := unitTokens; u < unitCount; u++ {
		b.insertPrepaid(u, i-b.pricedTokens, instant)
	}
	b.countPricedTokens(i)
}

func (b *buckets) countPricedTokens(i int) {
	if i < b.pricedTokens {
		b.pricedTokens++
	}
}

// insert adds a charge before the one at a place among those that can be changed; a negative
// place is before all of them.
func (b *buckets) insert(u unit, place int, instant int64, n int) {
	if b.quota.PerMinute[u] <= 0 {
		return
	}
	if place == b.buckets[u].Len() {
		b.push(u, instant, n) // so that the prices of charges in a row sum up exactly
		return
	}
	price, _ := b.price(u, n, b.roundUp(u))
	if place < 0 {
		b.buckets[u].Before(time.Duration(instant), price, time.Duration(Minute))
	} else {
		b.buckets[u].Insert(place, time.Duration(instant), price, time.Duration(Minute))
	}
}

// insertPrepaid adds a charge that costs nothing and makes nothing run over, so that the
// places stay those of the window.
func (b *buckets) insertPrepaid(u unit, place int, instant int64) {
	if b.quota.PerMinute[u] > 0 && place >= 0 {
		b.buckets[u].Insert(place, time.Duration(instant), 0, bottomless)
	}
}

// Drop follows the oldest requests and tokens out of the window. The buckets keep the remaining
// effect of their charges.
func (b *buckets) Drop(requests, tokens int) {
	if b == nil {
		return
	}
	priced := min(b.pricedRequests, requests)
	b.pricedRequests -= priced
	if b.quota.PerMinute[unitRequests] > 0 {
		b.buckets[unitRequests].Drop(requests - priced)
	}
	priced = min(b.pricedTokens, tokens)
	b.pricedTokens -= priced
	for u := unitTokens; u < unitCount; u++ {
		if b.quota.PerMinute[u] > 0 {
			b.buckets[u].Drop(tokens - priced)
		}
	}
}
