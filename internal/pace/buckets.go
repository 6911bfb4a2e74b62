package pace

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// Unit is what one of the Buckets counts. Those that count tokens follow Requests in the
// order of tokens.Kind.
type Unit int

// The units.
const (
	Requests Unit = iota
	AllTokens
	InputTokens
	OutputTokens
	Units // how many there are
)

// kind is which tokens a unit counts.
func (u Unit) kind() tokens.Kind { return tokens.Kind(u - AllTokens) }

// Quota is what of a quota spreads the calls inside the minute. Quotas can be compared with
// ==.
type Quota struct {
	PerMinute [Units]int    // by Unit; 0 for no limit
	Burst     time.Duration // the time whose share of PerMinute may start back to back
	// Sharers is among how many limiters the quota is divided that do not know each other's
	// charges: the buckets have one share. 0 and 1 are none but this one.
	Sharers int
}

// Buckets are the buckets of one window: they hold what the calls have charged, and drain at
// the rate of the quota. They follow every change of the window, so that an estimate that was
// too high is given back, and a call that arrives late counts when it arrives.
//
// Everything is measured in the time that it takes to drain: the whole quota is a minute, and
// the burst is itself. What the window has of a bucket is never more than a minute, so a
// bucket that is idle for one is empty, as the window then is.
//
// Instants are nanoseconds on the limiter's time line. Nil Buckets hold nothing and follow
// nothing. Buckets are not safe for concurrent use.
type Buckets struct {
	quota   Quota
	buckets [Units]bucket

	// So many of the oldest requests and tokens were charged under another quota, at another
	// price. Changes of them come too late for the buckets.
	pricedRequests, pricedTokens int
}

// bucket is the bucket of one unit.
type bucket struct {
	Backlog
	// carry is what rounding left of the last price, in nanoseconds divided by the limit. So
	// the prices of charges that follow each other while the bucket is not empty sum up to the
	// price of their sum, rounded up.
	carry uint64
}

// New returns the buckets of a quota, filled with the charges of a window of that many
// nanoseconds: its requests, each with its instant, and its tokens.
//
// Charges before the window are not known: they count as having filled the burst when the window
// begins. That is so for a program that was busy all the time, and makes no difference after a
// short pause since.
func New(q Quota, instant, window int64, charges Charges) *Buckets {
	b := &Buckets{quota: q}
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

// Charges are the charges that a window holds, oldest first.
type Charges interface {
	Requests() int // how many there are
	RequestAt(i int) (instant int64)
	Tokens() int
	TokensAt(i int) (instant int64, c tokens.Count)
}

// Take makes the buckets hold what those of another quota do, at the price of this one. The
// charges keep the price that they were charged at, whatever becomes of them. Where only the number
// of sharers is another one, what is left drains as it did: each of them has its share of the rest.
// Where that is less than a request, the first one starts when there is as much.
func (b *Buckets) Take(was *Buckets, instant int64, charges Charges) {
	for u := range b.buckets {
		empty := b.buckets[u].Empty()
		if old := was.quota.PerMinute[u]; old > 0 && b.quota.PerMinute[u] > 0 {
			left := min(max(int64(was.buckets[u].Empty())-instant, 0), minute)
			empty = time.Duration(instant + rescale(left, old, b.quota.PerMinute[u]))
			if one, _ := b.price(Unit(u), 1, b.roundUp(Unit(u))); b.quota.Sharers > was.quota.Sharers {
				empty += max(one-b.quota.Burst, 0)
			}
		}
		b.buckets[u].Reset(empty)
	}
	b.pricedRequests, b.pricedTokens = charges.Requests(), charges.Tokens()
}

// Of reports whether the buckets are those of a quota.
func (b *Buckets) Of(q Quota) bool { return b != nil && b.quota == q }

// Opens returns how long it takes until n of a unit may start: all of them where they are no
// more than the burst, and otherwise once the bucket is empty. It is zero or negative where
// they may start now.
func (b *Buckets) Opens(u Unit, n int, instant int64) time.Duration {
	if b.quota.PerMinute[u] <= 0 {
		return 0
	}
	price, _ := b.price(u, n, b.carryAt(u, instant))
	return b.buckets[u].Empty() - max(b.quota.Burst-price, 0) - time.Duration(instant)
}

// Empty returns the instant at which the bucket of a unit is empty, if nothing is added.
func (b *Buckets) Empty(u Unit) int64 { return int64(b.buckets[u].Empty()) }

// MostFull returns up to which instant the bucket of a unit may hold something for n of it to
// start at an instant to come.
func (b *Buckets) MostFull(u Unit, n int, instant int64) int64 {
	price, _ := b.price(u, n, b.roundUp(u))
	return instant + int64(max(b.quota.Burst-price, 0))
}

// Admit reports whether so many requests and tokens may start now.
func (b *Buckets) Admit(requests int, c tokens.Count, instant int64) bool {
	if b.Opens(Requests, requests, instant) > 0 {
		return false
	}
	for u := AllTokens; u < Units; u++ {
		if b.Opens(u, c.Of(u.kind()), instant) > 0 {
			return false
		}
	}
	return true
}

// PushRequest follows the charge of a request, no older than those before it.
func (b *Buckets) PushRequest(instant int64) {
	if b != nil {
		b.push(Requests, instant, 1)
	}
}

// PushTokens follows the charge of tokens, no older than those before them.
func (b *Buckets) PushTokens(instant int64, c tokens.Count) {
	if b == nil {
		return
	}
	for u := AllTokens; u < Units; u++ {
		b.push(u, instant, c.Of(u.kind()))
	}
}

func (b *Buckets) push(u Unit, instant int64, n int) {
	if b.quota.PerMinute[u] <= 0 {
		return
	}
	price, carry := b.price(u, n, b.carryAt(u, instant))
	b.buckets[u].carry = carry
	b.buckets[u].Push(time.Duration(instant), price, time.Duration(minute))
}

// SetTokens follows a change of the i-th oldest tokens, which were charged at an instant.
func (b *Buckets) SetTokens(i int, instant int64, c tokens.Count) {
	if b == nil || i < b.pricedTokens {
		return
	}
	for u := AllTokens; u < Units; u++ {
		if b.quota.PerMinute[u] > 0 {
			price, _ := b.price(u, c.Of(u.kind()), b.roundUp(u))
			b.buckets[u].Set(i-b.pricedTokens, time.Duration(instant), price, time.Duration(minute))
		}
	}
}

// Priced reports whether the request-th oldest request or the token-th oldest tokens were
// charged under another quota. Negative stands for none.
func (b *Buckets) Priced(request, token int) bool {
	return request >= 0 && request < b.pricedRequests || token >= 0 && token < b.pricedTokens
}

// RemoveRequest follows the removal of the i-th oldest request.
func (b *Buckets) RemoveRequest(i int) {
	switch {
	case b == nil:
	case i < b.pricedRequests:
		b.pricedRequests--
	case b.quota.PerMinute[Requests] > 0:
		b.buckets[Requests].Remove(i - b.pricedRequests)
	}
}

// RemoveTokens follows the removal of the i-th oldest tokens.
func (b *Buckets) RemoveTokens(i int) {
	switch {
	case b == nil:
		return
	case i < b.pricedTokens:
		b.pricedTokens--
		return
	}
	for u := AllTokens; u < Units; u++ {
		if b.quota.PerMinute[u] > 0 {
			b.buckets[u].Remove(i - b.pricedTokens)
		}
	}
}

// InsertRequest follows a request that becomes the i-th oldest.
func (b *Buckets) InsertRequest(i int, instant int64) {
	if b != nil {
		b.insert(Requests, i-b.pricedRequests, instant, 1)
		b.countPricedRequest(i)
	}
}

// InsertPrepaidRequest is InsertRequest for one that the buckets hold already, at its price
// under another quota.
func (b *Buckets) InsertPrepaidRequest(i int, instant int64) {
	if b != nil {
		b.insertPrepaid(Requests, i-b.pricedRequests, instant)
		b.countPricedRequest(i)
	}
}

func (b *Buckets) countPricedRequest(i int) {
	if i < b.pricedRequests {
		b.pricedRequests++
	}
}

// InsertTokens follows tokens that become the i-th oldest.
func (b *Buckets) InsertTokens(i int, instant int64, c tokens.Count) {
	if b == nil {
		return
	}
	for u := AllTokens; u < Units; u++ {
		b.insert(u, i-b.pricedTokens, instant, c.Of(u.kind()))
	}
	b.countPricedTokens(i)
}

// InsertPrepaidTokens is InsertTokens for those that the buckets hold already, at their price
// under another quota.
func (b *Buckets) InsertPrepaidTokens(i int, instant int64) {
	if b == nil {
		return
	}
	for u := AllTokens; u < Units; u++ {
		b.insertPrepaid(u, i-b.pricedTokens, instant)
	}
	b.countPricedTokens(i)
}

func (b *Buckets) countPricedTokens(i int) {
	if i < b.pricedTokens {
		b.pricedTokens++
	}
}

// insert adds a charge before the one at a place among those that can be changed; a negative
// place is before all of them.
func (b *Buckets) insert(u Unit, place int, instant int64, n int) {
	if b.quota.PerMinute[u] <= 0 {
		return
	}
	if place == b.buckets[u].Len() {
		b.push(u, instant, n) // so that the prices of charges in a row sum up exactly
		return
	}
	price, _ := b.price(u, n, b.roundUp(u))
	if place < 0 {
		b.buckets[u].Before(time.Duration(instant), price, time.Duration(minute))
	} else {
		b.buckets[u].Insert(place, time.Duration(instant), price, time.Duration(minute))
	}
}

// insertPrepaid adds a charge that costs nothing and makes nothing run over, so that the
// places stay those of the window.
func (b *Buckets) insertPrepaid(u Unit, place int, instant int64) {
	if b.quota.PerMinute[u] > 0 && place >= 0 {
		b.buckets[u].Insert(place, time.Duration(instant), 0, bottomless)
	}
}

// Drop follows the oldest requests and tokens out of the window. The buckets keep the remaining
// effect of their charges.
func (b *Buckets) Drop(requests, tokens int) {
	if b == nil {
		return
	}
	priced := min(b.pricedRequests, requests)
	b.pricedRequests -= priced
	if b.quota.PerMinute[Requests] > 0 {
		b.buckets[Requests].Drop(requests - priced)
	}
	priced = min(b.pricedTokens, tokens)
	b.pricedTokens -= priced
	for u := AllTokens; u < Units; u++ {
		if b.quota.PerMinute[u] > 0 {
			b.buckets[u].Drop(tokens - priced)
		}
	}
}
